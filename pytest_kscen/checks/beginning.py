"""How a run began: its seed, and what was declared, of which something has to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.checks.verdict import UNKNOWN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.journal import Entry


@dataclass(slots=True)
class Beginning:
    """What the journal says of it."""

    seed: str = ""
    replayable: bool = True
    chaos: list[str] | None = None
    """The declared profiles; None if nobody knows them."""
    churn: bool = False
    conditions: tuple[str, ...] = ()
    """What is watched of each volume."""


def learn(beginning: Beginning, entry: Entry) -> None:
    """What the next entry says of it."""
    if entry.what == "run-started":
        beginning.seed = entry.data["seed"]
        beginning.chaos, beginning.churn = entry.data["chaos"], entry.data["churn"]
        beginning.conditions = tuple(entry.data["conditions"])
    elif entry.what == "not-replayable":
        beginning.replayable = False


def judge(beginning: Beginning) -> Iterator[Finding]:
    if beginning.chaos is None:
        yield Finding("journal", UNKNOWN, "it has no beginning: nobody knows what was declared")
