"""What has changed between two states of an object, as far as placing pods goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.scenarios import RESULTS
from pytest_kscen.simulation.placement.demand import demand_of
from pytest_kscen.simulation.scheduler.framework.events import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj

KEPT_BY_SERVER = ("resourceVersion", "managedFields")


def of_node(new: Obj, old: Obj) -> list[ClusterEvent]:
    found = [ClusterEvent(NODE, action) for action, read in _NODE.items() if read(new) != read(old)]
    opened = (old.get("spec") or {}).get("unschedulable") and not (new.get("spec") or {}).get("unschedulable")
    return [ClusterEvent(NODE, Action.NODE_TAINT), *found] if opened else found


def _conditions(node: Obj) -> dict[str, str]:
    return {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()}


_NODE: dict[Action, Callable[[Obj], object]] = {
    Action.NODE_ALLOCATABLE: lambda node: (node.get("status") or {}).get("allocatable"),
    Action.NODE_LABEL: lambda node: node["metadata"].get("labels") or {},
    Action.NODE_TAINT: lambda node: (node.get("spec") or {}).get("taints") or [],
    Action.NODE_CONDITION: _conditions,
    Action.NODE_ANNOTATION: lambda node: node["metadata"].get("annotations") or {},
    Action.NODE_FEATURES: lambda node: (node.get("status") or {}).get("declaredFeatures") or [],
}


def of_pod(new: Obj, old: Obj) -> list[ClusterEvent]:
    """At least one: that there was a change at all; but none if it is what the scheduler has said itself."""
    if _without_ours(new) == _without_ours(old):
        return []
    resource = ASSIGNED_POD if new["spec"].get("nodeName") else UNSCHEDULED_POD
    found = [ClusterEvent(resource, action) for action, changed in _POD.items() if changed(new, old)]
    return found or [ClusterEvent(resource, Action.OTHER)]


def _without_ours(pod: Obj) -> list[object]:
    """What it is but for what is said of attempts to place it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {key: value for key, value in metadata.items() if key not in KEPT_BY_SERVER}
    annotations = {key: value for key, value in (kept.pop("annotations", None) or {}).items() if not key.startswith(RESULTS)}
    conditions = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    told = {**status, "conditions": conditions, "nominatedNodeName": None}
    return [kept, annotations, pod["spec"], told]


def _scaled_down(new: Obj, old: Obj) -> bool:
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return False
    now, before = demand_of(new).requests, demand_of(old).requests
    return any(now.get(name, 0) < amount for name, amount in before.items())


_POD: dict[Action, Callable[[Obj, Obj], bool]] = {
    Action.POD_LABEL: lambda new, old: (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}),
    Action.POD_SCALE_DOWN: _scaled_down,
    Action.POD_GATES_GONE: lambda new, old: bool(old["spec"].get("schedulingGates")) and not new["spec"].get("schedulingGates"),
    Action.POD_TOLERATION: lambda new, old: len(new["spec"].get("tolerations") or ()) != len(old["spec"].get("tolerations") or ()),
}
