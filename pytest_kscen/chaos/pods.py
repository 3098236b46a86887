"""pod-destroyer: deletes some of the pods with a label, again and again. Each deletion is an incident until all are back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.chaos.incidents import Incident
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.selectors import parse_labels
from pytest_kscen.objects.storage import NAMESPACE

if TYPE_CHECKING:
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.objects.resources import Obj

RECOVERY = 300.0  # seconds after which an incident is over even if not all pods are back
LOOK_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class PodDestroy:
    """Which pods, how many at once, how often; ranges are (least, most), times in seconds."""

    label: str = "app=controller"
    namespace: str = NAMESPACE
    pods: tuple[int, int] = (1, 3)
    period: tuple[float, float] = (30.0, 60.0)

    profile = "pod-destroy"

    def __post_init__(self) -> None:
        if not all(isinstance(number, int) and number > 0 for number in self.pods):
            raise ValueError(f"pods={self.pods!r}: give two whole numbers, 1 or more")
        parse_labels(self.label)

    async def run(self, stage: Stage, stop: Signal) -> None:
        actor = stage.actor(f"pod-destroyer/{self.label}")
        async with asyncio.TaskGroup() as incidents:
            while not await stop.within(actor.clock, actor.chance.between(*self.period)):
                incidents.create_task(self._destroy(actor))

    async def _destroy(self, actor: Actor) -> None:
        pods = (await actor.api.list(PODS, self.namespace, labels=self.label)).items
        doomed = actor.chance.sample(pods, actor.chance.whole(*self.pods))
        if not doomed:
            actor.note("nothing-to-destroy", label=self.label, namespace=self.namespace)
            return
        nodes = sorted({pod["spec"].get("nodeName", "") for pod in doomed} - {""})
        targets = {"pods": [pod["metadata"]["name"] for pod in doomed], "nodes": nodes}
        incident = Incident(actor, self.profile, "pod-destroy", targets)
        incident.start()
        for pod in doomed:
            await self._delete(actor, pod)
        await self._recovery(actor, incident, len(pods), {pod["metadata"]["uid"] for pod in doomed})
        incident.end()

    async def _delete(self, actor: Actor, pod: Obj) -> None:
        try:
            await actor.api.delete(PODS, pod["metadata"]["name"], self.namespace)
        except NotFound:
            actor.note("already-gone", pod=pod["metadata"]["name"])

    async def _recovery(self, actor: Actor, incident: Incident, wanted: int, doomed: set[str]) -> None:
        """Until as many pods are ready as there were, and none of them is one that was destroyed."""
        seen = False
        end = actor.clock.now() + RECOVERY
        while actor.clock.now() < end:
            pods = (await actor.api.list(PODS, self.namespace, labels=self.label)).items
            left = [pod for pod in pods if pod["metadata"]["uid"] not in doomed]
            if not seen and all(pod["metadata"].get("deletionTimestamp") for pod in pods if pod["metadata"]["uid"] in doomed):
                seen = True
                incident.has_effect(f"{len(doomed)} of {wanted} pods are gone or going")
            if seen and len([pod for pod in left if is_true(pod, "Ready")]) >= wanted:
                return
            await actor.clock.sleep(LOOK_AGAIN)
