"""Conditions in statuses: reading them, writing them as Kubernetes' controllers do, and
availability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.objects.resources import Obj


def condition(obj: Obj | None, type_: str) -> Obj | None:
    """Return the condition of this type in an object's status; None if it is not there."""
    for found in ((obj or {}).get("status") or {}).get("conditions") or ():
        if found.get("type") == type_:
            return found  # type: ignore[no-any-return]
    return None


def is_true(obj: Obj | None, type_: str) -> bool:
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def set_condition(conditions: Iterable[Obj] | None, new: Obj, now: str) -> list[Obj]:
    """Return the list with this condition added or replaced. Its lastTransitionTime changes only
    with its status, as Kubernetes' controllers do it; the order of the others is kept.
    """
    kept = list(conditions or ())
    for place, old in enumerate(kept):
        if old["type"] == new["type"]:
            since = old.get("lastTransitionTime", now) if old["status"] == new["status"] else now
            kept[place] = {**new, "lastTransitionTime": since}
            return kept
    return [*kept, {**new, "lastTransitionTime": now}]


def _replicas(obj: Obj) -> bool:
    return bool((obj.get("status") or {}).get("readyReplicas", 0) >= obj["spec"].get("replicas", 1))


def _has_phase(*phases: str) -> Callable[[Obj], bool]:
    return lambda obj: (obj.get("status") or {}).get("phase") in phases


_AVAILABLE: dict[str, Callable[[Obj], bool]] = {
    "Deployment": lambda obj: (
        (status := obj.get("status") or {}).get("updatedReplicas", 0)
        == status.get("availableReplicas", 0)
        == status.get("replicas", 0)
        == obj["spec"].get("replicas", 1)
    ),
    "StatefulSet": _replicas,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "DaemonSet": lambda obj: (
        (status := obj.get("status") or {}).get("updatedNumberScheduled", 0)
        == status.get("numberAvailable", 0)
        == status.get("desiredNumberScheduled", 0)
    ),
    "Pod": lambda obj: (
        is_true(obj, "Ready") or (obj.get("status") or {}).get("phase") == "Succeeded"
    ),
    "Job": lambda obj: is_true(obj, "Complete"),
    "PersistentVolumeClaim": _has_phase("Bound"),
    "Namespace": _has_phase("Active"),
    "CustomResourceDefinition": lambda obj: is_true(obj, "Established"),
}


def is_available(obj: Obj) -> bool:
    """Return True if an object has reached the state of its spec: a workload's pods are ready, a
    claim is bound, a definition is served. Kinds without such a state are available at once.
    """
    status = obj.get("status") or {}
    seen = status.get("observedGeneration", obj["metadata"].get("generation", 0)) >= obj[
        "metadata"
    ].get("generation", 0)
    check = _AVAILABLE.get(obj["kind"])
    return seen and (check is None or check(obj))
