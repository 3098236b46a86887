"""Outcome of a run: verdict, findings, volumes, incidents and leftovers, from its journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, overload

import orjson

from pytest_kscen.journal import schema
from pytest_kscen.judge import guarantees, incidents, start_and_end, volumes
from pytest_kscen.judge import verdict as tally
from pytest_kscen.judge.start_and_end import CheckCrash
from pytest_kscen.judge.verdict import CREATE, INVALID, UNKNOWN, VALID, Finding, Tally, merged

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.judge.volumes import VolumeRecord

    Check = tuple[Callable[[Entry], Any], Callable[[], Iterator[Finding]]]
    """Function that reads each entry, and the function that judges what was read."""

BEST_FIRST = (volumes.STABLE, volumes.RECOVERED, volumes.INTERRUPTED, UNKNOWN, volumes.BROKEN)


class Volumes(Sequence["VolumeRecord"]):
    """Volumes of a run, in the order of their creation, and by name.

    A reused name means its latest volume. An unknown name raises KeyError with all names.
    """

    def __init__(self, records: Iterable[VolumeRecord]) -> None:
        self._records = list(records)

    @overload
    def __getitem__(self, key: int | str) -> VolumeRecord: ...
    @overload
    def __getitem__(self, key: slice) -> list[VolumeRecord]: ...
    def __getitem__(self, key: int | str | slice) -> VolumeRecord | list[VolumeRecord]:
        if isinstance(key, str):
            for record in reversed(self._records):
                if record.name == key:
                    return record
            raise KeyError(
                f"no volume {key!r}; there are "
                f"{', '.join(record.name for record in self._records) or 'none'}"
            )
        return self._records[key]

    def __contains__(self, one: object) -> bool:
        return any(one in (record.name, record) for record in self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        counted = ", ".join(
            f"{count} {verdict}" for verdict in BEST_FIRST if (count := len(self._of(verdict)))
        )
        return f"<{len(self)} volume{'' if len(self) == 1 else 's'}{counted and ': '}{counted}>"

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
    def unknown(self) -> list[VolumeRecord]:
        return self._of(UNKNOWN)

    @property
    def total_transitions(self) -> int:
        return sum(sum(record.transitions.values()) for record in self._records)


@dataclass(slots=True)
class Outcome:
    """Judged run: the verdict, its findings, and all data for reports.

    A test fails at its end if its run is not valid and the test has not read the verdict.
    """

    findings: list[Finding]
    volumes: Volumes
    incidents: list[IncidentRecord]
    leftovers: list[str]
    actions: dict[str, Tally]
    """Tally of each action, by its name."""
    lasted: float
    """Seconds of cluster time until the counters were frozen, or until the journal's last entry."""
    stopped_early: bool
    seed: str
    replayable: bool = True
    was_read: bool = field(default=False, repr=False)

    @property
    def verdict(self) -> str:
        self.was_read = True
        return self.judged

    @property
    def judged(self) -> str:
        """Return the verdict without marking it as read: for reports, not for tests."""
        return merged(self.findings)

    def explain(self) -> str:
        """Return a line for each finding that is not valid, and a line with the seed.

        Without such a finding the first line states that all checks are valid.
        """
        lines = [
            f"{finding.check} is {finding.verdict}: {finding.why}"
            for finding in self.findings
            if finding.verdict != VALID
        ]
        return "\n".join([*(lines or ["all checks are valid"]), f"seed {self.seed}"])

    def as_json(self) -> bytes:
        return orjson.dumps(
            {
                **schema.stamp(),
                "verdict": self.judged,
                "findings": [
                    {"check": one.check, "verdict": one.verdict, "why": one.why}
                    for one in self.findings
                ],
                "lasted": self.lasted,
                "stopped_early": self.stopped_early,
                "actions": self.actions,
                "volumes": list(self.volumes),
                "incidents": self.incidents,
                "leftovers": self.leftovers,
                "seed": self.seed,
                "replayable": self.replayable,
            },
            default=methodcaller(
                "as_json"
            ),  # called one by one, so that the results are never all in memory
            option=orjson.OPT_PASSTHROUGH_DATACLASS
            | orjson.OPT_INDENT_2
            | orjson.OPT_APPEND_NEWLINE,
        )


def judge(journal: Iterable[Entry], path: pathlib.Path | None = None) -> Outcome:
    """Judge a journal, which is read once for all checks; a check that crashes is unknown.

    `path` is the journal's file: findings about a crash name it and the line.
    """
    outcome = Outcome([], Volumes([]), [], [], {}, 0.0, False, "")
    start, end = start_and_end.RunStart(), start_and_end.RunEnd()
    actions: dict[str, Tally] = {}
    seen: dict[str, IncidentRecord] = {}
    histories = volumes.VolumeHistories(start)

    def of_run_start() -> Iterator[Finding]:
        outcome.seed, outcome.replayable = start.seed, start.replayable
        yield from start_and_end.judge_start(start)

    def of_actions() -> Iterator[Finding]:
        outcome.actions = actions
        yield from ()

    def of_incidents() -> Iterator[Finding]:
        outcome.incidents = list(seen.values())
        yield from incidents.judge(
            start.chaos or (),
            outcome.incidents,
            link_profiles=start.link_profiles,
            has_volumes=histories.has_any,
            lasted=end.lasted,
        )

    def of_volumes() -> Iterator[Finding]:
        outcome.volumes = Volumes(histories.judged(outcome.incidents))
        created = outcome.actions.get(CREATE, Tally())
        yield from guarantees.judge(outcome.volumes, churn=start.churn, refusal=created.refusal)

    def of_run_end() -> Iterator[Finding]:
        outcome.leftovers, outcome.lasted, outcome.stopped_early = (
            end.leftovers or [],
            end.lasted,
            end.stopped_early,
        )
        yield from start_and_end.judge_end(end)

    checks: dict[str, Check] = {  # findings about a crash have these names
        "run_start": (partial(start_and_end.update_run_start, start), of_run_start),
        "actions": (partial(tally.count_action, actions), of_actions),
        "incidents": (partial(incidents.update_incidents, seen), of_incidents),
        "volumes": (histories.update, of_volumes),
        "run_end": (partial(start_and_end.update_run_end, end), of_run_end),
    }
    crashes = _read(journal, checks)
    for name, (_, findings) in checks.items():
        if name not in crashes:
            try:
                outcome.findings += findings()
            except Exception as error:  # noqa: BLE001  # an oracle that crashes has not judged
                crashes[name] = CheckCrash(error)
        if name in crashes:
            outcome.findings.append(Finding(name, UNKNOWN, crashes[name].message(path)))
    outcome.findings = [
        replace(
            one,
            verdict=UNKNOWN,
            why=f"the embedded cluster crashed, which may be the cause: {one.why}",
        )
        if end.cluster_crashed and one.verdict == INVALID
        else one
        for one in outcome.findings
    ]
    return outcome


def _read(journal: Iterable[Entry], checks: dict[str, Check]) -> dict[str, CheckCrash]:
    """Pass each entry to all checks, until a check crashes. Return the crashes by check."""
    crashes: dict[str, CheckCrash] = {}
    active = [(name, update) for name, (update, _) in checks.items()]
    try:
        for line, entry in enumerate(journal, 1):
            for name, update in active:
                try:
                    update(entry)
                except Exception as error:  # noqa: BLE001  # the other checks continue
                    crashes[name] = CheckCrash(error, line, entry)
                    active = [one for one in active if one[0] != name]
    except Exception as error:  # noqa: BLE001  # all checks are unknown then
        crashes = {**dict.fromkeys(checks, CheckCrash(error)), **crashes}
    return crashes
