"""How a run ended: volumes that were left became ready again when everything was healed, and nothing of ours stayed behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.checks.verdict import INVALID, UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.journal import Entry


@dataclass(slots=True)
class Ending:
    """What the journal says of it."""

    frozen_at: float = 0.0
    stopped_early: bool = False
    late: list[str] | None = None
    """The volumes that did not become ready again; None if that could not be judged."""
    leftovers: list[str] = field(default_factory=list)


def read(journal: Iterable[Entry]) -> Ending:
    ending = Ending()
    for entry in journal:
        match entry.what:
            case "frozen":
                ending.frozen_at = entry.at
            case "stopped-early":
                ending.stopped_early = True
            case "liveness":
                ending.late = entry.data["late"]
            case "leftovers":
                ending.leftovers = entry.data["objects"]
    return ending


def judge(ending: Ending) -> Iterator[Finding]:
    if ending.late is None:
        yield Finding("liveness", UNKNOWN, "the run ended before the volumes that were left could be judged")
    elif ending.late:
        yield Finding("liveness", INVALID, f"not ready again although everything was healed: {', '.join(ending.late)}")
    else:
        yield Finding("liveness", VALID)
    still_there = f"still there: {', '.join(ending.leftovers)}"
    yield Finding("leftovers", INVALID, still_there) if ending.leftovers else Finding("leftovers", VALID)
