"""The state machines, written down as the design document's tables are: events down, phases across."""

from pytest_kscen.objects.workflows import PARALLEL as PARALLEL_TYPE
from pytest_kscen.objects.workflows import SERIAL as SERIAL_TYPE
from pytest_kscen.objects.workflows import STATUS_CHECK as STATUS_CHECK_TYPE
from pytest_kscen.objects.workflows import SUSPEND as SUSPEND_TYPE
from pytest_kscen.objects.workflows import TASK as TASK_TYPE
from pytest_kscen.workflow.tables.chaos import CHAOS
from pytest_kscen.workflow.tables.machine import Machine
from pytest_kscen.workflow.tables.parallel import PARALLEL
from pytest_kscen.workflow.tables.serial import SERIAL
from pytest_kscen.workflow.tables.status_check import STATUS_CHECK
from pytest_kscen.workflow.tables.suspend import SUSPEND
from pytest_kscen.workflow.tables.task import TASK
from pytest_kscen.workflow.tables.workflow import WORKFLOW

__all__ = ["CHAOS", "PARALLEL", "SERIAL", "STATUS_CHECK", "SUSPEND", "TASK", "WORKFLOW", "machine_of"]

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
