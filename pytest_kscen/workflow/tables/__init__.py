"""State machines of all node types as tables: events as rows, phases as columns.

Import nothing but this package and `objects`: tables are data, `engine.transitions` runs them.

machine      vocabulary: events, guards, actions, delays, and the table itself
composite    Serial, Parallel, Task, and the workflow
leaf         chaos, Schedule, StatusCheck, Suspend
"""

from pytest_kscen.objects.chaos_mesh import PARALLEL as PARALLEL_TYPE
from pytest_kscen.objects.chaos_mesh import SERIAL as SERIAL_TYPE
from pytest_kscen.objects.chaos_mesh import STATUS_CHECK as STATUS_CHECK_TYPE
from pytest_kscen.objects.chaos_mesh import SUSPEND as SUSPEND_TYPE
from pytest_kscen.objects.chaos_mesh import TASK as TASK_TYPE
from pytest_kscen.workflow.tables.composite import PARALLEL, SERIAL, TASK, WORKFLOW
from pytest_kscen.workflow.tables.leaf import CHAOS, STATUS_CHECK, SUSPEND
from pytest_kscen.workflow.tables.machine import StateMachine

__all__ = [
    "CHAOS",
    "PARALLEL",
    "SERIAL",
    "STATUS_CHECK",
    "SUSPEND",
    "TASK",
    "WORKFLOW",
    "state_machine_of",
]

_MACHINES = {
    SERIAL_TYPE: SERIAL,
    PARALLEL_TYPE: PARALLEL,
    SUSPEND_TYPE: SUSPEND,
    TASK_TYPE: TASK,
    STATUS_CHECK_TYPE: STATUS_CHECK,
}


def state_machine_of(template_type: str) -> StateMachine:
    """Return the table of a template type; types that are not listed go by the table of chaos."""
    return _MACHINES.get(template_type, CHAOS)
