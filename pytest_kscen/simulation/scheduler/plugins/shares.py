"""How full nodes would be with a pod on them: the sums that both plugins for resources score by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.table import Rows, Scores, Table

NATIVE = frozenset(("cpu", "memory", "ephemeral-storage", "storage", "pods"))
ASSUMED = ("cpu", "memory")  # of these scoring assumes a little where a container asks for nothing


class Weighed(NamedTuple):
    """A resource that counts, and how much."""

    name: str
    weight: int = 1


DEFAULT = (Weighed("cpu"), Weighed("memory"))


def weighed(resources: Sequence[Obj] | None) -> tuple[Weighed, ...]:
    return tuple(Weighed(one["name"], one.get("weight") or 1) for one in resources or ()) or DEFAULT


class Share(NamedTuple):
    """Of one resource: how much is taken without the pod, how much it asks for, how much there is; numbers or columns."""

    taken: int
    asked: int
    capacity: int
    weight: int


class ShareMany(NamedTuple):
    taken: Scores
    asked: int
    capacity: Scores
    weight: int


def asked(pod: PodInfo, name: str, *, assumed: bool) -> int:
    """What the pod asks for; with what is assumed, if it is."""
    source: Mapping[str, int] = pod.demand.scored if assumed and name in ASSUMED else pod.demand.requests
    return source.get(name, 0)


def shares(pod: PodInfo, node: NodeInfo, resources: Sequence[Weighed], *, assumed: bool) -> list[Share]:
    """Of those resources that the node has, and that matter to the pod."""
    found = []
    for name, weight in resources:
        capacity = node.allocatable.get(name, 0)
        wanted = asked(pod, name, assumed=assumed)
        if capacity and (wanted or name in NATIVE):
            totals = node.load.scored if assumed and name in ASSUMED else node.load.used
            found.append(Share(totals.get(name, 0), wanted, capacity, weight))
    return found


def shares_many(pod: PodInfo, table: Table, rows: Rows, resources: Sequence[Weighed], *, assumed: bool) -> list[ShareMany]:
    """The same as columns; where a node has none of a resource, its capacity is 0."""
    found = []
    for name, weight in resources:
        wanted = asked(pod, name, assumed=assumed)
        if wanted or name in NATIVE:
            amount = table.amount(name)
            taken = amount.scored if assumed and name in ASSUMED else amount.used
            found.append(ShareMany(taken[rows], wanted, amount.allocatable[rows], weight))
    return found
