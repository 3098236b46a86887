"""Claims in use by pods, and volumes bound to claims, are not deleted under them: a finalizer holds them until then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.pictures import claims_of, pods_by_claim

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench

OF_CLAIMS, OF_VOLUMES = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


class Protection:
    """Both controllers."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._claims = bench.informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = bench.informers.of(PERSISTENT_VOLUMES)
        self._pods = bench.informers.of(PODS)
        self._pods_by_claim = pods_by_claim(bench.informers)
        self._claim_queue = bench.controller(self._look_at_claim, self._claims, self._pods)
        self._volume_queue = bench.controller(self._look_at_volume, self._volumes)
        follow(self._claim_queue, self._claims)
        follow(self._volume_queue, self._volumes)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await asyncio.gather(self._claim_queue.run(), self._volume_queue.run())

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        """A pod that is over, or gone, may have been a claim's last."""
        if old and (new is None or is_over(new)):
            for ref in claims_of(old):
                self._claim_queue.enqueue(ref)

    async def _look_at_claim(self, ref: Ref) -> None:
        claim = self._claims.objects.get(ref)
        if claim:
            in_use = any(not is_over(pod) for pod in self._pods_by_claim.of(ref))
            await self._hold(PERSISTENT_VOLUME_CLAIMS, claim, OF_CLAIMS, in_use=in_use)

    async def _look_at_volume(self, ref: Ref) -> None:
        volume = self._volumes.objects.get(ref)
        if volume:
            in_use = (volume.get("status") or {}).get("phase") == "Bound"
            await self._hold(PERSISTENT_VOLUMES, volume, OF_VOLUMES, in_use=in_use)

    async def _hold(self, resource: Resource, obj: Obj, finalizer: str, *, in_use: bool) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            wanted = finalizers if finalizer in finalizers else [*finalizers, finalizer]
        else:
            wanted = finalizers if in_use else [name for name in finalizers if name != finalizer]
        if wanted != finalizers:
            await self._bench.api.update(resource, {**obj, "metadata": {**metadata, "finalizers": wanted}})


def is_over(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
