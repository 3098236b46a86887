"""Vocabulary of the state tables: events, guards, actions, delays, and the table itself.

A state machine is a table with one row per event and one cell per phase. A cell lists steps in
the order in which they are carried out. It may have alternatives: the first one whose guard holds
is taken. An empty or missing cell means that the event is ignored in this phase. The tables are
data: `engine.transitions` interprets them, and nothing in this package acts on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class NodeActionError(Exception):
    """Report that an action of a node cannot be carried out; the message gives the reason.

    The engine turns it into a FAULT event of that node, so only its own workflow is affected.
    """


class EventType(StrEnum):
    """Types of events: the rows of the state tables.

    The values follow the design document of Chaos Mesh's workflows. Those of `ENDING_EVENTS` and
    NOT_CLEANED are stored in statuses as `engine.ending`, so they may not change.
    """

    CREATED = "NodeCreated"
    PICK = "NodePickChildToSchedule"
    CHILD_SUCCEED = "ChildNodeSucceed"
    CHILD_FAILED = "ChildNodeFailed"
    DELAY_OVER = "NodeHoldingAwake"
    INJECTED = "NodeChaosInjected"
    NOT_INJECTED = "NodeChaosNotInjected"
    CLEANED = "NodeChaosCleaned"
    """The API server confirms that the node's resource does not exist."""
    OBJECT_LOST = "NodeChaosOutOfSight"
    """A watch reports the node's object as deleted; perhaps only its labels were removed."""
    NOT_CLEANED = "NodeChaosNotCleaned"
    DELETE_REFUSED = "NodeChaosNotRemoved"
    """The API server refused to delete the node's object."""
    RETRY_CLEANUP = "NodeChaosCleanAgain"
    POD_ENDED = "NodeTaskPodEnded"
    EVALUATED = "NodeBranchesEvaluated"
    CHECK_HELD = "NodeStatusCheckHeld"
    CHECK_FAILED = "NodeStatusCheckFailed"
    DEADLINE = "NodeDeadlineExceed"
    PARENT_DEADLINE = "ParentNodeDeadlineExceed"
    ABORTED = "NodeAborted"
    FAILED_ELSEWHERE = "NodeFailedElsewhere"
    FAULT = "NodeFault"
    """An action of the node could not be carried out; the message gives the reason."""
    VERDICT_CHANGED = "NodeProbeJudged"
    """A probe's verdict has changed: the node's status is saved, and no table is consulted."""
    POD_WAITS = "NodeTaskPodWaits"
    """The reason why the node's pod waits has changed; it is reported, no table is consulted."""
    RETRY_WRITES = "NodeStatusUnwritten"
    """Statuses of the workflow that the API server refused are due to be written again."""
    RESUMED = "EngineResumed"
    """The engine was restarted and has read the node from the API."""


ENDING_EVENTS = (
    EventType.DEADLINE,
    EventType.PARENT_DEADLINE,
    EventType.ABORTED,
    EventType.FAILED_ELSEWHERE,
    EventType.FAULT,
)
"""Events that end a node early."""
DEADLINE_EVENTS = (EventType.DEADLINE, EventType.PARENT_DEADLINE)
SEVERITY = (*ENDING_EVENTS, EventType.NOT_CLEANED)
"""Causes of an early end, the most severe one last; a cause is replaced by a more severe one."""
STARTING_EVENTS = (
    EventType.CREATED,
    EventType.PICK,
    EventType.CHILD_SUCCEED,
    EventType.EVALUATED,
    EventType.RESUMED,
)
"""Events that start something new: held back while the sending node's status is unwritten."""
PASSED_TO_CHILDREN = {
    EventType.DEADLINE: EventType.PARENT_DEADLINE,
    EventType.PARENT_DEADLINE: EventType.PARENT_DEADLINE,
    EventType.ABORTED: EventType.ABORTED,
    EventType.FAILED_ELSEWHERE: EventType.FAILED_ELSEWHERE,
    EventType.FAULT: EventType.FAILED_ELSEWHERE,
    EventType.NOT_CLEANED: EventType.FAILED_ELSEWHERE,
}
"""Event that children receive when their parent is ended, by the parent's cause."""


@dataclass(frozen=True, slots=True)
class WorkflowKey:
    """Namespace and name of a workflow: the key of its tree and of its events."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Event of one node, or of the workflow itself if `node` is the root's empty name."""

    workflow: WorkflowKey
    node: str
    event_type: EventType
    message: str = ""
    phase_count: int = -1
    """Phase changes of the node when the event was set up; -1 if the event never expires.

    The event is out of date, and dropped, if the node has changed its phase since.
    """
    about: str = ""
    """Name of the watched object that has changed, or empty.

    Only the object of the node's present attempt counts; events of other objects are dropped.
    """


class Recipient(StrEnum):
    """Recipients of a notification, relative to the node whose cell is carried out."""

    SELF = "itself"
    CHILDREN = "the children that are not over"


class Guard(StrEnum):
    """Conditions on a node that select an alternative of a cell."""

    ALWAYS = "always"
    HAS_NEXT = "a child is left to be started"
    CHILDREN_OVER = "all children are over"
    ENDING = "it is being ended"
    ENDING_AND_CHILDREN_OVER = "it is being ended, and all children are over"
    CLEANING = "its objects are being deleted"
    CLEANING_AND_ENDING = "its objects are being deleted, because it is being ended"
    POD_NOT_EVALUATED = "the result of its pod has not been evaluated"
    CREATED_OBJECT = "its object has been created"
    ABORTS_WORKFLOW = "its failure aborts the workflow"
    EXIT_PENDING = "the exit handler is left to be run"
    EXIT_STARTED = "the exit handler has begun"
    ENTRY_ENDING = "it is being ended, and its exit handler has not begun"


