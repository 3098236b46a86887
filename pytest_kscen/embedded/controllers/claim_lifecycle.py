"""Protect claims and volumes in use from deletion, and create claims for ephemeral volumes.

Two controllers of kube-controller-manager share the module. Started by `actors`; neither binds a
claim, which is the persistent volume controller's work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.indexes import claims_of, pods_by_claim
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj, Resource


CLAIM_FINALIZER, VOLUME_FINALIZER = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


class VolumeProtection:
    """Keep a finalizer on claims that pods use and on volumes that are bound.

    Both protection controllers of Kubernetes in one: the finalizer is added to every live object,
    and is removed from an object under deletion once nothing uses the object.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = context.informers.of(PERSISTENT_VOLUMES)
        self._pods = context.informers.of(PODS)
        self._pods_by_claim = pods_by_claim(context.informers)
        self._claim_queue = context.controller(self._sync_claim, self._claims, self._pods)
        self._volume_queue = context.controller(self._sync_volume, self._volumes)
        follow(self._claim_queue, self._claims)
        follow(self._volume_queue, self._volumes)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await asyncio.gather(self._claim_queue.run(), self._volume_queue.run())

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Enqueue the claims of a pod that has finished or is gone. It may have been the last
        to use them.
        """
        if old and (new is None or has_finished(new)):
            for ref in claims_of(old):
                self._claim_queue.enqueue(ref)

    async def _sync_claim(self, ref: Ref) -> None:
        claim = self._claims.objects.get(ref)
        if claim:
            in_use = any(not has_finished(pod) for pod in self._pods_by_claim.of(ref))
            await self._sync_finalizer(
                PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_FINALIZER, in_use=in_use
            )

    async def _sync_volume(self, ref: Ref) -> None:
        volume = self._volumes.objects.get(ref)
        if volume:
            in_use = (volume.get("status") or {}).get("phase") == "Bound"
            await self._sync_finalizer(PERSISTENT_VOLUMES, volume, VOLUME_FINALIZER, in_use=in_use)

    async def _sync_finalizer(
        self, resource: Resource, obj: Obj, finalizer: str, *, in_use: bool
    ) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            desired = finalizers if finalizer in finalizers else [*finalizers, finalizer]
        else:
            desired = finalizers if in_use else [name for name in finalizers if name != finalizer]
        if desired != finalizers:
            await self._context.api.update(
                resource, {**obj, "metadata": {**metadata, "finalizers": desired}}
            )


def has_finished(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


class EphemeralVolumes(Reconciler):
    """Create the claim of each generic ephemeral volume of a pod.

    The pod owns its claims as their controller, so the garbage collector deletes them with the pod.
    An existing claim is left alone.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._pods = context.informers.of(PODS)
        super().__init__(context, self._pods)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and any("ephemeral" in volume for volume in new["spec"].get("volumes") or ()):
            self._controller.enqueue(Ref.of(new))

    async def _reconcile(self, ref: Ref) -> None:
        pod = self._pods.objects.get(ref)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                try:
                    await self._context.api.create(PERSISTENT_VOLUME_CLAIMS, claim_for(pod, volume))
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
