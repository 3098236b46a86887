"""The volume controller: a new volume becomes ready after the time that making its replicas takes; a deleted one is let go.

It works only while one of the storage's controller pods is ready, as a storage whose controllers are down would not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.storage import HEALTH, NAMESPACE, REPLICATED_VOLUMES
from pytest_kscen.simulation.bench import Bench, follow

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj

NAME = "replicated-volume-controller"
FINALIZER = "sds-replicated-volume.deckhouse.io/controller"
FORMING = 3.0  # seconds from a volume's creation to its first replicas in sync
REASONS = {"IOReady": "IOReady", "Quorum": "QuorumReached"}
LOOK_AGAIN = 1.0


async def volume_controller(api: Api, clock: Clock) -> None:
    """Lives until it is cancelled."""
    informers = Informers(api, clock)
    volumes = Volumes(Bench.of(NAME, api, clock, informers))
    async with asyncio.TaskGroup() as together:
        together.create_task(informers.run(), name=f"{NAME}'s informers")
        together.create_task(volumes.run(), name=NAME)


class Volumes:
    """Reconciles ReplicatedVolumes."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._volumes = bench.informers.of(REPLICATED_VOLUMES)
        self._pods = bench.informers.of(PODS)
        self._controller = bench.controller(self._reconcile, self._volumes, self._pods)
        follow(self._controller, self._volumes)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        volume = self._volumes.get(ref.name)
        if volume is None:
            return None
        if not self._controllers_work():
            return LOOK_AGAIN
        metadata = volume["metadata"]
        finalizers = metadata.get("finalizers", [])
        if metadata.get("deletionTimestamp"):
            await self._set_finalizers(volume, [name for name in finalizers if name != FINALIZER])
        elif FINALIZER not in finalizers:
            await self._set_finalizers(volume, [*finalizers, FINALIZER])
        elif not all(is_true(volume, name) for name in HEALTH):
            forming = epoch_of(metadata["creationTimestamp"]) + FORMING - self._bench.now()
            if forming > 0:
                return forming
            await self._set_ready(volume)
        return None

    def _controllers_work(self) -> bool:
        return any(
            is_true(pod, "Ready")
            for pod in self._pods
            if pod["metadata"]["namespace"] == NAMESPACE and pod["metadata"].get("labels", {}).get("app") == "controller"
        )

    async def _set_finalizers(self, volume: Obj, finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers}}
        await self._bench.api.patch(REPLICATED_VOLUMES, volume["metadata"]["name"], patch)

    async def _set_ready(self, volume: Obj) -> None:
        conditions = volume.get("status", {}).get("conditions")
        for name in HEALTH:
            condition = {"type": name, "status": "True", "reason": REASONS[name], "message": ""}
            conditions = set_condition(conditions, condition, self._bench.timestamp())
        await self._bench.write_status(REPLICATED_VOLUMES, volume, {**volume.get("status", {}), "conditions": conditions})