class NodeAction(StrEnum):
    """Actions on the cluster, and changes of a node other than of its phase."""

    MAKE_CHILDREN = "create the next children"
    MAKE_EXIT = "create the exit handler's node"
    CHECK_CHILDREN = "check which children are over"
    CREATE_CHAOS = "create the resource"
    DELETE_CHAOS = "delete the resource"
    CONFIRM_DELETED = "confirm that the resource is deleted, or delete it"
    FIND_CHAOS = "find the resource"
    DELETE_IN_BACKGROUND = "go on deleting its objects in the background"
    CREATE_POD = "create the pod"
    FIND_POD = "find the pod"
    DELETE_POD = "delete the pod"
    EVALUATE = "evaluate the branches' expressions"
    CREATE_CHECK = "create the status check"
    FIND_CHECK = "find the status check"
    DELETE_CHECK = "delete the status check"
    ABORT_WORKFLOW = "abort the workflow"
    RECORD_ANSWER = "record the status check's last answer as message"
    RECORD_CAUSE = "record the cause of the early end"


class NodeResult(StrEnum):
    """Rules for a node's last phase; two of them depend on the cause or on the children."""

    SUCCEED = "Succeed"
    FAILED = "Failed"
    AS_ENDED = "by the cause of its end, but Failed if one of its children is"
    AS_CHILDREN = "Failed if one of its children is, or if it was being ended"


class Delay(StrEnum):
    """Delays of notifications; their lengths come from the template or from the engine."""

    LENGTH = "its duration"
    DEADLINE = "the rest of its deadline"
    INJECTION = "the time within which chaos must be in effect"
    CLEANING = "the time within which chaos must be gone"
    RETRY = "the pause before a refused deletion is retried"
    BACK_OFF = "the rest of the back-off before its next attempt"


@dataclass(frozen=True, slots=True)
class Enter:
    phase: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Step that ends the node: it enters its last phase, and its parent is notified."""

    result: NodeResult


@dataclass(frozen=True, slots=True)
class Notify:
    """Step that sends an event to the node itself or to its children."""

    recipient: Recipient
    event_type: EventType | None
    """None stands for the event by which the node is ended, as `PASSED_TO_CHILDREN` maps it."""


@dataclass(frozen=True, slots=True)
class NotifyAfter:
    """Step that sends an event to the node itself after a delay."""

    event_type: EventType
    delay: Delay


Step: TypeAlias = Enter | Finish | Notify | NotifyAfter | NodeAction


@dataclass(frozen=True, slots=True)
class Alternative:
    """Steps that are carried out if the guard holds and no alternative before it did."""

    guard: Guard
    steps: tuple[Step, ...]


TableCell: TypeAlias = tuple[Alternative, ...]
TableRow: TypeAlias = "Mapping[str, TableCell]"


@dataclass(frozen=True, slots=True)
class StateMachine:
    """State table of one node type: phases in their order, and a row for each event."""

    name: str
    phases: tuple[str, ...]
    rows: Mapping[EventType, TableRow]

    def cell(self, event_type: EventType, phase: str) -> TableCell:
        return self.rows.get(event_type, {}).get(phase, ())


def do(*steps: Step) -> TableCell:
    return (Alternative(Guard.ALWAYS, steps),)


def if_(guard: Guard, *steps: Step) -> TableCell:
    """Return a cell with one alternative; add further alternatives with +."""
    return (Alternative(guard, steps),)


def enter(phase: str) -> Enter:
    return Enter(phase)


def finish(result: NodeResult) -> Finish:
    return Finish(result)


def notify_self(event_type: EventType) -> Notify:
    return Notify(Recipient.SELF, event_type)


def notify_children(event_type: EventType | None = None) -> Notify:
    return Notify(Recipient.CHILDREN, event_type)


START_AFTER_BACK_OFF = NotifyAfter(EventType.CREATED, Delay.BACK_OFF)
"""Start a node that has not begun, or retry it, once its back-off is over."""
CLEANUP_TIMEOUT = NotifyAfter(EventType.NOT_CLEANED, Delay.CLEANING)
IGNORE_IF_CLEANING = if_(Guard.CLEANING)
"""Alternative that ignores the event while the node's objects are being deleted."""


def retry_removal(delete: NodeAction, *phases: str) -> dict[EventType, TableRow]:
    """Return the rows that retry a refused deletion until `Delay.CLEANING` is over.

    The node stays in its phase meanwhile. After that time it has failed, and the deletion goes on
    in the background.
    """
    again = if_(Guard.CLEANING, CLEANUP_TIMEOUT, NotifyAfter(EventType.RETRY_CLEANUP, Delay.RETRY))
    too_late = if_(
        Guard.CLEANING,
        NodeAction.RECORD_CAUSE,
        NodeAction.DELETE_IN_BACKGROUND,
        finish(NodeResult.FAILED),
    )
    return {
        EventType.DELETE_REFUSED: dict.fromkeys(phases, again),
        EventType.RETRY_CLEANUP: dict.fromkeys(
            phases, if_(Guard.CLEANING, delete, finish(NodeResult.AS_ENDED))
        ),
        EventType.NOT_CLEANED: dict.fromkeys(phases, too_late),
    }


def same_row(event_types: tuple[EventType, ...], row: TableRow) -> dict[EventType, TableRow]:
    return dict.fromkeys(event_types, row)
