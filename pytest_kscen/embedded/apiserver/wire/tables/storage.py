"""Printer columns of volumes, claims and their classes.

Read by `table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    access_modes,
    boolean,
    count,
    flag,
    integer,
    joined,
    named_default,
    object_cell,
    text,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _phase(obj: Obj) -> str:
    return (
        "Terminating"
        if obj["metadata"].get("deletionTimestamp")
        else field_at(obj, "status.phase") or ""
    )


def _class(obj: Obj) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(CLASS_ANNOTATION) or field_at(obj, "spec.storageClassName") or ""


TABLES = {
    ("", "persistentvolumes"): (
        NAME,
        Column("Capacity", text("spec.capacity.storage", "0")),
        Column("Access Modes", access_modes("spec.accessModes")),
        Column("Reclaim Policy", text("spec.persistentVolumeReclaimPolicy")),
        Column("Status", object_cell(_phase)),
        Column(
            "Claim",
            object_cell(
                lambda volume: (
                    f"{claim.get('namespace', '')}/{claim.get('name', '')}"
                    if (claim := field_at(volume, "spec.claimRef"))
                    else ""
                )
            ),
        ),
        Column("StorageClass", object_cell(_class)),
        Column("VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET)),
        Column("Reason", text("status.reason")),
        AGE,
        wide("VolumeMode", text("spec.volumeMode", UNSET)),
    ),
    ("", "persistentvolumeclaims"): (
        NAME,
        Column("Status", object_cell(_phase)),
        Column("Volume", text("spec.volumeName")),
        Column(
            "Capacity",
            object_cell(
                lambda claim: (
                    str(field_at(claim, "status.capacity.storage") or "0")
                    if field_at(claim, "spec.volumeName")
                    else ""
                )
            ),
        ),
        Column(
            "Access Modes",
            object_cell(
                lambda claim: (
                    access_modes("status.accessModes")(claim, 0)
                    if field_at(claim, "spec.volumeName")
                    else ""
                )
            ),
        ),
        Column("StorageClass", object_cell(_class)),
        Column("VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET)),
        AGE,
        wide("VolumeMode", text("spec.volumeMode", UNSET)),
    ),
    ("storage.k8s.io", "storageclasses"): (
        named_default("storageclass.kubernetes.io/is-default-class"),
        Column("Provisioner", text("provisioner")),
        Column("ReclaimPolicy", text("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", text("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", flag("allowVolumeExpansion")),
        AGE,
    ),
    ("storage.k8s.io", "volumeattachments"): (
        NAME,
        Column("Attacher", text("spec.attacher"), format="name"),
        Column("PV", text("spec.source.persistentVolumeName")),
        Column("Node", text("spec.nodeName")),
        boolean("Attached", flag("status.attached")),
        AGE,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (
        NAME,
        Column("DriverName", text("driverName")),
        AGE,
    ),
    ("storage.k8s.io", "csinodes"): (NAME, integer("Drivers", count("spec.drivers")), AGE),
    ("storage.k8s.io", "csidrivers"): (
        NAME,
        boolean("AttachRequired", flag("spec.attachRequired", default=True)),
        boolean("PodInfoOnMount", flag("spec.podInfoOnMount")),
        boolean("StorageCapacity", flag("spec.storageCapacity")),
        Column(
            "TokenRequests",
            object_cell(
                lambda driver: (
                    UNSET
                    if (requests := field_at(driver, "spec.tokenRequests")) is None
                    else ",".join(request.get("audience", "") for request in requests)
                )
            ),
        ),
        boolean("RequiresRepublish", flag("spec.requiresRepublish")),
        Column("Modes", joined("spec.volumeLifecycleModes", NONE)),
        AGE,
    ),
}
