"""Recording of a cluster as a Scenario: nodes, volumes and classes, then placed pods, then
pending pods.

Pods are recorded, not their workloads, so they keep their names and nodes. Only the fields that a
scheduler reads are kept: commands, environments and secrets never leave the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.errors import ApiError, Forbidden, NotFound
from pytest_kscen.objects.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario.builtin_waiters import SCHEDULER, has_ended
from pytest_kscen.scenario.cluster_setup import INITIAL_NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource

CONTROLLER_TAINTS = "node.kubernetes.io/"  # prefix of taints that controllers set and remove
SYSTEM_CLASS = "system-"
POD = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "preemptionPolicy",
    "schedulerName",
    "hostNetwork",
    "overhead",
    "schedulingGates",
    "restartPolicy",
    "resourceClaims",
)
CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
CLASS = (
    "provisioner",
    "parameters",
    "reclaimPolicy",
    "volumeBindingMode",
    "allowVolumeExpansion",
    "allowedTopologies",
)
PRIORITY = ("value", "globalDefault", "description", "preemptionPolicy")
VOLUME_SECRETS = ("Secret", "Attributes")  # as in nodePublishSecretRef, volumeAttributes


class NotRecordedError(Exception):
    """Report a resource that could not be listed, or an unknown namespace."""


async def record(
    api: Api,
    name: str,
    *,
    namespaces: Collection[str] = (),
    reschedule: bool = False,
    preinstalled: Collection[str] = (),
) -> Obj:
    """Return the cluster as a Scenario; raise NotRecordedError if a resource may not be listed.

    Without `namespaces` the whole cluster is recorded. `reschedule` leaves out the nodes of pods.
    `preinstalled` are storage classes of every embedded cluster, which are not recorded.
    """
    existing = await _list_all(api, NAMESPACES)
    names = [_name(each) for each in existing]
    if unknown := [each for each in namespaces if each not in names]:
        raise NotRecordedError(
            f"there is no namespace {unknown[0]!r}{nearest(unknown[0], names)}; there are "
            f"{', '.join(names)}"
        )
    others = await _other_objects(api, existing, namespaces, preinstalled)
    pods = [
        _pod(each, reschedule=reschedule)
        for each in await _list_in(api, PODS, namespaces)
        if not each["metadata"].get("deletionTimestamp") and not has_ended(each)
    ]
    placed = [each for each in pods if each["spec"].get("nodeName")]
    waiting = [each for each in pods if not each["spec"].get("nodeName")]
    steps = [each for each in (others, placed, waiting) if each]
    operations: list[Obj] = []
    for number, step in enumerate(steps, 1):
        for obj in step:
            parts = (obj["kind"].lower(), obj["metadata"].get("namespace", ""), _name(obj))
            id_ = "/".join(filter(None, parts))
            operations.append({"id": id_, "step": number, "createOperation": {"object": obj}})
    operations.append({"id": "end", "step": len(steps) + 1, "doneOperation": {}})
    spec = {
        "controllers": {"simulationControllers": {"enabled": [{"name": SCHEDULER}]}},
        "operations": operations,
    }
    return {
        "apiVersion": SCENARIOS.api_version,
        "kind": SCENARIOS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def _other_objects(
    api: Api, existing: list[Obj], namespaces: Collection[str], preinstalled: Collection[str]
) -> list[Obj]:
    """Return all recorded objects besides pods, in the order in which they have to be created:
    namespaces, classes, nodes, volumes, claims, disruption budgets.
    """
    return [
        *[
            _header(NAMESPACES, each)
            for each in existing
            if _name(each) not in INITIAL_NAMESPACES
            and (not namespaces or _name(each) in namespaces)
        ],
        *[
            {**_header(PRIORITY_CLASSES, each), **_picked(each, PRIORITY)}
            for each in await _list_all(api, PRIORITY_CLASSES)
            if not _name(each).startswith(SYSTEM_CLASS)
        ],
        *[
            {**_header(STORAGE_CLASSES, each), **_picked(each, CLASS)}
            for each in await _list_all(api, STORAGE_CLASSES)
            if _name(each) not in preinstalled
        ],
        *[_node(each) for each in await _list_all(api, NODES)],
        *[
            _volume(each)
            for each in await _list_all(api, PERSISTENT_VOLUMES)
            if not namespaces
            or (each["spec"].get("claimRef") or {}).get("namespace", "") in ("", *namespaces)
        ],
        *[
            {
                **_header(PERSISTENT_VOLUME_CLAIMS, each),
                "spec": {
                    key: value
                    for key, value in each["spec"].items()
                    if key not in ("dataSource", "dataSourceRef")
                },
            }
            for each in await _list_in(api, PERSISTENT_VOLUME_CLAIMS, namespaces)
        ],
        *[
            {**_header(POD_DISRUPTION_BUDGETS, each), "spec": each.get("spec") or {}}
            for each in await _list_in(api, POD_DISRUPTION_BUDGETS, namespaces)
        ],
    ]


async def _list_all(api: Api, resource: Resource, namespace: str = "") -> list[Obj]:
    try:
        items = (await api.list(resource, namespace)).items
    except Forbidden as error:
        raise NotRecordedError(
            f"{resource.qualified} may not be listed: {error.message}"
        ) from error
    except NotFound:
        return []
    except ApiError as error:
        raise NotRecordedError(
            f"{resource.qualified} could not be listed: {error.message}"
        ) from error
    return sorted(items, key=_age)


async def _list_in(api: Api, resource: Resource, namespaces: Collection[str]) -> list[Obj]:
    if not namespaces:
        return await _list_all(api, resource)
    return sorted(
        [each for namespace in namespaces for each in await _list_all(api, resource, namespace)],
        key=_age,
    )


# --- each kind, without fields that change by themselves ---


def _node(obj: Obj) -> Obj:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    taints = [_picked(taint, ("key", "value", "effect")) for taint in spec.get("taints") or ()]
    lasting = [taint for taint in taints if not taint["key"].startswith(CONTROLLER_TAINTS)]
    kept = {**_picked(spec, ("unschedulable",)), **({"taints": lasting} if lasting else {})}
    return {
        **_header(NODES, obj),
        "spec": kept,
        "status": _picked(status, ("allocatable", "capacity", "images")),
    }


def _volume(obj: Obj) -> Obj:
    spec = {
        key: {
            name: each
            for name, each in value.items()
            if not any(word in name for word in VOLUME_SECRETS) and name != "secretRef"
        }
        if isinstance(value, dict)
        else value
        for key, value in obj["spec"].items()
    }
    if claim := spec.get("claimRef"):
        spec["claimRef"] = _picked(claim, ("apiVersion", "kind", "namespace", "name"))
    return {**_header(PERSISTENT_VOLUMES, obj), "spec": spec}


def _pod(obj: Obj, *, reschedule: bool) -> Obj:
    spec = obj["spec"]
    kept = _picked(spec, POD)
    for name in ("initContainers", "containers"):
        if spec.get(name):
            kept[name] = [_picked(each, CONTAINER) for each in spec[name]]
    # Claims may restrict the pod's node; an ephemeral volume has a claim too.
    volumes: list[Obj] = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            volumes.append(_picked(volume, ("name", "persistentVolumeClaim")))
        elif "ephemeral" in volume:
            claim = {"claimName": f"{obj['metadata']['name']}-{volume['name']}"}
            volumes.append({"name": volume["name"], "persistentVolumeClaim": claim})
    if volumes:
        kept["volumes"] = volumes
    if spec.get("nodeName") and not reschedule:
        kept["nodeName"] = spec["nodeName"]
    return {**_header(PODS, obj), "spec": kept}


def _header(resource: Resource, obj: Obj) -> Obj:
    metadata = _picked(obj["metadata"], ("name", "namespace", "labels"))
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _picked(obj: Obj, names: Collection[str]) -> Obj:
    return {name: obj[name] for name in names if obj.get(name) is not None}


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Obj) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return metadata.get("creationTimestamp", ""), metadata.get("namespace", ""), metadata["name"]
