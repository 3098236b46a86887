"""What a pod is to its owner: active, ready, available, or on its way out; and which of several
is given up first.
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
    """When it became ready, if it is."""
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True":
        return None
    return epoch_of(found["lastTransitionTime"]) if found.get("lastTransitionTime") else 0.0


def is_ready(pod: Obj) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def owner_relevant_state(pod: Obj) -> tuple[object, ...]:
    """All that an owner of many looks at in a pod that it has already, as long as it gives none of
    them up.

    Where it runs is not among it, nor when it is to be gone: those an owner looks at who has to
    choose."""
    metadata, ready = pod["metadata"], condition(pod, "Ready") or {}
    since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    own = (
        metadata.get("labels"),
        metadata.get("ownerReferences"),
        bool(metadata.get("deletionTimestamp")),
    )
    return *own, phase(pod), ready.get("status") == "True", since


def seconds_until_available(pod: Obj, min_ready: float, now: float) -> float | None:
    """The seconds until it has been ready long enough, 0 if it has; None if it is not ready."""
    if not is_ready(pod):
        return None
    return max(0.0, round((ready_since(pod) or 0.0) + min_ready - now, 6)) if min_ready else 0.0


def restarts(pod: Obj) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def by_deletion_rank(pods: Iterable[Obj], neighbours: dict[str, int], now: float) -> list[Obj]:
    """In the order in which a ReplicaSet gives pods up. `neighbours` counts the pods of the same
    rollout on each node.

    Ages count by their order of magnitude, so that of about equally old pods any may go.
    """

    def rank(pod: Obj) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName") or ""
        since = ready_since(pod)
        return (
            bool(node),
            _PHASES.get(phase(pod), 0),
            since is not None,
            _deletion_cost(pod),
            -neighbours.get(node, 0) if node else 0,
            _magnitude(now - since) if since is not None else 0,
            -restarts(pod),
            _magnitude(now - epoch_of(pod["metadata"]["creationTimestamp"])),
            pod["metadata"]["uid"],
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Obj) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, 0))
    except ValueError:
        return 0


def _magnitude(seconds: float) -> int:
    return int(math.log2(seconds * 1e9)) if seconds > 0 else -1


def scaled_int_or_percent(value: int | str, whole: int, *, up: bool) -> int:
    """How many of the whole that is; parts of one count or not."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-percent * whole // 100) if up else percent * whole // 100
