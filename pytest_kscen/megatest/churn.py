"""How a test wants its volumes to come and go, and what is done to them while they live."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.objects import quantities
from pytest_kscen.objects.numbers import is_number, is_range, is_whole, no_range, valid_range

if TYPE_CHECKING:
    from pytest_kscen.objects.durations import Duration

DEFAULT_CLASSES = ("availability", "consistency-and-availability")

Seconds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Churn:
    """multivolume's parameters; ranges are (least, most), times in seconds, sizes are quantities."""

    storage_classes: tuple[str, ...] = DEFAULT_CLASSES
    max_volumes: int = 10
    step: tuple[int, int] = (1, 3)
    step_period: tuple[float, float] = (10.0, 30.0)
    lifetime: tuple[float, float] = (60.0, 300.0)
    size: str = "100Mi"
    attacher_period: tuple[float, float] = (30.0, 60.0)
    resizer: bool = False
    resizer_period: tuple[float, float] = (50.0, 50.0)
    resizer_step: tuple[str, str] = ("4Ki", "64Ki")
    max_size: str = "1Gi"
    replica_destroyer: bool = False
    replica_destroyer_period: tuple[float, float] = (30.0, 300.0)
    replica_creator: bool = False
    replica_creator_period: tuple[float, float] = (30.0, 300.0)
    pod_destroyer: bool = False
    patience: Duration = 600.0
    """Within which a volume has to become ready, and have a disk replaced that we took."""

    def __post_init__(self) -> None:
        classes: object = self.storage_classes
        if not isinstance(classes, tuple) or not classes or not all(isinstance(name, str) and name for name in classes):
            raise ValueError(f"storage_classes={self.storage_classes!r}: give a list of names")
        if not is_whole(self.max_volumes):
            raise ValueError(f"max_volumes={self.max_volumes!r}: give a whole number, 1 or more")
        for name in ("resizer", "replica_destroyer", "replica_creator", "pod_destroyer"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r}: give True or False")  # noqa: TRY004  # all of a plan's faults are
        if not is_number(self.patience) or self.patience == math.inf:
            raise ValueError(f"patience={self.patience!r}: give a time, more than zero")
        self._check_ranges()
        self._check_sizes()

    def _check_ranges(self) -> None:
        valid_range("step", self.step, whole=True)
        for name in (
            *("step_period", "lifetime", "attacher_period"),
            *("resizer_period", "replica_destroyer_period", "replica_creator_period"),
        ):
            valid_range(name, getattr(self, name))

    def _check_sizes(self) -> None:
        size, largest = _bytes("size", self.size), _bytes("max_size", self.max_size)
        if not is_range([_bytes("resizer_step", step) for step in self.resizer_step]):
            raise no_range("resizer_step", self.resizer_step)
        if size <= 0:
            raise ValueError(f"size={self.size!r}: give more than zero")
        if self.resizer and largest < size:
            raise ValueError(f"max_size={self.max_size!r} is less than size={self.size!r}: the resizer could not grow anything")


def _bytes(name: str, size: str) -> int:
    try:
        return quantities.parse(size).value
    except ValueError:
        raise ValueError(f"{name}={size!r} is no quantity: write it as in 100Mi or 1Gi") from None
