"""Provision and delete volumes of the built-in storage classes.

Replaces an external provisioner: `actors` starts it on the embedded cluster and with a real
control plane. Handles provisioners under `kscen.io/` only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import follow
from pytest_kscen.embedded.volume_matching import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_of,
    delays_binding,
    is_bound,
    reference_to,
    requested_storage,
)
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


PROVISIONER_PREFIX = "kscen.io/"
PROVISION_SECONDS = 1.0  # to create or to delete a volume
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"


class Provisioner:
    """Create a volume for each claim that waits for this provisioner, and delete released volumes.

    Both take `PROVISION_SECONDS` of cluster time. Binding is left to the persistent volume
    controller.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = context.informers.of(PERSISTENT_VOLUMES)
        self._classes = context.informers.of(STORAGE_CLASSES)
        self._due: dict[str, float] = {}
        informers_used = (self._claims, self._volumes, self._classes)
        self._claim_queue = context.controller(self._provision, *informers_used)
        self._volume_queue = context.controller(self._reclaim, *informers_used)
        follow(self._claim_queue, self._claims)
        follow(self._volume_queue, self._volumes)

    async def run(self) -> None:
        await asyncio.gather(self._claim_queue.run(), self._volume_queue.run())

    async def _provision(self, ref: Ref) -> float | None:
        claim = self._claims.objects.get(ref)
        if (
            claim is None
            or not str(annotations_of(claim).get(PROVISIONER, "")).startswith(PROVISIONER_PREFIX)
            or is_bound(claim)
            or claim["metadata"].get("deletionTimestamp")
        ):
            return None
        storage_class = self._classes.get(class_of(claim))
        if storage_class is None or (
            delays_binding(storage_class) and SELECTED_NODE not in annotations_of(claim)
        ):
            return None
        if wait := self._remaining_work(claim["metadata"]["uid"]):
            return wait
        volume = volume_for(claim, storage_class)
        try:
            await self._context.api.create(PERSISTENT_VOLUMES, volume)
        except AlreadyExists:
            return None
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._context.recorder.normal(claim, "ProvisioningSucceeded", message)
        return None

    async def _reclaim(self, ref: Ref) -> float | None:
        volume = self._volumes.objects.get(ref)
        if volume is None or not str(annotations_of(volume).get(PROVISIONED_BY, "")).startswith(
            PROVISIONER_PREFIX
        ):
            return None
        phase = (volume.get("status") or {}).get("phase")
        deletes = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        if not (phase == "Released" and deletes) and (
            phase == "Bound" or not volume["metadata"].get("deletionTimestamp")
        ):
            return None
        if wait := self._remaining_work(volume["metadata"]["uid"]):
            return wait
        if not volume["metadata"].get("deletionTimestamp"):
            await self._context.api.delete(PERSISTENT_VOLUMES, ref.name)
        live = await self._context.api.get(PERSISTENT_VOLUMES, ref.name)
        finalizers = [
            name for name in live["metadata"].get("finalizers") or () if name != FINALIZER
        ]
        await self._context.api.update(
            PERSISTENT_VOLUMES, {**live, "metadata": {**live["metadata"], "finalizers": finalizers}}
        )
        return None

    def _remaining_work(self, uid: str) -> float:
        """Return the seconds that the work on this object still takes; the first call starts it.

        Return 0 once when it is done, and forget it, so that a later call starts new work.
        """
        now = self._context.now()
        left = self._due.setdefault(uid, now + PROVISION_SECONDS) - now
        if left > 0:
            return left
        del self._due[uid]
        return 0.0


def volume_for(claim: Obj, storage_class: Obj) -> Obj:
    name = f"pvc-{claim['metadata']['uid']}"
    spec = {
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": requested_storage(claim)},
        "claimRef": reference_to(claim),
        "csi": {"driver": storage_class["provisioner"].replace("/", "."), "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        **(
            {"mountOptions": storage_class["mountOptions"]}
            if storage_class.get("mountOptions")
            else {}
        ),
    }
    annotations = {PROVISIONED_BY: storage_class["provisioner"]}
    metadata = {"name": name, "annotations": annotations, "finalizers": [FINALIZER]}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def storage_class(name: str, *, default: bool = False, mode: str = "WaitForFirstConsumer") -> Obj:
    """Return a StorageClass whose volumes this provisioner makes. `mode` is the binding mode;
    by default claims wait for their first pod.
    """
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "kscen.io/disk",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        "allowVolumeExpansion": True,
    }


BUILT_IN_CLASSES = (storage_class("standard", default=True),)
