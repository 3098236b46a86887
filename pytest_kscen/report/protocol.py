"""Protocol of reports: start, progress and finish of each run and of each played scenario.

`registry.reports_for` lists the reports of a session. The plugin gives each test a `ReportedTest`;
`ScenarioRunner` makes a `ReportedRun` for each run or scenario and calls it at each point. Nothing
here may import a report, or pytest: reports receive its objects from the plugin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import contextlib
    import pathlib
    from collections.abc import Callable, Sequence
    from typing import Self

    from pytest_kscen.journal import ChangeRecord, Journal

LARGEST_JOURNAL = 20 * 1024 * 1024
"""Bytes of a journal that is attached to a page which a browser loads whole."""


@dataclass(frozen=True, slots=True)
class ReportedSession:
    """Session of tests for which reports are made."""

    config: Any
    """pytest's configuration."""
    archive: pathlib.Path | None = None
    """Folder of --kscen-archive; None without one."""


class Report:
    """Report of runs: a class that overrides the points it needs, and has a name to be registered.

    Reports are called in the order of the session's list, inside the test: `prepare`, `start`, any
    number of `progress`, `finish`. A refused run gets no `finish`, and an early refused run no
    `start`. An exception in a report fails the test; in `prepare` and `start` it prevents the run.
    """

    name: ClassVar[str]

    @classmethod
    def for_session(cls, session: ReportedSession) -> Self | None:  # noqa: ARG003  # for overrides
        """Make the report of a session, before its first test; None if it needs none."""
        return cls()

    def prepare(self, run: ReportedRun) -> None:
        """Refuse a run by raising ValueError, for example if its folder is in use."""

    def start(self, run: ReportedRun) -> None:
        """Begin a run that has passed all checks; `run.journal` is set."""

    def progress(self, run: ReportedRun, message: str) -> None:
        """Show a message at once to the person at the terminal."""

    def finish(self, run: ReportedRun) -> None:
        """Report `run.result`. The journal is complete, but still open."""


class ReportedResult(Protocol):
    """Result of a run (`summary.RunResult`) or of a scenario (`run.scenarios.PlayedResult`)."""

    def brief(self) -> list[str]:
        """Return the lines of a terminal without -v, the headline first."""

    def summary(self) -> list[str]:
        """Return all lines, the headline first."""

    def properties(self) -> list[tuple[str, object]]:
        """Return names and values for JUnit."""

    def as_json(self) -> bytes:
        """Return the content of outcome.json."""

    def write_stories(self, folder: pathlib.Path) -> None:
        """Write one file per volume that moved into the archive's folder, if there are any."""

    def attach(self, title: str) -> None:
        """Add steps and attachments to the test's Allure report, under this title."""


@dataclass(slots=True)
class ReportedTest:
    """Test of the reported runs: its id, seed and options, and collected report lines."""

    id: str
    """pytest's id, from the folder above where the test is outside of the root directory."""
    seed: str
    options: dict[str, str]
    """Given options, by their flags."""
    command: str
    """Command line that repeats the test when called in `folder`."""
    folder: str
    properties: list[tuple[str, object]] = field(default_factory=list)
    """JUnit properties of the test; a report may add to them."""
    summaries: list[list[str]] = field(default_factory=list)
    """Lines per finished run for the terminal, the headline first; a report may add to them."""
    prepared: int = 0
    """Number of prepared runs and scenarios, including refused ones."""
    finished: int = 0
    """Number of reported runs and scenarios."""


@dataclass(slots=True, eq=False)
class ReportedRun:
    """Run or played scenario of a test, with its reports."""

    test: ReportedTest
    number: int = 0
    """1 for the test's first prepared run or scenario, even if it was refused; 0 until `prepare`.
    """
    reports: Sequence[Report] = ()
    journal: Journal | None = None
    """None until `start`."""
    changes: ChangeRecord | None = None
    """Record of changes; None until `start`, and for a scenario."""
    result: Any = None
    """A `ReportedResult`; None until `finish`. A run's result has its `outcome`."""
    position: int = 0
    """1 for the test's first run that finished; 0 until `finish`."""
    stopped: Callable[[], bool] = lambda: False
    """Return True after Ctrl-C or SIGTERM, which may come even while reports are made."""
    signal_handlers: contextlib.ExitStack | None = None
    """Restores the former signal handlers when it is closed, after `finish`."""

    def prepare(self) -> None:
        self.test.prepared += 1
        self.number = self.test.prepared
        for report in self.reports:
            report.prepare(self)

    def start(self, journal: Journal, changes: ChangeRecord | None = None) -> None:
        self.journal, self.changes = journal, changes
        for report in self.reports:
            report.start(self)

    def progress(self, message: str) -> None:
        for report in self.reports:
            report.progress(self, message)

    def finish(self, result: ReportedResult) -> None:
        self.result = result
        self.test.finished += 1
        self.position = self.test.finished
        for report in self.reports:
            report.finish(self)
