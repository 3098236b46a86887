"""Protocol of extenders, which the scheduling cycle calls between its plugins.

`extenders.HttpExtender` implements it over HTTP; tests may use their own objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo

EXTENDER = "Extender"
"""Plugin name of statuses that come from an extender."""


class ExtenderFilterResult(NamedTuple):
    """Nodes that passed, and reasons by node name for the others: `failed` could be resolved by
    preemption, `unresolvable` could not.
    """

    nodes: list[NodeInfo]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class Victims(NamedTuple):
    """Pods that would have to be deleted on one node, the most important first, and how many of the
    deletions violate a disruption budget.
    """

    pods: list[PodInfo]
    violations: int = 0


class Extender(Protocol):
    """External scheduler component. Each call raises `ExtenderError` if the extender cannot be
    reached or returns an error; `ignorable` extenders are then skipped.
    """

    name: str
    weight: int
    ignorable: bool
    filters: bool
    prioritizes: bool
    preempts: bool
    binds: bool

    def is_interested(self, pod: PodInfo) -> bool: ...

    async def filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> ExtenderFilterResult: ...

    async def prioritize(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int]:
        """Return scores from 0 to 10 by node name; nodes left out count as 0."""

    async def preempt(
        self, state: CycleState, pod: PodInfo, victims: dict[str, Victims]
    ) -> dict[str, Victims]: ...

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> None: ...


class ExtenderError(Exception):
    """Failed call of an extender; the text names the extender and the cause."""
