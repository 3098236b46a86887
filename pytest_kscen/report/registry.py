"""Registry of reports, and the list of a session's reports.

The plugin calls `reports_for` once per session, before its first test. A new built-in report is a
class in a module of this package, and its line in `BUILT_IN` with the sessions it is for. Reports
of others decide that in `Report.for_session`. Nothing here may import pytest.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_kscen.extensions import Registry, returned_by_hook
from pytest_kscen.report.allure import AllureReport
from pytest_kscen.report.archive import ArchiveReport
from pytest_kscen.report.protocol import Report, ReportedSession
from pytest_kscen.report.terminal import JUnitReport, TerminalReport

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator, Mapping

BUILT_IN: Mapping[type[Report], Callable[[ReportedSession], object]] = {
    TerminalReport: lambda _: True,
    JUnitReport: lambda _: True,
    ArchiveReport: lambda session: session.archive,
    AllureReport: lambda session: session.config.getoption("allure_report_dir", None),
}
"""Built-in reports, in the order in which a run notifies them, with the condition on the session.

`for_session` is called if it holds: no module of a report that the session lacks is entered.
"""

REPORTS: Registry[Any] = Registry(
    "reports",
    "report",
    facts={
        "prepare": "def prepare(self, run): …",
        "start": "def start(self, run): …",
        "progress": "def progress(self, run, message): …",
        "finish": "def finish(self, run): …",
    },
    built_in=tuple(BUILT_IN),
)
"""Reports by name: classes, of which each session makes its own, or objects."""


def reports_for(config: Any, archive: pathlib.Path | None = None) -> list[Report]:
    """Return the reports of a session: built-in reports, then reports of other plugins.

    `config` is pytest's. `archive` is the folder of --kscen-archive, None without one. Packages add
    theirs by an entry point, plugins with the hook `pytest_kscen_reports(config)`, which returns a
    list of classes or objects; they leave the registry when the session ends. Raises ExtensionError
    for a report that cannot be used.
    """
    if hook := getattr(config.hook, "pytest_kscen_reports", None):
        for returned in hook(config=config):
            for report in returned_by_hook("reports", returned, config.pluginmanager):
                if REPORTS.add(report):
                    config.add_cleanup(functools.partial(REPORTS.discard, report))
    return list(_made_for(ReportedSession(config, archive)))


def _made_for(session: ReportedSession) -> Iterator[Report]:
    for report in REPORTS.values():
        made: Any = report
        if isinstance(report, type):
            if report in BUILT_IN and not BUILT_IN[report](session):
                continue
            made = report.for_session(session) if issubclass(report, Report) else report()
        if made is not None:
            yield made
