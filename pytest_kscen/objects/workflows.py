"""Workflows as everybody names them who deals with one: the resources, the design document's phases, the shipped conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects import chaos_mesh
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

OWN_GROUP = "workflow.kscen.io"
"""Where the engine keeps its state on a cluster on which Chaos Mesh has its own."""

INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD = "Init", "WaitingForSchedule", "WaitingForChild"
RUNNING, EVALUATING, HOLDING = "Running", "Evaluating", "Holding"
SUCCEED, FAILED = "Succeed", "Failed"
NODE_PHASES = (INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD, RUNNING, EVALUATING, HOLDING, SUCCEED, FAILED)
OVER = (SUCCEED, FAILED)

SERIAL, PARALLEL, SUSPEND, TASK, STATUS_CHECK, SCHEDULE = "Serial", "Parallel", "Suspend", "Task", "StatusCheck", "Schedule"
TYPES = (SERIAL, PARALLEL, SUSPEND, TASK, STATUS_CHECK, SCHEDULE, *chaos_mesh.KINDS)

ABORT = "workflow.chaos-mesh.org/abort"
"""The annotation that ends a workflow, or a node and what is below it."""

SCHEDULED, ACCOMPLISHED = "Scheduled", "Accomplished"
DEADLINE_EXCEED, CHAOS_INJECTED, ABORTED = "DeadlineExceed", "ChaosInjected", "Aborted"
"""The shipped conditions; Scheduled is a workflow's."""
CHAOS_LEFT = "ChaosLeft"
"""Ours: a node is over, and what it has made is not gone yet."""

WORKFLOW_LABEL = "chaos-mesh.org/workflow"
NODE_LABEL = "chaos-mesh.org/controlled-by"
"""On what a node has made: its name."""

MANAGED_BY = "managed-by"
"""The label of what a Schedule has spawned: the Schedule's name."""


@dataclass(frozen=True, slots=True)
class Family:
    """The resources that an engine lives by, in one group."""

    group: str

    @property
    def workflows(self) -> Resource:
        return Resource(self.group, chaos_mesh.VERSION, "workflows", "Workflow")

    @property
    def nodes(self) -> Resource:
        return Resource(self.group, chaos_mesh.VERSION, "workflownodes", "WorkflowNode")

    @property
    def schedules(self) -> Resource:
        return Resource(self.group, chaos_mesh.VERSION, "schedules", "Schedule")

    @property
    def status_checks(self) -> Resource:
        return Resource(self.group, chaos_mesh.VERSION, "statuschecks", "StatusCheck")


CRON_WORKFLOWS = Resource(OWN_GROUP, chaos_mesh.VERSION, "cronworkflows", "CronWorkflow")
"""The design document's word for a Schedule that spawns workflows; it is ours in any family."""
SHIPPED, OWN = Family(chaos_mesh.GROUP), Family(OWN_GROUP)


def phase_of(obj: Obj) -> str:
    """A workflow's, or a node's; one without a status has just been made."""
    return str((obj.get("status") or {}).get("phase") or INIT)


def is_over(obj: Obj) -> bool:
    return phase_of(obj) in OVER
