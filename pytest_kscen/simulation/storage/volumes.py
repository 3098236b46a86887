"""The volume controller: a new volume becomes ready after the time that making its replicas takes; a deleted one is let go.

It works only while one of the storage's controller pods is ready, as a storage whose controllers are down would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.informer import Informers, Ref
from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.storage import HEALTH, NAMESPACE, REPLICATED_VOLUMES
from pytest_kscen.simulation.controller import Controller

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

FINALIZER = "sds-replicated-volume.deckhouse.io/controller"
FORMING = 3.0  # seconds from a volume's creation to its first replicas in sync
REASONS = {"IOReady": "IOReady", "Quorum": "QuorumReached"}
LOOK_AGAIN = 1.0


async def volume_controller(api: Api, clock: Clock) -> None:
    await VolumeController(api, clock).run()


class VolumeController:
    """Reconciles ReplicatedVolumes."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._informers = Informers(api, clock)

    async def run(self) -> None:
        controller = Controller("replicated-volumes", self._clock, self._reconcile)
        volumes = self._informers.of(REPLICATED_VOLUMES)
        volumes.on_change(lambda new, old: controller.enqueue(Ref.of(new or old or {})))
        self._pods = self._informers.of(PODS)
        self._volumes = volumes
        await controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        volume = self._volumes.get(ref.name)
        if volume is None:
            return None
        if not self._controllers_work():
            return LOOK_AGAIN
        metadata = volume["metadata"]
        if metadata.get("deletionTimestamp"):
            await self._set_finalizers(volume, [name for name in metadata.get("finalizers", ()) if name != FINALIZER])
        elif FINALIZER not in metadata.get("finalizers", ()):
            await self._set_finalizers(volume, [*metadata.get("finalizers", ()), FINALIZER])
            return FORMING
        elif not all(is_true(volume, name) for name in HEALTH):
            await self._set_ready(volume)
        return None

    def _controllers_work(self) -> bool:
        return any(
            is_true(pod, "Ready")
            for pod in self._pods
            if pod["metadata"]["namespace"] == NAMESPACE and pod["metadata"].get("labels", {}).get("app") == "controller"
        )

    async def _set_finalizers(self, volume: Obj, finalizers: list[str]) -> None:
        await self._api.patch(REPLICATED_VOLUMES, volume["metadata"]["name"], {"metadata": {"finalizers": finalizers}})

    async def _set_ready(self, volume: Obj) -> None:
        now = timestamp_of(self._clock.now())
        conditions = volume.get("status", {}).get("conditions")
        for name in HEALTH:
            conditions = set_condition(conditions, {"type": name, "status": "True", "reason": REASONS[name], "message": ""}, now)
        name = volume["metadata"]["name"]
        await self._api.patch(REPLICATED_VOLUMES, name, {"status": {"conditions": conditions}}, subresource="status")
