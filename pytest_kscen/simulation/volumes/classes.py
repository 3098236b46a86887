"""The storage classes that a cluster of ours is born with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def storage_class(name: str, *, default: bool = False, mode: str = "WaitForFirstConsumer") -> Obj:
    """A class that the provisioner of this room serves."""
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


BUILT_IN = (storage_class("standard", default=True),)
