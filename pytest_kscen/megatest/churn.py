"""How a test wants its volumes to come and go."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CLASSES = ("availability", "consistency-and-availability")


@dataclass(frozen=True, slots=True)
class Churn:
    """multivolume's parameters; ranges are (least, most), times in seconds."""

    storage_classes: tuple[str, ...] = DEFAULT_CLASSES
    max_volumes: int = 10
    step: tuple[int, int] = (1, 3)
    step_period: tuple[float, float] = (10.0, 30.0)
    lifetime: tuple[float, float] = (60.0, 300.0)
    size: str = "100Mi"
