"""Reports within pytest's own reports: lines of the terminal's summary, and JUnit properties."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.report.protocol import Report

if TYPE_CHECKING:
    from typing import Self

    from pytest_kscen.report.protocol import ReportedRun, ReportedSession


class TerminalReport(Report):
    """Lines of each run for the terminal's summary: all of them with -v, otherwise in brief.

    Progress messages of a run are shown at once.
    """

    name = "terminal"

    def __init__(self, config: Any) -> None:
        self._config = config

    @classmethod
    def for_session(cls, session: ReportedSession) -> Self:
        return cls(session.config)

    def progress(self, run: ReportedRun, message: str) -> None:  # noqa: ARG002  # of any run
        """Write one line even if output is captured.

        The message is dropped if the terminal was closed, or in a pytest-xdist worker, which has
        none.
        """
        terminal, capture = map(
            self._config.pluginmanager.getplugin, ("terminalreporter", "capturemanager")
        )
        if terminal:
            shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
            with contextlib.suppress(OSError, ValueError), shown:
                terminal.ensure_newline()
                terminal.write_line(f"kscen: {message}")
                terminal.flush()

    def finish(self, run: ReportedRun) -> None:
        verbose = self._config.getoption("verbose") > 0
        run.test.summaries.append(run.result.summary() if verbose else run.result.brief())


class JUnitReport(Report):
    """Properties of each run, added to the properties of its test.

    Names of the test's second and later runs end with the run's number.
    """

    name = "junit"

    def finish(self, run: ReportedRun) -> None:
        number = f".{run.position}" if run.position > 1 else ""
        run.test.properties += [
            (f"{name}{number}", value) for name, value in run.result.properties()
        ]
