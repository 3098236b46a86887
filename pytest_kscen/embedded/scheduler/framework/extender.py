"""What an extender is to the scheduler: somebody outside who is asked between the plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo

EXTENDER = "Extender"
"""Who turned a pod down, where it was no plugin."""


class Filtered(NamedTuple):
    """Which nodes will do, and why others will not: for now, or whoever is sent away."""

    nodes: list[NodeInfo]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class Victims(NamedTuple):
    """The pods that would have to go from one node."""

    pods: list[PodInfo]
    violations: int = 0


class Extender(Protocol):
    """Each call raises `ExtenderError` when the extender cannot be reached or says that
    something is wrong.
    """

    name: str
    weight: int
    ignorable: bool
    filters: bool
    prioritizes: bool
    preempts: bool
    binds: bool

    def interested(self, pod: PodInfo) -> bool: ...

    async def filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Filtered: ...

    async def prioritize(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int]:
        """Scores from 0 to 10 by node."""

    async def preempt(
        self, state: CycleState, pod: PodInfo, victims: dict[str, Victims]
    ) -> dict[str, Victims]: ...

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> None: ...


class ExtenderError(Exception):
    """What an extender did not do, and why."""
