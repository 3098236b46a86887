"""Pods are destroyed. It lasts until what owns them has put others in their place, which nobody else can do.

That one is gone is seen, and not taken from whoever accepted its deletion: on a node that is down it stays.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.blame import Reach
from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.troubles import VOLUME
from pytest_kscen.kube.waiting import wait_for_those
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.storage import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.objects.resources import Obj

REPLACING = 300.0  # seconds after which it is over even if pods are still missing
OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Destruction:
    """Of this many pods with a label, whichever chance says, but none that goes already."""

    label: str
    count: int
    namespace: str = NAMESPACE
    doomed: tuple[Obj, ...] = field(default=(), repr=False)
    before: frozenset[str] = field(default=frozenset(), repr=False)

    profile: ClassVar[str] = "pod-destroy"
    variant: ClassVar[str] = "pod-destroy"
    passes: ClassVar[bool] = True

    @property
    def targets(self) -> dict[str, list[str]]:
        nodes = sorted({pod["spec"].get("nodeName", "") for pod in self.doomed} - {""})
        return {"pods": [pod["metadata"]["name"] for pod in self.doomed], "nodes": nodes}

    @property
    def reach(self) -> Reach:
        """What serves a node is missed there; any other pod has its like elsewhere."""
        serving = [pod["spec"].get("nodeName", "") for pod in self.doomed if _owner(pod).get("kind") == "DaemonSet"]
        return Reach((VOLUME,), tuple(serving))

    async def aim(self, hands: Hands) -> Destruction:
        pods = (await hands.nested.api.list(PODS, self.namespace, labels=self.label)).items
        doomed = hands.nested.chance.sample([pod for pod in pods if not _goes(pod)], self.count)
        if not doomed:
            going = f": {len(pods)} go already" if pods else ""
            raise Impossible(f"there is no pod with {self.label} in the namespace {self.namespace!r} to be destroyed{going}")
        return dataclasses.replace(self, doomed=tuple(doomed), before=_uids(pods))

    async def inject(self, incident: Incident) -> None:
        actor = incident.hands.nested
        for pod in self.doomed:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            try:
                await actor.api.delete(PODS, name, self.namespace, precondition_uid=uid)
            except (NotFound, Conflict):  # it is gone, and perhaps another has its name
                incident.note("already-gone", pod=name)
                incident.parts_done.append(uid)

    async def heal(self, incident: Incident) -> None:
        def replaced(pods: Iterable[Obj]) -> bool:
            self._see_who_is_gone(incident, pods)
            return self._replaced(pods)

        actor = incident.hands.nested
        try:
            await wait_for_those(
                *(actor.api, actor.clock, PODS, self.namespace), labels=self.label, condition=replaced, timeout=REPLACING
            )
        except TimeoutError:
            incident.note("pods-missing", label=self.label, waited=REPLACING)

    def _see_who_is_gone(self, incident: Incident, pods: Iterable[Obj]) -> None:
        there = _uids(pods)
        for pod in self.doomed:
            uid = pod["metadata"]["uid"]
            if uid not in there and uid not in incident.parts_done:
                incident.parts_done.append(uid)
                incident.has_effect(f"the pod {pod['metadata']['name']} on {pod['spec'].get('nodeName') or 'no node'} is gone")

    def _replaced(self, pods: Iterable[Obj]) -> bool:
        """All are gone, and each owner has as many that are new and ready as it has lost."""
        lost = [_owner(pod) for pod in self.doomed]
        fresh = [_owner(pod) for pod in pods if pod["metadata"]["uid"] not in self.before and is_true(pod, "Ready")]
        return not _uids(self.doomed) & _uids(pods) and all(fresh.count(owner) >= lost.count(owner) for owner in lost if owner)


def _uids(pods: Iterable[Obj]) -> frozenset[str]:
    return frozenset(pod["metadata"]["uid"] for pod in pods)


def _goes(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) or (pod.get("status") or {}).get("phase") in OVER


def _owner(pod: Obj) -> Obj:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
