"""What decisions may draw on beside the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.simulation.storage.generations import Generation
    from pytest_kscen.simulation.storage.reading import Readings


@dataclass(frozen=True, slots=True)
class Means:
    """One leader's."""

    generation: Generation
    load: Callable[[str], int]
    """How many replicas a node has."""
    free_minor: Callable[[], int]
    chance: Stream
    now: Callable[[], float]
    readings: Readings
