"""Fault of pod-destroy: pods with a label are deleted, and their controllers replace them."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.clients import ClusterClients, FaultImpossible
from pytest_kscen.chaos.incidents import EXPECTED_ERRORS, cause_incident, end_incident, note_skipped
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.profiles import OTHER_PODS_AT_ONCE, PODS_AT_ONCE, PodDestroy
from pytest_kscen.chaos.troubles import VOLUME, Reach
from pytest_kscen.kube.waiting import wait_for_list
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.storage import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.objects.resources import Obj


REPLACEMENT_TIMEOUT = 300.0  # seconds after which the fault ends even if pods are still missing
FINISHED = ("Succeeded", "Failed")
DAEMON, ANYWHERE = "DaemonSet", "anywhere"


@dataclass(frozen=True, slots=True)
class PodDeletion:
    """Deletion of `count` random pods with a label, of those that are not being deleted."""

    label: str
    count: int
    namespace: str = NAMESPACE
    least: int = 1
    """Minimum number of pods: with fewer, the fault is impossible."""
    chosen: tuple[Obj, ...] = field(default=(), repr=False)
    before: frozenset[str] = field(default=frozenset(), repr=False)

    profile: ClassVar[str] = PodDestroy.name
    variant: ClassVar[str] = PodDestroy.name
    passes: ClassVar[bool] = True

    @property
    def targets(self) -> dict[str, list[str]]:
        return {
            "pods": [pod["metadata"]["name"] for pod in self.chosen],
            "nodes": self._served_nodes,
        }

    @property
    def reach(self) -> Reach:
        return Reach((VOLUME,), tuple(self._served_nodes))

    @property
    def _served_nodes(self) -> list[str]:
        """Return the nodes whose DaemonSet pod is deleted; other pods have replicas elsewhere."""
        serving = {
            pod["spec"].get("nodeName", "")
            for pod in self.chosen
            if _owner(pod).get("kind") == DAEMON
        }
        return sorted(serving - {""})

    async def aim(self, clients: ClusterClients) -> PodDeletion:
        pods = (await clients.nested.api.list(PODS, self.namespace, labels=self.label)).items
        remaining = [
            pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and (pod.get("status") or {}).get("phase") not in FINISHED
        ]
        if len(remaining) < self.least:
            found = {0: "is no pod", 1: "is one pod"}.get(
                len(remaining), f"are {len(remaining)} pods"
            )
            wanted = f", and not {self.least}" if remaining else ""
            deleting = len(pods) - len(remaining)
            raise FaultImpossible(
                f"there {found} with {self.label} in the namespace {self.namespace!r} to be "
                f"destroyed{wanted}" + (f": {deleting} go already" if deleting else "")
            )
        chosen = clients.nested.chance.sample(remaining, self.count)
        return dataclasses.replace(self, chosen=tuple(chosen), before=_uids(pods))

    async def inject(self, incident: Incident) -> None:
        actor = incident.clients.nested
        for pod in self.chosen:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            try:
                with incident.answers.of(uid):
                    await actor.api.delete(PODS, name, self.namespace, precondition_uid=uid)
            except (NotFound, Conflict):  # the pod is gone, and another may have its name
                if uid not in incident.answers:
                    incident.note("already-gone", pod=name)
        incident.reaches(self._restricted_to(incident.answers).reach)

    async def heal(self, incident: Incident) -> None:
        done: PodDeletion | None = None

        def is_complete(pods: Iterable[Obj]) -> bool:
            nonlocal done
            done = done or self._keep_done(incident, pods)
            return done.is_over(incident, pods)

        actor = incident.clients.nested
        try:
            await wait_for_list(
                *(actor.api, actor.clock, PODS, self.namespace),
                labels=self.label,
                condition=is_complete,
                timeout=REPLACEMENT_TIMEOUT,
            )
        except TimeoutError:
            incident.note("pods-missing", label=self.label, waited=REPLACEMENT_TIMEOUT)

    def _restricted_to(self, uids: Container[str]) -> PodDeletion:
        """Return the same fault for these pods only."""
        return dataclasses.replace(
            self, chosen=tuple(pod for pod in self.chosen if pod["metadata"]["uid"] in uids)
        )

    def _keep_done(self, incident: Incident, pods: Iterable[Obj]) -> PodDeletion:
        """Return the part of the fault that was done.

        A pod that remains, although its deletion was not answered, was not deleted.
        """
        remaining = _uids(pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
        incident.answers.never(remaining)
        done = self._restricted_to(incident.answers)
        if incident.answers:
            incident.refused(set(self.targets["nodes"]) - set(done.targets["nodes"]))
        incident.reaches(done.reach)
        return done

    def is_over(self, incident: Incident, pods: Iterable[Obj]) -> bool:
        """Return True if all pods are deleted and replaced; report each deletion as an effect."""
        present = _uids(pods)
        for pod in self.chosen:
            uid = pod["metadata"]["uid"]
            if uid not in present and uid not in incident.parts_done:
                incident.parts_done.append(uid)
                report = (
                    incident.may_have_effect
                    if uid in incident.answers.lost
                    else incident.has_effect
                )
                report(
                    f"the pod {pod['metadata']['name']} on "
                    f"{pod['spec'].get('nodeName') or 'no node'} is gone"
                )
        return present.isdisjoint(_uids(self.chosen)) and self._replaced(pods)

    def _replaced(self, pods: Iterable[Obj]) -> bool:
        """Return True if each owner has as many new ready pods as it has lost."""
        lost = [_owner_and_node(pod) for pod in self.chosen]
        replacements = [
            _owner_and_node(pod)
            for pod in pods
            if pod["metadata"]["uid"] not in self.before and is_true(pod, "Ready")
        ]
        return all(replacements.count(key) >= lost.count(key) for key in lost if all(key))


def _uids(pods: Iterable[Obj]) -> frozenset[str]:
    return frozenset(pod["metadata"]["uid"] for pod in pods)


def _owner_and_node(pod: Obj) -> tuple[Obj, str]:
    """Return a pod's owner, and its node if the owner is a DaemonSet. Either is empty for pods
    that need no replacement: without an owner, or never scheduled.
    """
    owner = _owner(pod)
    return owner, pod["spec"].get("nodeName", "") if owner.get("kind") == DAEMON else ANYWHERE


def _owner(pod: Obj) -> Obj:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


async def destroy_pods(profile: PodDestroy, context: RunContext, stop: Signal) -> None:
    """Delete pods of each label repeatedly, all labels in parallel, until `stop` is given."""
    async with asyncio.TaskGroup() as destroyers:
        for label in profile.labels:
            name = context.next_name(f"pod-destroyer/{label}")
            destroyers.create_task(_destroy(profile, context, stop, label, name), name=name)


async def _destroy(
    profile: PodDestroy, context: RunContext, stop: Signal, label: str, name: str
) -> None:
    actor = context.actor(name)
    at_once = profile.pods or PODS_AT_ONCE.get(label, OTHER_PODS_AT_ONCE)
    async with Observer.of(context).held(), asyncio.TaskGroup() as recoveries:
        while not await stop.within(actor.chance.between(*profile.period)):
            fault = PodDeletion(label, actor.chance.whole(*at_once), profile.namespace)
            try:
                incident = await cause_incident(context, fault, by=name)
            except EXPECTED_ERRORS as error:
                note_skipped(actor, profile.name, error)
            else:
                recoveries.create_task(end_incident(incident), name=f"recovery of {incident.id}")
