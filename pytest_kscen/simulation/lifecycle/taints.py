"""The taints that a node's conditions call for, as a table, and nodes with and without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.taints import same, taints_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE, OUT_OF_SERVICE = "node.kubernetes.io/unschedulable", "node.kubernetes.io/out-of-service"
CALLED_FOR = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
OURS = (*CALLED_FOR.values(), UNSCHEDULABLE)


def not_scheduled(node: Obj) -> list[Obj]:
    """The NoSchedule taints that conditions and the unschedulable field call for."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [CALLED_FOR.get((one["type"], one["status"])) for one in conditions]
    keys += [UNSCHEDULABLE] if (node.get("spec") or {}).get("unschedulable") else []
    return [{"key": key, "effect": "NoSchedule"} for key in keys if key]


def not_executed(key: str) -> Obj:
    return {"key": key, "effect": "NoExecute"}


def of_controller(node: Obj) -> list[Obj]:
    """The NoSchedule taints that it has of those kinds."""
    return [taint for taint in taints_of(node) if taint["effect"] == "NoSchedule" and taint["key"] in OURS]


def has(node: Obj, taint: Obj) -> bool:
    return any(same(taint, other) for other in taints_of(node))


def swapped(node: Obj, add: Sequence[Obj], remove: Sequence[Obj], now: str) -> Obj | None:
    """The node with some taints more and others less; None if it is so already."""
    old = taints_of(node)
    kept = [taint for taint in old if not any(same(taint, one) for one in remove)]
    new = [{**taint, "timeAdded": now} for taint in add if not any(same(taint, one) for one in kept)]
    if not new and len(kept) == len(old):
        return None
    return {**node, "spec": {**(node.get("spec") or {}), "taints": kept + new}}
