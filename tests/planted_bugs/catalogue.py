"""All planted bugs by name, and by the system that they are in."""

from __future__ import annotations

from planted_bugs import controllers, data_path, harness, scheduler, storage, workflow

TABLES = {
    table[0].system: table
    for table in (
        storage.BUGS,
        data_path.BUGS,
        harness.BUGS,
        scheduler.BUGS,
        workflow.BUGS,
        controllers.BUGS,
    )
}
BUGS = {bug.name: bug for table in TABLES.values() for bug in table}
