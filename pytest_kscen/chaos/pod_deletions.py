"""Fault of pod-destroy: pods with a label are deleted, and others take their places."""

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


REPLACING = 300.0  # seconds after which it is over even if pods are still missing
OVER = ("Succeeded", "Failed")
DAEMON, ANYWHERE = "DaemonSet", "anywhere"


@dataclass(frozen=True, slots=True)
class PodDeletion:
    """Deletion of `count` random pods with a label, of those that are not being deleted."""

    label: str
    count: int
    namespace: str = NAMESPACE
    least: int = 1
    """Minimum number of pods: with fewer, the fault is impossible."""
    doomed: tuple[Obj, ...] = field(default=(), repr=False)
    before: frozenset[str] = field(default=frozenset(), repr=False)

    profile: ClassVar[str] = PodDestroy.name
    variant: ClassVar[str] = PodDestroy.name
    passes: ClassVar[bool] = True

    @property
    def targets(self) -> dict[str, list[str]]:
        return {"pods": [pod["metadata"]["name"] for pod in self.doomed], "nodes": self._served}

    @property
    def reach(self) -> Reach:
        return Reach((VOLUME,), tuple(self._served))

    @property
    def _served(self) -> list[str]:
        """Return nodes whose own pod is deleted; other pods have replicas elsewhere."""
        serving = {
            pod["spec"].get("nodeName", "")
            for pod in self.doomed
            if _owner(pod).get("kind") == DAEMON
        }
        return sorted(serving - {""})

    async def aim(self, clients: ClusterClients) -> PodDeletion:
        pods = (await clients.nested.api.list(PODS, self.namespace, labels=self.label)).items
        staying = [
            pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and (pod.get("status") or {}).get("phase") not in OVER
        ]
        if len(staying) < self.least:
            found = {0: "is no pod", 1: "is one pod"}.get(len(staying), f"are {len(staying)} pods")
            wanted = f", and not {self.least}" if staying else ""
            going = len(pods) - len(staying)
            raise FaultImpossible(
                f"there {found} with {self.label} in the namespace {self.namespace!r} to be "
                f"destroyed{wanted}" + (f": {going} go already" if going else "")
            )
        doomed = clients.nested.chance.sample(staying, self.count)
        return dataclasses.replace(self, doomed=tuple(doomed), before=_uids(pods))

    async def inject(self, incident: Incident) -> None:
        actor = incident.clients.nested
        for pod in self.doomed:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            try:
                with incident.answers.of(uid):
                    await actor.api.delete(PODS, name, self.namespace, precondition_uid=uid)
            except (NotFound, Conflict):  # it is gone, and perhaps another has its name
                if uid not in incident.answers:
                    incident.note("already-gone", pod=name)
        incident.reaches(self._of(incident.answers).reach)

    async def heal(self, incident: Incident) -> None:
        own: PodDeletion | None = None

        def over(pods: Iterable[Obj]) -> bool:
            nonlocal own
            own = own or self._done(incident, pods)
            return own.is_over(incident, pods)

        actor = incident.clients.nested
        try:
            await wait_for_list(
                *(actor.api, actor.clock, PODS, self.namespace),
                labels=self.label,
                condition=over,
                timeout=REPLACING,
            )
        except TimeoutError:
            incident.note("pods-missing", label=self.label, waited=REPLACING)

    def _of(self, uids: Container[str]) -> PodDeletion:
        """Return the same fault for these pods alone."""
        return dataclasses.replace(
            self, doomed=tuple(pod for pod in self.doomed if pod["metadata"]["uid"] in uids)
        )

    def _done(self, incident: Incident, pods: Iterable[Obj]) -> PodDeletion:
        """Return the part of the fault that was done.

        A pod that stays, while the answer to its deletion was lost, was not deleted.
        """
        staying = _uids(pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
        incident.answers.never(staying)
        own = self._of(incident.answers)
        if incident.answers:
            incident.refused(set(self.targets["nodes"]) - set(own.targets["nodes"]))
        incident.reaches(own.reach)
        return own

    def is_over(self, incident: Incident, pods: Iterable[Obj]) -> bool:
        """Return True if all are deleted and replaced."""
        there = _uids(pods)
        for pod in self.doomed:
            uid = pod["metadata"]["uid"]
            if uid not in there and uid not in incident.parts_done:
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
        return there.isdisjoint(_uids(self.doomed)) and self._replaced(pods)

    def _replaced(self, pods: Iterable[Obj]) -> bool:
        """Return True if each owner has as many new ready pods as it has lost."""
        lost = [_place(pod) for pod in self.doomed]
        fresh = [
            _place(pod)
            for pod in pods
            if pod["metadata"]["uid"] not in self.before and is_true(pod, "Ready")
        ]
        return all(fresh.count(place) >= lost.count(place) for place in lost if all(place))


def _uids(pods: Iterable[Obj]) -> frozenset[str]:
    return frozenset(pod["metadata"]["uid"] for pod in pods)


def _place(pod: Obj) -> tuple[Obj, str]:
    """Return a pod's owner and required node. A pod without an owner, or one that was to serve
    a node and never came to it, has none.
    """
    owner = _owner(pod)
    return owner, pod["spec"].get("nodeName", "") if owner.get("kind") == DAEMON else ANYWHERE


def _owner(pod: Obj) -> Obj:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


async def destroy_pods(profile: PodDestroy, context: RunContext, stop: Signal) -> None:
    """Delete pods of each label again and again, side by side, until `stop` is given."""
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
