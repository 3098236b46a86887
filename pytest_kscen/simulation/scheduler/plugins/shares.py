"""How full nodes would be with a pod on them: the sums that both plugins for resources score by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Wanted(NamedTuple):
    """What a pod asks for of one resource that counts; `assumed`: with what scoring assumes of containers that do not say."""

    name: str
    asked: int
    weight: int
    assumed: bool


Share: TypeAlias = tuple[int, int, int, int]
"""Of one resource of a node: how much is taken, how much is asked for, how much there is, and its weight."""
if TYPE_CHECKING:
    ShareMany: TypeAlias = tuple[Scores, int, Scores, int]


def wanted(pod: PodInfo, resources: Sequence[Weighed], *, assumed: bool) -> list[Wanted]:
    """Of those resources that matter to the pod."""
    found = []
    for name, weight in resources:
        assume = assumed and name in ASSUMED
        asked = (pod.demand.scored if assume else pod.demand.requests).get(name, 0)
        if asked or name in NATIVE:
            found.append(Wanted(name, asked, weight, assume))
    return found


def shares(node: NodeInfo, wanted: Sequence[Wanted]) -> list[Share]:
    """Of those that the node has."""
    capacities, load = node.allocatable, node.load
    used, scored = load.used, load.scored
    return [
        ((scored if assumed else used).get(name, 0), asked, capacity, weight)
        for name, asked, weight, assumed in wanted
        if (capacity := capacities.get(name))
    ]


def shares_many(table: Table, rows: Rows, wanted: Sequence[Wanted]) -> list[ShareMany]:
    """The same as columns; where a node has none of a resource, its capacity is 0."""
    found: list[ShareMany] = []
    for name, asked, weight, assumed in wanted:
        amount = table.amount(name)
        taken = amount.scored if assumed else amount.used
        found.append((taken[rows], asked, amount.allocatable[rows], weight))
    return found
