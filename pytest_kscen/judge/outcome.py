"""Outcome of a run: verdict, findings, volumes, incidents and leftovers, from its journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, overload

import orjson

from pytest_kscen.journal import schema
from pytest_kscen.judge import incidents, operations, start_and_end, volumes
from pytest_kscen.judge import verdict as tally
from pytest_kscen.judge.guarantees.checks import Guarantees, ReplayedGuarantees
from pytest_kscen.judge.start_and_end import CheckCrash
from pytest_kscen.judge.verdict import CREATE, INVALID, UNKNOWN, VALID, Finding, Tally, merged

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Change, Entry
    from pytest_kscen.judge.guarantees.checks import DeclaredGuarantees
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
    guarantees: Guarantees = field(default_factory=Guarantees)
    """Results of the guarantees that the test has declared, in that order; by name too."""
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
                "guarantees": list(self.guarantees),
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


def judge(
    journal: Iterable[Entry],
    path: pathlib.Path | None = None,
    *,
    guarantees: DeclaredGuarantees | None = None,
    changes: Iterable[Change] = (),
    without_record: str = "",
) -> Outcome:
    """Judge a journal, which is read once for all checks; a check that crashes is unknown.

    `path` is the journal's file: findings about a crash name it and the line. `changes` is the
    run's record of changes, and `without_record` why there is none. `guarantees` has read both
    already, while the run was on.
    """
    run = RunChecks(guarantees or ReplayedGuarantees(changes), without_record)
    outcome, checks = run.outcome, run.checks
    crashes = _read(journal, checks)
    for name, (_, findings) in checks.items():
        if name not in crashes:
            try:
                outcome.findings += findings()
            except Exception as error:  # noqa: BLE001  # an oracle that crashes has not judged
                crashes[name] = CheckCrash(error)
        if name in crashes:
            outcome.findings.append(Finding(name, UNKNOWN, crashes[name].message(path)))
    if run.end.cluster_crashed:
        outcome.findings = [
            replace(
                one,
                verdict=UNKNOWN,
                why=f"the embedded cluster crashed, which may be the cause: {one.why}",
            )
            if one.verdict == INVALID
            else one
            for one in outcome.findings
        ]
    return outcome


class RunChecks:
    """Checks of one run: what each reads from the journal, and its findings.

    Each check fills its part of `outcome` and yields its findings, after the last entry.
    """

    def __init__(self, guarantees: DeclaredGuarantees, without_record: str) -> None:
        self.outcome = Outcome([], Volumes([]), [], [], {}, 0.0, False, "")
        self.end = start_and_end.RunEnd()
        self._start = start_and_end.RunStart()
        self._actions: dict[str, Tally] = {}
        self._incidents: dict[str, IncidentRecord] = {}
        self._histories = volumes.VolumeHistories(self._start)
        self._guarantees = guarantees
        self._without_record = without_record
        self.checks: dict[str, Check] = {
            "run_start": (
                partial(start_and_end.update_run_start, self._start),
                self._judge_start,
            ),
            "actions": (partial(tally.count_action, self._actions), self._judge_actions),
            "incidents": (
                partial(incidents.update_incidents, self._incidents),
                self._judge_incidents,
            ),
            "volumes": (self._histories.update, self._judge_volumes),
            "guarantees": (guarantees.update, self._judge_guarantees),
            "run_end": (partial(start_and_end.update_run_end, self.end), self._judge_end),
        }
        """By the names of findings about a crash, in the order of the report."""

    def _judge_start(self) -> Iterator[Finding]:
        self.outcome.seed = self._start.seed
        self.outcome.replayable = self._start.replayable
        yield from start_and_end.judge_start(self._start)

    def _judge_actions(self) -> Iterator[Finding]:
        self.outcome.actions = self._actions
        yield from ()

    def _judge_incidents(self) -> Iterator[Finding]:
        self.outcome.incidents = list(self._incidents.values())
        yield from incidents.judge(
            self._start.chaos or (),
            self.outcome.incidents,
            link_profiles=self._start.link_profiles,
            has_volumes=self._histories.has_any,
            lasted=self.end.lasted,
        )

    def _judge_volumes(self) -> Iterator[Finding]:
        self.outcome.volumes = Volumes(self._histories.judged(self.outcome.incidents))
        created = self.outcome.actions.get(CREATE, Tally())
        yield from operations.judge(
            self.outcome.volumes, churn=self._start.churn, refusal=created.refusal
        )

    def _judge_guarantees(self) -> Iterator[Finding]:
        judged = list(self._guarantees.judge(self._without_record))
        self.outcome.guarantees = Guarantees(result for result, _ in judged)
        yield from (finding for _, finding in judged)

    def _judge_end(self) -> Iterator[Finding]:
        self.outcome.leftovers = self.end.leftovers or []
        self.outcome.lasted, self.outcome.stopped_early = self.end.lasted, self.end.stopped_early
        yield from start_and_end.judge_end(self.end)


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
