"""Outcome of a run: verdict, findings, volumes, incidents and leftovers, from its journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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

    Check = Callable[[], Iterator[Finding]]
    Learner = Callable[[Entry], Any]

BEST_FIRST = (volumes.STABLE, volumes.RECOVERED, volumes.INTERRUPTED, UNKNOWN, volumes.BROKEN)


class Volumes(Sequence["VolumeRecord"]):
    """The run's volumes, in the order of their creation; by name too, of which the latest has
    it.
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
        """A record, or the name of one."""
        return any(one in (record.name, record) for record in self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        """Return the number of volumes by verdict."""
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
    """The judged run.

    A test that never looks at the verdict of one that is not valid fails at its end.
    """

    findings: list[Finding]
    volumes: Volumes
    incidents: list[IncidentRecord]
    leftovers: list[str]
    actions: dict[str, Tally]
    """Tally of each action, by its name."""
    lasted: float
    """Seconds of cluster time until the counters were frozen, or the journal breaks off."""
    stopped_early: bool
    seed: str
    replayable: bool = True
    looked_at: bool = field(default=False, repr=False)

    @property
    def verdict(self) -> str:
        self.looked_at = True
        return self.judged

    @property
    def judged(self) -> str:
        """The verdict, for those who only report it."""
        return merged(self.findings)

    def explain(self) -> str:
        """Return a line for every finding that is not valid, and the seed."""
        lines = [
            f"{finding.check} is {finding.verdict}: {finding.why}"
            for finding in self.findings
            if finding.verdict != VALID
        ]
        return "\n".join(
            [*(lines or ["everything that was checked is valid"]), f"seed {self.seed}"]
        )

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
            ),  # one after the other, so that they are never all in memory
            option=orjson.OPT_PASSTHROUGH_DATACLASS
            | orjson.OPT_INDENT_2
            | orjson.OPT_APPEND_NEWLINE,
        )


def judge(journal: Iterable[Entry], path: pathlib.Path | None = None) -> Outcome:
    """The outcome of a journal, which is read once for all checks; one that crashes makes its part
    unknown.

    `path` is where it was read from: a later `judge` names the line at which a check crashed
    at."""
    outcome = Outcome([], Volumes([]), [], [], {}, 0.0, False, "")
    began, end = start_and_end.RunStart(), start_and_end.RunEnd()
    actions: dict[str, Tally] = {}
    seen: dict[str, IncidentRecord] = {}
    stories = volumes.VolumeHistories(began)

    def of_the_beginning() -> Iterator[Finding]:
        outcome.seed, outcome.replayable = began.seed, began.replayable
        yield from start_and_end.judge_start(began)

    def of_actions() -> Iterator[Finding]:
        outcome.actions = actions
        yield from ()

    def of_incidents() -> Iterator[Finding]:
        outcome.incidents = list(seen.values())
        yield from incidents.judge(
            began.chaos or (),
            outcome.incidents,
            link_profiles=began.link_profiles,
            has_volumes=stories.has_any,
            lasted=end.lasted,
        )

    def of_volumes() -> Iterator[Finding]:
        outcome.volumes = Volumes(stories.judged(outcome.incidents))
        created = outcome.actions.get(CREATE, Tally())
        yield from guarantees.judge(outcome.volumes, churn=began.churn, refusal=created.refusal)

    def of_the_end() -> Iterator[Finding]:
        outcome.leftovers, outcome.lasted, outcome.stopped_early = (
            end.leftovers or [],
            end.lasted,
            end.stopped_early,
        )
        yield from start_and_end.judge_end(end)

    learners: dict[Check, Learner] = {
        of_the_beginning: partial(start_and_end.update_run_start, began),
        of_actions: partial(tally.learn_actions, actions),
        of_incidents: partial(incidents.learn, seen),
        of_volumes: stories.learn,
        of_the_end: partial(start_and_end.update_run_end, end),
    }
    crashes = _read(journal, learners)
    for check in learners:
        if check not in crashes:
            try:
                outcome.findings += check()
            except Exception as error:  # noqa: BLE001  # an oracle that crashes has not judged
                crashes[check] = CheckCrash(error)
        if check in crashes:
            name = check.__name__.removeprefix("of_")
            outcome.findings.append(Finding(name, UNKNOWN, crashes[check].message(path)))
    outcome.findings = [_doubted(one) if end.cluster_crashed else one for one in outcome.findings]
    return outcome


def _doubted(finding: Finding) -> Finding:
    """Return the finding as unknown: the embedded cluster has crashed, which may be its cause."""
    if finding.verdict != INVALID:
        return finding
    return Finding(
        finding.check,
        UNKNOWN,
        f"the embedded cluster crashed, which may be the cause: {finding.why}",
    )


def _read(journal: Iterable[Entry], learners: dict[Check, Learner]) -> dict[Check, CheckCrash]:
    """Pass every entry to each check; a check that crashes gets no more. Return the crashes."""
    crashes: dict[Check, CheckCrash] = {}
    active = list(learners.items())
    try:
        for line, entry in enumerate(journal, 1):
            for check, learn in active:
                try:
                    learn(entry)
                except Exception as error:  # noqa: BLE001  # it is that check's alone
                    crashes[check] = CheckCrash(error, line, entry)
                    active = [one for one in active if one[0] is not check]
    except Exception as error:  # noqa: BLE001  # a check that cannot read an entry has judged nothing
        crashes = {**dict.fromkeys(learners, CheckCrash(error)), **crashes}
    return crashes
