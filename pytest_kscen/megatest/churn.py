"""Churn parameters of a test, and the values drawn for each volume before it is created."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.chaos.profiles import PodDestroy
from pytest_kscen.objects import quantities
from pytest_kscen.objects.arguments import (
    Duration,
    is_number,
    is_range,
    is_whole_number,
    range_error,
    require_range,
)

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.chaos.profile import Profile


POD_DESTROYER = PodDestroy()
DEFAULT_CLASSES = ("availability", "consistency-and-availability")

Seconds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Churn:
    """Parameters of multivolume, from the marker and the options.

    Ranges are (least, most), times seconds, sizes Kubernetes quantities. Raise ValueError with
    the parameter's name for invalid values.
    """

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
    """Seconds within which a volume has to become ready, and a deleted disk to be replaced."""

    def __post_init__(self) -> None:
        classes: object = self.storage_classes
        if (
            not isinstance(classes, tuple)
            or not classes
            or not all(isinstance(name, str) and name for name in classes)
        ):
            raise ValueError(f"storage_classes={self.storage_classes!r}: give a list of names")
        if not is_whole_number(self.max_volumes):
            raise ValueError(f"max_volumes={self.max_volumes!r}: give a whole number, 1 or more")
        for name in ("resizer", "replica_destroyer", "replica_creator", "pod_destroyer"):
            if not isinstance(getattr(self, name), bool):
                # like all invalid parameters
                raise ValueError(  # noqa: TRY004
                    f"{name}={getattr(self, name)!r}: give True or False"
                )
        if not is_number(self.patience) or self.patience == math.inf:
            raise ValueError(f"patience={self.patience!r}: give a time, more than zero")
        require_range("step", self.step, whole=True)
        for name in (
            *("step_period", "lifetime", "attacher_period"),
            *("resizer_period", "replica_destroyer_period", "replica_creator_period"),
        ):
            require_range(name, getattr(self, name))
        size, largest = _bytes("size", self.size), _bytes("max_size", self.max_size)
        if not is_range([_bytes("resizer_step", step) for step in self.resizer_step]):
            raise range_error("resizer_step", self.resizer_step)
        if size < SMALLEST_SIZE:
            raise ValueError(f"size={self.size!r} is {size} bytes: give 1Mi or more, as in 100Mi")
        if self.resizer and largest < size:
            raise ValueError(
                f"max_size={self.max_size!r} is less than size={self.size!r}: the resizer "
                "could not grow anything"
            )

    @property
    def profiles(self) -> tuple[Profile, ...]:
        return (POD_DESTROYER,) if self.pod_destroyer else ()


SMALLEST_SIZE = 1 << 20
"""Bytes of the smallest volume. A smaller size lacks a unit, as in 100 for 100Mi."""


def _bytes(name: str, size: str) -> int:
    try:
        return quantities.parse(size).value
    except ValueError:
        raise ValueError(
            f"{name}={size!r} is not a quantity: write for example 100Mi or 1Gi"
        ) from None


ATTACHED_AT_FIRST = ((30, 0), (90, 1), (100, 2))
"""Limits of a draw below 100, each with the number of nodes to attach to after the creation."""


@dataclass(frozen=True, slots=True)
class Growth:
    period: Seconds
    step: tuple[str, str]
    max_size: str


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """Drawn values of one volume, all drawn before its creation.

    An actor without a period (or growth) does not run.
    """

    name: str
    storage_class: str
    size: str
    lifetime: float = math.inf
    """Seconds after becoming ready; infinity lasts as long as the run."""
    patience: float = 600.0
    """Seconds from creation within which the volume has to become ready, and a deleted disk be
    replaced.

    The wait for a volume of infinite lifetime has no limit.
    """
    attachments: int = 0
    attacher_period: Seconds | None = None
    growth: Growth | None = None
    replica_destroyer_period: Seconds | None = None
    replica_creator_period: Seconds | None = None
    key: str = ""
    """Name without the run's salt, if it differs: seed of the volume's actors."""


def draw(chance: Stream, churn: Churn) -> VolumePlan:
    name, key = drawn_name(chance)
    return VolumePlan(
        name=name,
        storage_class=chance.choice(churn.storage_classes),
        size=churn.size,
        lifetime=chance.between(*churn.lifetime),
        patience=churn.patience,
        attachments=attachments_for(chance.below(100)),
        attacher_period=churn.attacher_period,
        growth=Growth(churn.resizer_period, churn.resizer_step, churn.max_size)
        if churn.resizer
        else None,
        replica_destroyer_period=churn.replica_destroyer_period
        if churn.replica_destroyer
        else None,
        replica_creator_period=churn.replica_creator_period if churn.replica_creator else None,
        key=key,
    )


def drawn_name(chance: Stream) -> tuple[str, str]:
    """Draw a volume's name and its key, which is the name without the run's salt.

    Runs of one seed have equal keys but different names.
    """
    uid, key = chance.uid_and_key()
    return f"mgt-{uid}", f"mgt-{key}"


def attachments_for(number: int) -> int:
    return next(count for limit, count in ATTACHED_AT_FIRST if number < limit)
