"""What may help a pod that would have been spread too unevenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.simulation.scheduler.plugins.affinity_events import is_placed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.plugins.spread_constraints import Constraint

    Kept = Callable[[PodInfo], Sequence[Constraint]]


def interests(kept: Kept) -> Sequence[Interest]:
    """For pods whose constraints this function tells."""

    def pod_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        return all(_concerns(one, pod) for one in (old, new) if one) and _pod_changed(kept(pod), pod, old, new)

    def node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        return _node_changed(kept(pod), old, new)

    return (
        Interest(POD, Action.ADD | Action.POD_LABEL | Action.POD_TOLERATION | Action.DELETE, pod_changed),
        Interest(NODE, Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT, node_changed),
    )


def _concerns(other: Obj, pod: PodInfo) -> bool:
    metadata = other["metadata"]
    return bool(metadata["uid"] == pod.uid or (is_placed(other) and metadata.get("namespace") == pod.namespace))


def _pod_changed(kept: Sequence[Constraint], pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if old and new:
        bears_more = old["spec"].get("tolerations") != new["spec"].get("tolerations")
        if new["metadata"]["uid"] == pod.uid and bears_more and any(one.honours_taints for one in kept):
            return True
        return any(one.means(_labels(old)) != one.means(_labels(new)) for one in kept)
    return any(one.means(_labels(new or old)) for one in kept)


def _node_changed(kept: Sequence[Constraint], old: Obj | None, new: Obj | None) -> bool:
    had, has = _has_all(kept, old), _has_all(kept, new)
    if old is None or new is None:
        return had or has
    if had != has:
        return True
    return has and (
        any(_labels(old).get(one.key) != _labels(new).get(one.key) for one in kept)
        or (old.get("spec") or {}).get("taints") != (new.get("spec") or {}).get("taints")
    )


def _has_all(kept: Sequence[Constraint], node: Obj | None) -> bool:
    return node is not None and all(one.key in _labels(node) for one in kept)


def _labels(obj: Obj | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj["metadata"].get("labels") if obj else None) or {}
    return labels
