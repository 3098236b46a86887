"""The two moments that end a run for its volumes."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_kscen.clock import Signal


@dataclass(slots=True)
class Season:
    """What every volume listens to."""

    frozen: Signal = field(default_factory=Signal)
    """No new volumes, and no checker counts any more."""
    over: Signal = field(default_factory=Signal)
    """Every volume goes."""
