"""What is known in one attempt to place one pod: a dictionary in which each plugin keeps its own under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.results import Attempt


class CycleState(dict[str, Any]):
    """A plugin writes in pre_filter or pre_score and reads in what follows."""

    __slots__ = ("attempt", "skip_filter", "skip_score")

    def __init__(self, attempt: Attempt | None = None) -> None:
        super().__init__()
        self.attempt = attempt
        """Where results are recorded, if they are."""
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        """A copy to try pods on: what has a `clone` method is cloned, the rest is shared."""
        other = CycleState()
        for name, value in self.items():
            other[name] = value.clone() if hasattr(value, "clone") else value
        other.skip_filter, other.skip_score = self.skip_filter, self.skip_score
        return other
