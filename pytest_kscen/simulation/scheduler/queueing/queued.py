"""A pod in the scheduler's queue, and what the queue knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One pod that needs a node."""

    pod: PodInfo
    since: float
    """When it came into the queue, or was last put back."""
    turn: int
    """Its number among those that came at the same instant."""
    attempts: int = 0
    unschedulable: int = 0
    """How many attempts ended with no node."""
    errors: int = 0
    """How many in a row ended with an error."""
    rejectors: set[str] = field(default_factory=set)
    """The plugins that turned it down."""
    pending: set[str] = field(default_factory=set)
    """Those of them that will say when they are ready."""
    gate: str = ""
    """The plugin that does not even let it be looked at."""
    early: tuple[float, int] = (-1.0, 0)
    """When it was last taken although it backed off, and how often at that instant."""
    expires: float | None = None
    """When its back-off ends."""
