"""Reports of runs and of played scenarios: terminal, JUnit, archive folder, Allure.

Reports read journals and outcomes alone: no cluster, no pytest and no engine may be imported.

    protocol     Report, ReportedRun, reports_for: the list of a session's reports
    terminal     lines for the terminal, JUnit properties
    archive      folder of a run: journal, outcome, summary, stories, command
    allure       steps and attachments of an Allure report
    summary      lines and properties of a run's outcome
    story        story of one volume, from the journal
"""

from pytest_kscen.report.protocol import Report, ReportedRun, ReportedTest, reports_for

__all__ = ["Report", "ReportedRun", "ReportedTest", "reports_for"]
