"""Bind claims to volumes, and release volumes whose claim is gone.

The counterpart of Kubernetes' persistent volume controller, started by `actors`. A claim is
Pending, Bound, or Lost when its volume is gone; a volume is Available, Bound, Released or Failed.
Volumes are created and deleted by provisioners, never here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.embedded.indexes import volumes_by_class
from pytest_kscen.embedded.volume_matching import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    PROVISIONER,
    PROVISIONER_BETA,
    SELECTED_NODE,
    annotations_of,
    best_match,
    bind,
    class_of,
    delays_binding,
    has_provisioner,
    is_claim_ref_of,
    mismatch_reason,
    set_claim_phase,
    set_volume_phase,
)
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj

WAITING = "waiting for first consumer to be created before binding"
NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
CLAIM_LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
CLAIM_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"


class PersistentVolumes:
    """Reconcile claims and volumes, in two queues that run side by side.

    Both read the same caches; binding takes four writes (`volume_matching.bind`), each skipped when
    done, so an interrupted binding continues.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = context.informers.of(PERSISTENT_VOLUMES)
        self._classes = context.informers.of(STORAGE_CLASSES)
        self._volumes_by_class = volumes_by_class(context.informers)
        self._pending = self._claims.index(
            "pending of class",
            lambda claim: [] if claim["spec"].get("volumeName") else [class_of(claim)],
        )
        informers_used = (self._claims, self._volumes, self._classes)
        self._claims_by_volume = self._claims.index(
            "volume", lambda claim: list(filter(None, [claim["spec"].get("volumeName")]))
        )
        self._claim_queue = context.controller(self._sync_claim, *informers_used)
        self._volume_queue = context.controller(self._sync_volume, *informers_used)

        def claim_changed(new: Obj | None, old: Obj | None) -> None:
            if new:
                self._claim_queue.enqueue(Ref.of(new))
            elif old and (name := old["spec"].get("volumeName")):
                self._volume_queue.enqueue(Ref("", name))

        self._claims.on_change(claim_changed)
        self._volumes.on_change(self._volume_changed)

        def class_changed(new: Obj | None, _: Obj | None) -> None:
            if new:
                self._enqueue_class(new["metadata"]["name"])

        self._classes.on_change(class_changed)

    async def run(self) -> None:
        await asyncio.gather(self._claim_queue.run(), self._volume_queue.run())

    def _volume_changed(self, new: Obj | None, old: Obj | None) -> None:
        volume = new or old
        if volume is None:
            return
        if new:
            self._volume_queue.enqueue(Ref.of(new))
        for claim in self._claims_by_volume.of(volume["metadata"]["name"]):
            self._claim_queue.enqueue(Ref.of(claim))
        if reference := volume["spec"].get("claimRef"):
            self._claim_queue.enqueue(Ref(reference["namespace"], reference["name"]))
        elif new and (new.get("status") or {}).get("phase") == "Available":
            self._enqueue_class(class_of(new))

    def _enqueue_class(self, name: str) -> None:
        for claim in self._pending.of(name):
            self._claim_queue.enqueue(Ref.of(claim))

    async def _sync_claim(self, ref: Ref) -> None:
        claim = self._claims.objects.get(ref)
        if claim is None:
            return
        if BIND_COMPLETED in annotations_of(claim):
            # Repair the volume's side of the binding, or mark the claim Lost.
            volume = self._volumes.get(claim["spec"].get("volumeName", ""))
            if volume is None:
                await self._mark_lost(claim, "ClaimLost", CLAIM_LOST)
            elif not volume["spec"].get("claimRef") or is_claim_ref_of(volume, claim):
                await bind(self._context, volume, claim)
            else:
                await self._mark_lost(claim, "ClaimMisbound", CLAIM_MISBOUND)
        elif name := claim["spec"].get("volumeName"):
            await self._bind_requested(claim, self._volumes.get(name))
        else:
            # Any matching volume may be bound.
            storage_class = self._classes.get(class_of(claim))
            delayed = delays_binding(storage_class) and SELECTED_NODE not in annotations_of(claim)
            volume = best_match(claim, self._volumes_by_class.of(class_of(claim)), delayed=delayed)
            if volume is not None:
                await bind(self._context, volume, claim)
                return
            if delayed:
                self._context.recorder.normal(claim, "WaitForFirstConsumer", WAITING)
            elif class_of(claim):
                await self._request_provisioning(claim, storage_class)
                return
            else:
                self._context.recorder.normal(claim, "FailedBinding", NO_CLASS)
            await set_claim_phase(self._context, claim, "Pending")

    async def _request_provisioning(self, claim: Obj, storage_class: Obj | None) -> None:
        """Annotate the claim with its class's external provisioner, and report that the claim waits
        for it.
        """
        if storage_class is None:
            name = class_of(claim)
            self._context.recorder.warning(
                claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'
            )
            return
        if not has_provisioner(storage_class):
            return
        provisioner = storage_class["provisioner"]
        if annotations_of(claim).get(PROVISIONER) != provisioner:
            annotations = {PROVISIONER: provisioner, PROVISIONER_BETA: provisioner}
            metadata = claim["metadata"]
            patch = {"metadata": {"annotations": annotations}}
            await self._context.api.patch(
                PERSISTENT_VOLUME_CLAIMS, metadata["name"], patch, metadata["namespace"]
            )
        text = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the "
            "provisioner is running and "
            "correctly registered."
        )
        self._context.recorder.normal(claim, "ExternalProvisioning", text)

    async def _bind_requested(self, claim: Obj, volume: Obj | None) -> None:
        """Bind a claim that names its volume, or leave it Pending. A warning Event gives the
        reason why the volume does not fit.
        """
        if volume is None:
            await set_claim_phase(self._context, claim, "Pending")
        elif is_claim_ref_of(volume, claim):
            await bind(self._context, volume, claim)
        elif volume["spec"].get("claimRef"):
            name = volume["metadata"]["name"]
            self._context.recorder.warning(
                claim, "FailedBinding", f'volume "{name}" already bound to a different claim.'
            )
            await set_claim_phase(self._context, claim, "Pending")
        elif mismatch := mismatch_reason(volume, claim):
            name = volume["metadata"]["name"]
            self._context.recorder.warning(
                claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {mismatch}'
            )
            await set_claim_phase(self._context, claim, "Pending")
        else:
            await bind(self._context, volume, claim)

    async def _mark_lost(self, claim: Obj, reason: str, message: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            self._context.recorder.warning(claim, reason, message)
            await set_claim_phase(self._context, claim, "Lost")

    async def _sync_volume(self, ref: Ref) -> None:
        volume = self._volumes.objects.get(ref)
        if volume is None:
            return
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await set_volume_phase(self._context, volume, "Available")
            return
        # Absence is confirmed by the API, as the cache may be late or show a namesake.
        claim = self._claims.get(reference["name"], reference["namespace"])
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            try:
                claim = await self._context.api.get(
                    PERSISTENT_VOLUME_CLAIMS, reference["name"], reference["namespace"]
                )
            except NotFound:
                claim = None
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            await self._release(volume)
        elif not claim["spec"].get("volumeName"):
            self._claim_queue.enqueue(Ref.of(claim))
        elif claim["spec"]["volumeName"] == ref.name:
            await set_volume_phase(self._context, volume, "Bound")
        else:
            # The claim has another volume: delete one provisioned for it, free any other.
            if (
                PROVISIONED_BY in annotations_of(volume)
                and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
            ):
                await self._release(volume)
                return
            spec = {name: value for name, value in volume["spec"].items() if name != "claimRef"}
            volume = await self._context.api.update(PERSISTENT_VOLUMES, {**volume, "spec": spec})
            await set_volume_phase(self._context, volume, "Available")

    async def _release(self, volume: Obj) -> None:
        """Mark a volume Released after its claim is gone.

        A volume with policy Delete is deleted by the provisioner that made it; without one it
        becomes Failed, as no deleter is found.
        """
        if (volume.get("status") or {}).get("phase") not in {"Released", "Failed"}:
            volume = await set_volume_phase(self._context, volume, "Released")
        policy = volume["spec"].get("persistentVolumeReclaimPolicy", "Retain")
        if policy == "Delete" and PROVISIONED_BY not in annotations_of(volume):
            text = (
                "error getting deleter volume plugin for volume: no deletable volume plugin matched"
            )
            if (volume.get("status") or {}).get("phase") != "Failed":
                self._context.recorder.warning(volume, "VolumeFailedDelete", text)
                await set_volume_phase(self._context, volume, "Failed", text)
