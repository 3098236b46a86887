"""Which places will not do, and why: a table, asked in this order; the first that refuses speaks.

What is final cannot be mended by sending other pods away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.placement.affinity import pod_may_be_on
from pytest_kscen.simulation.placement.taints import tolerates, untolerated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.simulation.scheduler.picture import Candidate, Place
    from pytest_kscen.simulation.scheduler.volumes import Claims

CLOSED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Refusal(NamedTuple):
    """Why one node will not do."""

    reasons: Sequence[str]
    final: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """One row. Pods to which it does not apply are not asked."""

    name: str
    refuses: Callable[[Candidate, Place], Refusal | None]
    applies: Callable[[Candidate], bool] = lambda _: True


def _final(reason: str, refuses: Callable[[Candidate, Place], bool]) -> Callable[[Candidate, Place], Refusal | None]:
    refusal = Refusal((reason,), final=True)
    return lambda pod, place: refusal if refuses(pod, place) else None


def _is_closed(pod: Candidate, place: Place) -> bool:
    return place.is_closed and not any(tolerates(toleration, CLOSED) for toleration in pod.tolerations)


def _is_tainted(pod: Candidate, place: Place) -> bool:
    return bool(place.hard_taints) and untolerated(place.hard_taints, pod.tolerations) is not None


def _is_elsewhere(pod: Candidate, place: Place) -> bool:
    return place.node is not None and not pod_may_be_on(pod.pod, place.node)


def _is_chosen_by_node(pod: Candidate) -> bool:
    spec = pod.pod["spec"]
    return bool(spec.get("nodeSelector") or (spec.get("affinity") or {}).get("nodeAffinity"))


PORTS_TAKEN = Refusal(("node(s) didn't have free ports for the requested pod ports",), final=False)


def _ports(pod: Candidate, place: Place) -> Refusal | None:
    return PORTS_TAKEN if place.load.ports_clash(pod.demand) else None


def _fit(pod: Candidate, place: Place) -> Refusal | None:
    lacking = list(place.load.shortages(pod.demand, place.allocatable))
    if not lacking:
        return None
    return Refusal([one.reason for one in lacking], final=any(one.requested > one.capacity for one in lacking))


FILTERS = (
    Filter("NodeUnschedulable", _final("node(s) were unschedulable", _is_closed)),
    Filter("TaintToleration", _final("node(s) had untolerated taint(s)", _is_tainted)),
    Filter("NodeAffinity", _final("node(s) didn't match Pod's node affinity/selector", _is_elsewhere), _is_chosen_by_node),
    Filter("NodePorts", _ports, lambda pod: bool(pod.demand.ports)),
    Filter("NodeResourcesFit", _fit),
)


def with_volumes(claims: Claims) -> tuple[Filter, ...]:
    """The whole table; whether volumes are in the way is known only where they are."""

    def refuses(pod: Candidate, place: Place) -> Refusal | None:
        reasons = claims.conflicts(pod.claims, place.node) if place.node else ()
        return Refusal(reasons, final=True) if reasons else None

    return (*FILTERS, Filter("VolumeBinding", refuses, lambda pod: bool(pod.pod["spec"].get("volumes"))))


def refusal_of(filters: Sequence[Filter], pod: Candidate, place: Place) -> Refusal | None:
    for row in filters:
        if refusal := row.refuses(pod, place):
            return refusal
    return None
