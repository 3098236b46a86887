"""Manifests installed with the definitions: a pool, classes, and the workloads of the
storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.storage import (
    NAMESPACE,
    NODE_LABEL,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_STORAGE_POOLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

POOL = "pool"
VOLUME_GROUP = "vg-{node}"
IMAGE = "sds-replicated-volume-{app}"


def pool(nodes: Iterable[str]) -> Obj:
    return {
        "apiVersion": REPLICATED_STORAGE_POOLS.api_version,
        "kind": REPLICATED_STORAGE_POOLS.kind,
        "metadata": {"name": POOL},
        "spec": {
            "type": "LVM",
            "lvmVolumeGroups": [{"name": VOLUME_GROUP.format(node=node)} for node in nodes],
        },
    }


def storage_class(name: str, replication: str) -> Obj:
    return {
        "apiVersion": REPLICATED_STORAGE_CLASSES.api_version,
        "kind": REPLICATED_STORAGE_CLASSES.kind,
        "metadata": {"name": name},
        "spec": {
            "replication": replication,
            "reclaimPolicy": "Delete",
            "topology": "Ignored",
            "storagePool": POOL,
        },
    }


def _workload(kind: str, app: str, pod: Obj, **spec: Any) -> Obj:
    labels = {"app": app}
    container = {"name": app, "image": IMAGE.format(app=app)}
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeSelector": {NODE_LABEL: ""}, "containers": [container], **pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


SPREAD_EVENLY: list[Obj] = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "controller"}},
    }
]
CONTROLLERS = 3
CONTROLLER = _workload(
    "Deployment", "controller", {"topologySpreadConstraints": SPREAD_EVENLY}, replicas=CONTROLLERS
)
AGENT = _workload("DaemonSet", "agent", {"hostNetwork": True})
