"""Scores brought to 0 to 100 by the largest of them; in whole numbers, as the real scheduler
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

    ShareMany: TypeAlias = tuple[Scores, int, Scores, int]


BEST = 100


def scaled(scores: list[int]) -> list[int]:
    """More is better."""
    most = max(scores, default=0)
    return [BEST * score // most for score in scores] if most > 0 else scores


def turned(scores: list[int]) -> list[int]:
    """Fewer is better."""
    most = max(scores, default=0)
    return [BEST - BEST * score // most for score in scores] if most > 0 else [BEST] * len(scores)


def scaled_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return BEST * scores // most if most > 0 else scores


def turned_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return BEST - BEST * scores // most if most > 0 else scores * 0 + BEST


# How full nodes would be with a pod on them: the sums that both plugins for resources score by.


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
    """What a pod asks for of one resource that counts; `assumed`: with what scoring assumes of
    containers that do not say.
    """

    name: str
    asked: int
    weight: int
    assumed: bool


Share: TypeAlias = tuple[int, int, int, int]
"""Of one resource of a node: how much is taken, how much is asked for, how much there is, and
its weight.
"""


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
