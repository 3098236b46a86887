"""Formulas shared by scoring plugins, in integer arithmetic as kube-scheduler computes them.

Normalization by the highest score, and the shares of resources that both resource plugins use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

    ResourceShareColumns: TypeAlias = tuple[Scores, int, Scores, int]


MAX_SCORE = 100


def normalize_scores(scores: list[int]) -> list[int]:
    most = max(scores, default=0)
    return [MAX_SCORE * score // most for score in scores] if most > 0 else scores


def normalize_reversed(scores: list[int]) -> list[int]:
    """Scale scores so that the highest becomes 0 and a score of 0 becomes 100."""
    most = max(scores, default=0)
    return (
        [MAX_SCORE - MAX_SCORE * score // most for score in scores]
        if most > 0
        else [MAX_SCORE] * len(scores)
    )


def normalize_scores_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return MAX_SCORE * scores // most if most > 0 else scores


def normalize_reversed_many(scores: Scores) -> Scores:
    most = scores.max(initial=0)
    return MAX_SCORE - MAX_SCORE * scores // most if most > 0 else scores * 0 + MAX_SCORE


NATIVE_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage", "storage", "pods"))
RESOURCES_WITH_DEFAULT_REQUEST = (
    "cpu",
    "memory",
)  # scoring assumes a default for containers without a request


class ResourceWeight(NamedTuple):
    name: str
    weight: int = 1


DEFAULT_WEIGHTS = (ResourceWeight("cpu"), ResourceWeight("memory"))


def resource_weights(resources: Sequence[Obj] | None) -> tuple[ResourceWeight, ...]:
    return (
        tuple(ResourceWeight(one["name"], one.get("weight") or 1) for one in resources or ())
        or DEFAULT_WEIGHTS
    )


class ScoredRequest(NamedTuple):
    """Request of a pod for a resource that counts; `assumed` includes the default that scoring
    assumes for containers without a request.
    """

    name: str
    requested: int
    weight: int
    assumed: bool


ResourceShare: TypeAlias = tuple[int, int, int, int]
"""Amounts of one resource on a node: used, requested by the pod, capacity; and its weight."""


def scored_requests(
    pod: PodInfo, resources: Sequence[ResourceWeight], *, assumed: bool
) -> list[ScoredRequest]:
    """Return the pod's requests for these resources; extended resources only if the pod requests
    them.
    """
    found = []
    for name, weight in resources:
        assume = assumed and name in RESOURCES_WITH_DEFAULT_REQUEST
        requested = (pod.demand.scored if assume else pod.demand.requests).get(name, 0)
        if requested or name in NATIVE_RESOURCES:
            found.append(ScoredRequest(name, requested, weight, assume))
    return found


def resource_shares(node: NodeInfo, wanted: Sequence[ScoredRequest]) -> list[ResourceShare]:
    capacities, load = node.allocatable, node.load
    used, scored = load.used, load.scored
    return [
        ((scored if assumed else used).get(name, 0), requested, capacity, weight)
        for name, requested, weight, assumed in wanted
        if (capacity := capacities.get(name))
    ]


def resource_shares_many(
    table: NodeTable, rows: Rows, wanted: Sequence[ScoredRequest]
) -> list[ResourceShareColumns]:
    """Return the shares as columns; a capacity of 0 marks nodes without the resource."""
    found: list[ResourceShareColumns] = []
    for name, requested, weight, assumed in wanted:
        amount = table.amount(name)
        taken = amount.scored if assumed else amount.used
        found.append((taken[rows], requested, amount.allocatable[rows], weight))
    return found
