"""What is drawn for a volume before it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.megatest.churn import Churn, Seconds

ATTACHED_AT_FIRST = ((30, 0), (90, 1), (100, 2))
"""rand(100) below the first number: to so many nodes at once."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How the resizer lets a volume grow."""

    period: Seconds
    step: tuple[str, str]
    max_size: str


@dataclass(frozen=True, slots=True)
class Destiny:
    """One volume's. Whoever has no period (or growth) here does not act on the volume."""

    name: str
    storage_class: str
    size: str
    lifetime: float = math.inf
    """Seconds from ready on; for ever is as long as the run lasts."""
    patience: float = 600.0
    """Seconds from its creation within which it has to become ready; from its deletion, a disk that we took be replaced.

    What lives for ever is waited for as long as the run is on.
    """
    attachments: int = 0
    attacher_period: Seconds | None = None
    growth: Growth | None = None
    replica_destroyer_period: Seconds | None = None
    replica_creator_period: Seconds | None = None
    key: str = ""
    """The name that it would have without a salt, if that is another: its actors' chance goes by it."""


def draw(chance: Stream, churn: Churn) -> Destiny:
    name, key = drawn_name(chance)
    return Destiny(
        name=name,
        storage_class=chance.choice(churn.storage_classes),
        size=churn.size,
        lifetime=chance.between(*churn.lifetime),
        patience=churn.patience,
        attachments=attachments_for(chance.below(100)),
        attacher_period=churn.attacher_period,
        growth=Growth(churn.resizer_period, churn.resizer_step, churn.max_size) if churn.resizer else None,
        replica_destroyer_period=churn.replica_destroyer_period if churn.replica_destroyer else None,
        replica_creator_period=churn.replica_creator_period if churn.replica_creator else None,
        key=key,
    )


def drawn_name(chance: Stream) -> tuple[str, str]:
    """A volume's, and its key."""
    uid, key = chance.uid_and_key()
    return f"mgt-{uid}", f"mgt-{key}"


def attachments_for(number: int) -> int:
    return next(count for limit, count in ATTACHED_AT_FIRST if number < limit)
