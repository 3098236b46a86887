"""The state machines, written down as the design document's tables are: events down, phases
across.
"""

from pytest_kscen.objects.chaos_mesh import PARALLEL as PARALLEL_TYPE
from pytest_kscen.objects.chaos_mesh import SERIAL as SERIAL_TYPE
from pytest_kscen.objects.chaos_mesh import STATUS_CHECK as STATUS_CHECK_TYPE
from pytest_kscen.objects.chaos_mesh import SUSPEND as SUSPEND_TYPE
from pytest_kscen.objects.chaos_mesh import TASK as TASK_TYPE
from pytest_kscen.workflow.tables.composite import PARALLEL, SERIAL, TASK, WORKFLOW
from pytest_kscen.workflow.tables.leaf import CHAOS, STATUS_CHECK, SUSPEND
from pytest_kscen.workflow.tables.machine import Machine

__all__ = [
    "CHAOS",
    "PARALLEL",
    "SERIAL",
    "STATUS_CHECK",
    "SUSPEND",
    "TASK",
    "WORKFLOW",
    "machine_of",
]

_MACHINES = {
    SERIAL_TYPE: SERIAL,
    PARALLEL_TYPE: PARALLEL,
    SUSPEND_TYPE: SUSPEND,
    TASK_TYPE: TASK,
    STATUS_CHECK_TYPE: STATUS_CHECK,
}


def machine_of(template_type: str) -> Machine:
    """Whatever else a template is, it makes a resource and removes it, as chaos does."""
    return _MACHINES.get(template_type, CHAOS)
