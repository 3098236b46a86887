"""How a run ended: volumes that were left became ready again when everything was healed, and nothing of ours stayed behind.

What a test has left on is not healed until that is judged. What nobody looked at is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.checks.verdict import INVALID, UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.journal import Entry

EVERYTHING = "everything"


@dataclass(slots=True)
class Ending:
    """What the journal says of it."""

    frozen_at: float = 0.0
    stopped_early: bool = False
    late: list[str] | None = None
    """The volumes that did not become ready again; None if that could not be judged."""
    ready: dict[str, None] = field(default_factory=dict)
    """The volumes that ever were."""
    lasting: list[str] = field(default_factory=list)
    """The faults that were left on."""
    leftovers: list[str] | None = None
    """None if nobody looked."""
    crashes: list[str] = field(default_factory=list)
    """The actors that did not do all that they should have, and why."""
    made: dict[str, None] = field(default_factory=dict)
    """The resources of which the run made objects, or tried to."""
    hidden: dict[str, str] = field(default_factory=dict)
    """The resources into which it could not look at its end, and why."""

    @property
    def overlooked(self) -> dict[str, str]:
        """Where something of it may be that nobody has seen."""
        return {resource: why for resource, why in self.hidden.items() if resource in {EVERYTHING, *self.made}}


def read(journal: Iterable[Entry]) -> Ending:
    ending = Ending()
    for entry in journal:
        _learn(ending, entry)
    return ending


def _learn(ending: Ending, entry: Entry) -> None:
    match entry.what:
        case "wrote" | "refused" if entry.data["verb"] in {"create", "apply"}:
            ending.made[entry.data["resource"]] = None
        case "frozen":
            ending.frozen_at = entry.at
        case "stopped-early":
            ending.stopped_early = True
        case "crashed":
            ending.crashes.append(f"{entry.data['actor']}: {entry.data['error']}")
        case "ready":
            ending.ready[entry.data["volume"]] = None
        case "incident-lasting":
            ending.lasting.append(entry.data["incident"])
        case "liveness":
            ending.late = entry.data["late"]
        case "not-looked-into":
            ending.hidden[entry.data["resource"]] = entry.data["why"]
        case "leftovers":
            ending.leftovers = entry.data["objects"]


def judge(ending: Ending) -> Iterator[Finding]:
    if ending.crashes:
        yield Finding("actors", UNKNOWN, f"crashed: {'; '.join(ending.crashes)}")
    yield _liveness(ending)
    yield _leftovers(ending)


def _liveness(ending: Ending) -> Finding:
    if ending.late is None:
        return Finding("liveness", UNKNOWN, "the run ended before the volumes that were left could be judged")
    if ending.late:
        return Finding("liveness", INVALID, "; ".join(_late(ending, ending.late)))
    return Finding("liveness", VALID)


def _late(ending: Ending, late: Sequence[str]) -> Iterator[str]:
    circumstances = f"while {', '.join(ending.lasting)} lasted" if ending.lasting else "although everything was healed"
    if again := [name for name in late if name in ending.ready]:
        yield f"not ready again {circumstances}: {', '.join(again)}"
    if never := [name for name in late if name not in ending.ready]:
        yield f"never ready, {circumstances}: {', '.join(never)}"


def _leftovers(ending: Ending) -> Finding:
    if ending.leftovers:
        return Finding("leftovers", INVALID, f"still there: {', '.join(ending.leftovers)}")
    if ending.leftovers is None:
        return Finding("leftovers", UNKNOWN, "the run ended before anybody looked for them")
    if ending.overlooked:
        told = "; ".join(f"{resource}: {why}" for resource, why in ending.overlooked.items())
        return Finding("leftovers", UNKNOWN, f"nobody could look into {told}")
    return Finding("leftovers", VALID)
