"""The storage's own objects: its definitions, classes and workloads, as an installed storage would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.storage import (
    GROUP,
    NAMESPACE,
    NODE_LABEL,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_VOLUMES,
)

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource

REPLICATION = {"none": "None", "availability": "Availability", "consistency-and-availability": "ConsistencyAndAvailability"}

_OPEN: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(resource: Resource, short_name: str, spec: dict[str, Obj], required: list[str]) -> Obj:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {"type": "object", "required": required, "properties": spec}, "status": _OPEN},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind, "shortNames": [short_name]},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


DEFINITIONS = (
    definition(
        REPLICATED_VOLUMES,
        "rv",
        {
            "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
            "replicatedStorageClassName": {"type": "string", "minLength": 1},
        },
        ["size", "replicatedStorageClassName"],
    ),
    definition(
        REPLICATED_STORAGE_CLASSES, "rsc", {"replication": {"type": "string", "enum": list(REPLICATION.values())}}, ["replication"]
    ),
)


def storage_class(name: str, replication: str) -> Obj:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": REPLICATED_STORAGE_CLASSES.kind,
        "metadata": {"name": name},
        "spec": {"replication": replication},
    }


def _workload(kind: str, app: str, **spec: Any) -> Obj:
    labels = {"app": app}
    pod = {
        "nodeSelector": {NODE_LABEL: ""},
        "containers": [{"name": app, "image": f"sds-replicated-volume-{app}"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}, **spec},
    }


CONTROLLER = _workload("Deployment", "controller", replicas=3)
AGENT = _workload("DaemonSet", "agent")
