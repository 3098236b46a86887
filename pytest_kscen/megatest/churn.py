"""How a test wants its volumes to come and go."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kscen.objects import quantities

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

    def __post_init__(self) -> None:
        classes: object = self.storage_classes
        if not isinstance(classes, tuple) or not classes or not all(isinstance(name, str) for name in classes):
            raise ValueError(f"storage_classes={self.storage_classes!r}: give a list of names")
        if not isinstance(self.max_volumes, int) or self.max_volumes < 1:
            raise ValueError(f"max_volumes={self.max_volumes!r}: give a whole number, 1 or more")
        if not all(isinstance(number, int) and number > 0 for number in self.step):
            raise ValueError(f"step={self.step!r}: give two whole numbers, 1 or more")
        try:
            quantities.canonical(self.size)
        except ValueError as error:
            raise ValueError(f"size={self.size!r} is no quantity: write it as in 100Mi or 1Gi") from error
