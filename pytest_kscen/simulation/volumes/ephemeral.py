"""Generic ephemeral volumes: a claim for each, of the pod's own, that goes with the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PODS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


class EphemeralVolumes:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pods = bench.informers.of(PODS)
        self._controller = bench.controller(self._make, self._pods)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and any("ephemeral" in volume for volume in new["spec"].get("volumes") or ()):
            self._controller.enqueue(Ref.of(new))

    async def run(self) -> None:
        await self._controller.run()

    async def _make(self, ref: Ref) -> None:
        pod = self._pods.objects.get(ref)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                try:
                    await self._bench.api.create(PERSISTENT_VOLUME_CLAIMS, claim_for(pod, volume))
                except AlreadyExists:
                    continue


def claim_for(pod: Obj, volume: Obj) -> Obj:
    metadata, template = pod["metadata"], volume["ephemeral"]["volumeClaimTemplate"]
    given = template.get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"{metadata['name']}-{volume['name']}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
            **{name: given[name] for name in ("labels", "annotations") if name in given},
        },
        "spec": template["spec"],
    }
