"""Pods are destroyed. It lasts until what owns them has put others in their place, which nobody else can do."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.blame import Reach
from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.sight import seen
from pytest_kscen.chaos.troubles import VOLUME
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
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
    """Of this many pods with a label, whichever chance says."""

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
        doomed = hands.nested.chance.sample(pods, self.count)
        if not doomed:
            raise Impossible(f"there is no pod with {self.label} in the namespace {self.namespace!r} to be destroyed")
        return dataclasses.replace(self, doomed=tuple(doomed), before=frozenset(pod["metadata"]["uid"] for pod in pods))

    async def inject(self, incident: Incident) -> None:
        actor = incident.hands.nested
        gone = 0
        for pod in self.doomed:
            try:
                await actor.api.delete(PODS, pod["metadata"]["name"], self.namespace)
                gone += 1
            except NotFound:
                incident.note("already-gone", pod=pod["metadata"]["name"])
        if gone:
            incident.has_effect(f"{gone} of {len(self.before)} pods with {self.label} are gone or going")

    async def heal(self, incident: Incident) -> None:
        wanted = missing(self.doomed)
        try:
            await seen(
                incident.hands.nested,
                PODS,
                self.namespace,
                labels=self.label,
                condition=lambda pods: self._replaced(wanted, pods),
                timeout=REPLACING,
            )
        except TimeoutError:
            incident.note("pods-missing", label=self.label, waited=REPLACING)

    def _replaced(self, wanted: dict[str, int], pods: Iterable[Obj]) -> bool:
        fresh = [pod for pod in pods if pod["metadata"]["uid"] not in self.before and is_true(pod, "Ready")]
        return all(sum(_owner(pod).get("uid") == owner for pod in fresh) >= count for owner, count in wanted.items())


def missing(doomed: Iterable[Obj]) -> dict[str, int]:
    """How many pods each owner has to make anew: it has already done so for those that were going or over before."""
    wanted: dict[str, int] = {}
    for pod in doomed:
        going = pod["metadata"].get("deletionTimestamp") or (pod.get("status") or {}).get("phase") in OVER
        if (owner := _owner(pod).get("uid", "")) and not going:
            wanted[owner] = wanted.get(owner, 0) + 1
    return wanted


def _owner(pod: Obj) -> Obj:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
