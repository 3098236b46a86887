"""Vocabulary of Chaos Mesh: kinds of chaos, workflows, phases, conditions, annotations and labels.

Shared by the engine, the daemon, validation and checks, so that each name is written once.
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
"""Annotation that suspends chaos while it is "true"."""
RECORDS_FINALIZER = "chaos-mesh/records"

SELECTED, ALL_INJECTED, ALL_RECOVERED, PAUSED = "Selected", "AllInjected", "AllRecovered", "Paused"
"""Conditions of chaos."""
RUN, STOP = "Run", "Stop"
"""Desired phases of chaos."""


@dataclass(frozen=True, slots=True)
class ChaosKind:
    """Kind of chaos, and the key that holds its spec in a template or a Schedule."""

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
"""Known kinds of chaos."""
_CHAOS = re.compile("[A-Z][A-Za-z0-9]*Chaos")


def chaos_kind(type_: str) -> ChaosKind | None:
    """Return the kind of a template's type, or None if the type is no chaos.

    The kind of an unknown type is derived from its name; the cluster refuses it if it does not
    exist.
    """
    if type_ in KINDS:
        return KINDS[type_]
    return ChaosKind(type_, type_[0].lower() + type_[1:]) if _CHAOS.fullmatch(type_) else None


OWN_GROUP = "workflow.kscen.io"
"""Group of the engine's own kinds, for clusters on which Chaos Mesh has its own engine."""

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
"""Annotation that aborts a workflow, or a node with all nodes below it."""

SCHEDULED, ACCOMPLISHED = "Scheduled", "Accomplished"
DEADLINE_EXCEED, CHAOS_INJECTED, ABORTED = "DeadlineExceed", "ChaosInjected", "Aborted"
"""Chaos Mesh's conditions; Scheduled belongs to workflows."""
CHAOS_LEFT = "ChaosLeft"
"""Condition of our own: a node is over, and objects that it created still exist."""

WORKFLOW_LABEL = "chaos-mesh.org/workflow"
NODE_LABEL = "chaos-mesh.org/controlled-by"
"""Label with the node's name, on objects that it created."""

MANAGED_BY = "managed-by"
"""Label with the Schedule's name, on objects that it created."""


@dataclass(frozen=True, slots=True)
class EngineResources:
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
"""The design document's name for a Schedule that starts workflows; in our own group for either
engine.
"""
SHIPPED, OWN = EngineResources(GROUP), EngineResources(OWN_GROUP)


def phase_of(obj: Obj) -> str:
    """Return the phase of a workflow or a node. Without a status it has just been created."""
    return str((obj.get("status") or {}).get("phase") or INIT)


def is_over(obj: Obj) -> bool:
    return phase_of(obj) in OVER
