"""Reports of runs and of played scenarios: terminal, JUnit, archive folder, Allure.

Reports read journals and outcomes alone: no cluster, no pytest and no engine may be imported.

    protocol     Report, ReportedRun: the points at which reports are called
    registry     reports_for: built-in reports and those of packages
    terminal     lines for the terminal, JUnit properties
    archive      folder of a run: journal, outcome, summary, stories, command
    allure       steps and attachments of an Allure report
    summary      lines and properties of a run's outcome
    story        story of one volume, from the journal
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.lazy import lazy_names
from pytest_kscen.report.protocol import Report, ReportedRun, ReportedSession, ReportedTest

if TYPE_CHECKING:
    from pytest_kscen.report.registry import reports_for

__all__ = ["Report", "ReportedRun", "ReportedSession", "ReportedTest", "reports_for"]

__getattr__ = lazy_names(__name__, {"pytest_kscen.report.registry": ("reports_for",)})
"""Built-in reports are imported when a session first needs them: pytest starts without them."""
