"""What a run has come to: verdicts, volumes, incidents and what was left behind, judged from its journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import orjson

from pytest_kscen.checks import ending, incidents, volumes
from pytest_kscen.checks.verdict import UNKNOWN, VALID, Finding, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.checks.volumes import VolumeRecord
    from pytest_kscen.journal import Entry


class Volumes(Sequence["VolumeRecord"]):
    """The run's volumes, in the order of their creation; by name too."""

    def __init__(self, records: Iterable[VolumeRecord]) -> None:
        self._records = list(records)

    @overload
    def __getitem__(self, key: int | str) -> VolumeRecord: ...
    @overload
    def __getitem__(self, key: slice) -> list[VolumeRecord]: ...
    def __getitem__(self, key: int | str | slice) -> VolumeRecord | list[VolumeRecord]:
        if isinstance(key, str):
            for record in self._records:
                if record.name == key:
                    return record
            raise KeyError(f"no volume {key!r}; there are {', '.join(record.name for record in self._records) or 'none'}")
        return self._records[key]

    def __len__(self) -> int:
        return len(self._records)

    def _of(self, verdict: str) -> list[VolumeRecord]:
        return [record for record in self._records if record.verdict == verdict]

    @property
    def stable(self) -> list[VolumeRecord]:
        return self._of(volumes.STABLE)

    @property
    def recovered(self) -> list[VolumeRecord]:
        return self._of(volumes.RECOVERED)

    @property
    def broken(self) -> list[VolumeRecord]:
        return self._of(volumes.BROKEN)

    @property
    def interrupted(self) -> list[VolumeRecord]:
        return self._of(volumes.INTERRUPTED)

    @property
    def total_transitions(self) -> int:
        return sum(sum(record.transitions.values()) for record in self._records)


@dataclass(slots=True)
class Outcome:
    """The judged run. A test that never looks at the verdict of one that is not valid fails at its end."""

    findings: list[Finding]
    volumes: Volumes
    incidents: list[IncidentRecord]
    leftovers: list[str]
    seed: str
    replayable: bool = True
    looked_at: bool = field(default=False, repr=False)

    @property
    def verdict(self) -> str:
        self.looked_at = True
        return merged(self.findings)

    def explain(self) -> str:
        """Every finding that is not valid, and the seed."""
        said = [f"{finding.check} is {finding.verdict}: {finding.why}" for finding in self.findings if finding.verdict != VALID]
        return "\n".join([*(said or ["everything that was checked is valid"]), f"seed {self.seed}"])

    def as_json(self) -> bytes:
        return orjson.dumps(
            {
                "verdict": merged(self.findings),
                "findings": [{"check": one.check, "verdict": one.verdict, "why": one.why} for one in self.findings],
                "volumes": [volume.as_json() for volume in self.volumes],
                "incidents": [incident.as_json() for incident in self.incidents],
                "leftovers": self.leftovers,
                "seed": self.seed,
                "replayable": self.replayable,
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )


def judge(journal: Iterable[Entry], *, declared: Sequence[str], seed: str, replayable: bool) -> Outcome:
    """The outcome of a journal; a check that crashes makes its part unknown."""
    entries = list(journal)
    outcome = Outcome([], Volumes([]), [], [], seed, replayable)

    def of_incidents() -> Iterator[Finding]:
        outcome.incidents = incidents.incidents(entries)
        yield from incidents.judge(declared, outcome.incidents)

    def of_volumes() -> Iterator[Finding]:
        outcome.volumes = Volumes(volumes.volumes(entries, outcome.incidents))
        yield from volumes.judge(outcome.volumes)

    def of_the_end() -> Iterator[Finding]:
        outcome.leftovers = ending.leftovers(entries)
        yield from ending.judge(entries)

    for check in (of_incidents, of_volumes, of_the_end):
        try:
            outcome.findings += check()
        except Exception as error:  # noqa: BLE001  # an oracle that crashes has not judged
            outcome.findings.append(Finding(check.__name__.removeprefix("of_"), UNKNOWN, f"the check crashed: {error!r}"))
    return outcome
