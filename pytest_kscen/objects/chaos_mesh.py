"""Chaos Mesh's chaos as everybody names it who deals with it: its kinds, what stops it, and what
its status says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


GROUP, VERSION = "chaos-mesh.org", "v1alpha1"
PAUSE = "experiment.chaos-mesh.org/pause"
"""The annotation that takes chaos away for as long as it is "true"."""
RECORDS_FINALIZER = "chaos-mesh/records"

SELECTED, ALL_INJECTED, ALL_RECOVERED, PAUSED = "Selected", "AllInjected", "AllRecovered", "Paused"
"""Its conditions."""
RUN, STOP = "Run", "Stop"
"""Its desired phases."""


@dataclass(frozen=True, slots=True)
class ChaosKind:
    """A kind of chaos, and the key under which a template or a Schedule holds its spec."""

    kind: str
    key: str

    @property
    def resource(self) -> Resource:
        return Resource(GROUP, VERSION, self.kind.lower(), self.kind)


KINDS = {
    kind: ChaosKind(kind, key)
    for kind, key in {
        "AWSChaos": "awsChaos",
        "AzureChaos": "azureChaos",
        "BlockChaos": "blockChaos",
        "DNSChaos": "dnsChaos",
        "GCPChaos": "gcpChaos",
        "HTTPChaos": "httpChaos",
        "IOChaos": "ioChaos",
        "JVMChaos": "jvmChaos",
        "KernelChaos": "kernelChaos",
        "NetworkChaos": "networkChaos",
        "PhysicalMachineChaos": "physicalmachineChaos",
        "PodChaos": "podChaos",
        "StressChaos": "stressChaos",
        "TimeChaos": "timeChaos",
    }.items()
}
"""Every kind that we know."""
_CHAOS = re.compile("[A-Z][A-Za-z0-9]*Chaos")


def chaos_kind(type_: str) -> ChaosKind | None:
    """That of a template's type.

    One that we do not know is called as they all are, and is the cluster's affair.
    """
    if type_ in KINDS:
        return KINDS[type_]
    return ChaosKind(type_, type_[0].lower() + type_[1:]) if _CHAOS.fullmatch(type_) else None


# Workflows as everybody names them who deals with one: the resources, the design document's
# phases, the shipped conditions.


OWN_GROUP = "workflow.kscen.io"
"""Where the engine keeps its state on a cluster on which Chaos Mesh has its own."""

INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD = "Init", "WaitingForSchedule", "WaitingForChild"
RUNNING, EVALUATING, HOLDING = "Running", "Evaluating", "Holding"
SUCCEED, FAILED = "Succeed", "Failed"
NODE_PHASES = (
    INIT,
    WAITING_FOR_SCHEDULE,
    WAITING_FOR_CHILD,
    RUNNING,
    EVALUATING,
    HOLDING,
    SUCCEED,
    FAILED,
)
OVER = (SUCCEED, FAILED)

SERIAL, PARALLEL, SUSPEND, TASK, STATUS_CHECK, SCHEDULE = (
    "Serial",
    "Parallel",
    "Suspend",
    "Task",
    "StatusCheck",
    "Schedule",
)
TYPES = (SERIAL, PARALLEL, SUSPEND, TASK, STATUS_CHECK, SCHEDULE, *KINDS)

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
class EngineResources:
    """The resources that an engine lives by, in one group."""

    group: str

    @property
    def workflows(self) -> Resource:
        return Resource(self.group, VERSION, "workflows", "Workflow")

    @property
    def nodes(self) -> Resource:
        return Resource(self.group, VERSION, "workflownodes", "WorkflowNode")

    @property
    def schedules(self) -> Resource:
        return Resource(self.group, VERSION, "schedules", "Schedule")

    @property
    def status_checks(self) -> Resource:
        return Resource(self.group, VERSION, "statuschecks", "StatusCheck")


CRON_WORKFLOWS = Resource(OWN_GROUP, VERSION, "cronworkflows", "CronWorkflow")
"""The design document's word for a Schedule that spawns workflows; it is ours in any family."""
SHIPPED, OWN = EngineResources(GROUP), EngineResources(OWN_GROUP)


def phase_of(obj: Obj) -> str:
    """A workflow's, or a node's; one without a status has just been made."""
    return str((obj.get("status") or {}).get("phase") or INIT)


def is_over(obj: Obj) -> bool:
    return phase_of(obj) in OVER
