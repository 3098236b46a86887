"""Report that appends one line per finished run to a file."""

from __future__ import annotations

import pathlib

from pytest_kscen.report import Report


class LinesReport(Report):
    name = "lines"

    def finish(self, run):
        with pathlib.Path("runs.txt").open("a", encoding="utf-8") as file:
            file.write(f"{run.test.id}: {run.result.brief()[0]}\n")
