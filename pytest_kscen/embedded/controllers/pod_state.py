"""State of a pod as its owner sees it: active, ready, available, terminating, and the order of
deletion.

Pure functions on pods, shared by all workload controllers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj


FINISHED = ("Succeeded", "Failed")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase(pod: Obj) -> str:
    return (pod.get("status") or {}).get("phase") or ""


def is_finished(pod: Obj) -> bool:
    return phase(pod) in FINISHED


def is_active(pod: Obj) -> bool:
    return not is_finished(pod) and not pod["metadata"].get("deletionTimestamp")


def is_terminating(pod: Obj) -> bool:
    return not is_finished(pod) and bool(pod["metadata"].get("deletionTimestamp"))


def ready_since(pod: Obj) -> float | None:
    """Return the time since which the pod is ready, in epoch seconds, or None if it is not. A
    Ready condition without a time counts as 0.
    """
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True":
        return None
    return epoch_of(found["lastTransitionTime"]) if found.get("lastTransitionTime") else 0.0


def is_ready(pod: Obj) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def owner_relevant_state(pod: Obj) -> tuple[object, ...]:
    """Return the parts of an owned pod that an owner of interchangeable pods depends on.

    The node and the deletion time are left out: they matter only when the owner chooses pods to
    delete, and it looks at them then.
    """
    metadata, ready = pod["metadata"], condition(pod, "Ready") or {}
    since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    own = (
        metadata.get("labels"),
        metadata.get("ownerReferences"),
        bool(metadata.get("deletionTimestamp")),
    )
    return *own, phase(pod), ready.get("status") == "True", since


def seconds_until_available(pod: Obj, min_ready: float, now: float) -> float | None:
    """Return the seconds until the pod has been ready for `min_ready` seconds. The result is 0
    if it has been, and None if it is not ready.
    """
    if not is_ready(pod):
        return None
    return max(0.0, round((ready_since(pod) or 0.0) + min_ready - now, 6)) if min_ready else 0.0


def restarts(pod: Obj) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def by_deletion_rank(pods: Iterable[Obj], neighbours: dict[str, int], now: float) -> list[Obj]:
    """Return the pods in the order in which a ReplicaSet deletes them.

    `neighbours` counts the active pods of the same rollout by node. Ages are compared by order of
    magnitude, so pods of about the same age are ordered by uid.
    """

    def rank(pod: Obj) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName") or ""
        since = ready_since(pod)
        try:
            cost = int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, 0))
        except ValueError:
            cost = 0
        return (
            bool(node),
            _PHASES.get(phase(pod), 0),
            since is not None,
            cost,
            -neighbours.get(node, 0) if node else 0,
            _magnitude(now - since) if since is not None else 0,
            -restarts(pod),
            _magnitude(now - epoch_of(pod["metadata"]["creationTimestamp"])),
            pod["metadata"]["uid"],
        )

    return sorted(pods, key=rank)


def _magnitude(seconds: float) -> int:
    return int(math.log2(seconds * 1e9)) if seconds > 0 else -1


def scaled_int_or_percent(value: int | str, whole: int, *, up: bool) -> int:
    """Return a number as it is, or a percentage ("25%") of `whole`. Percentages are rounded up
    or down, as the field requires (`maxSurge`, `minAvailable`).
    """
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-percent * whole // 100) if up else percent * whole // 100
