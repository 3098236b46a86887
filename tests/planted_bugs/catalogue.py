"""All planted bugs by name, and by the system that they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planted_bugs import controllers, data_path, harness, scheduler, storage, workflow
from planted_bugs.planting import PlantingError, switched_on
from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from planted_bugs.planting import PlantedBug

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


def planted(name: str) -> AbstractContextManager[PlantedBug]:
    """Switch the bug of this name on for a block. Start clusters inside it."""
    if name not in BUGS:
        raise PlantingError(f"there is no planted bug {name!r}{nearest(name, BUGS)}")
    return switched_on(BUGS[name])
