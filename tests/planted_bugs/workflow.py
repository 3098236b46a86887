"""Bugs of the workflow engine: state tables, schedulers, delayed events, watches, branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planted_bugs.planting import Patch, PlantedBug, edited, entry, replaced
from pytest_kscen.objects.chaos_mesh import HOLDING, INIT, WAITING_FOR_CHILD
from pytest_kscen.workflow.tables.machine import (
    EventType,
    Guard,
    NodeResult,
    do,
    enter,
    finish,
    if_,
    notify_self,
)

if TYPE_CHECKING:
    from pytest_kscen.workflow.tables.machine import TableCell

DESIGN = "workflow design document"
# events by the names that the design document has
CREATED = EventType("NodeCreated")
PICK = EventType("NodePickChildToSchedule")
CHILD_SUCCEED = EventType("ChildNodeSucceed")
CHILD_FAILED = EventType("ChildNodeFailed")
AWAKE = EventType("NodeHoldingAwake")


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "workflow", wrong, source, cause, patches)


def cell(table: str, event: EventType, phase: str, new: TableCell) -> Patch:
    """Replace one cell of a state table, for one event alone."""
    return entry(f"workflow.tables.{table}.rows", event, lambda row: {**row, phase: new})


def _deletion_unnoticed(chaos_event: Any) -> Any:
    return lambda new, old: chaos_event(new, old) if new else None


BUGS = (
    bug(
        "serial-skips-first-child",
        "The scheduler of a Serial node counts its children from one.",
        f"{DESIGN}, SerialScheduler: picks the next one template",
        "a child of the Serial node was never started",
        edited(
            "workflow.engine.trees:serial_scheduler",
            ("children[done : done + 1]", "children[done + 1 : done + 2]"),
        ),
    ),
    bug(
        "serial-continues-after-failure",
        "A Serial node treats a failed child like one that has succeeded.",
        f"{DESIGN}, Serial: ChildNodeFailed changes the phase to Failed",
        "the Serial node went on after a child had failed",
        cell(
            "composite:SERIAL",
            CHILD_FAILED,
            WAITING_FOR_CHILD,
            if_(Guard.HAS_NEXT, enter("WaitingForSchedule"), notify_self(PICK))
            + do(finish(NodeResult.SUCCEED)),
        ),
    ),
    bug(
        "parallel-ends-with-first-child",
        "A Parallel node is over as soon as one child has succeeded.",
        f"{DESIGN}, examples: a Parallel node waits for each of its children",
        "the Parallel node was over before its children",
        cell(
            "composite:PARALLEL",
            CHILD_SUCCEED,
            WAITING_FOR_CHILD,
            do(finish(NodeResult.SUCCEED)),
        ),
    ),
    bug(
        "next-child-after-abort",
        "A Serial node that is being ended starts its next child.",
        "chaos-mesh#4286: a new child is spawned on abort",
        "a child was started after the workflow was aborted",
        cell(
            "composite:SERIAL",
            CHILD_SUCCEED,
            WAITING_FOR_CHILD,
            if_(Guard.HAS_NEXT, enter("WaitingForSchedule"), notify_self(PICK))
            + do(finish(NodeResult.SUCCEED)),
        ),
    ),
    bug(
        "chaos-not-deleted",
        "A Chaos node succeeds after its duration without deleting its resource.",
        f"{DESIGN}, Chaos: NodeHoldingAwake removes the CRD; chaos-mesh#2115, #3835",
        "the chaos resource still existed when its node was over",
        cell("leaf:CHAOS", AWAKE, HOLDING, do(finish(NodeResult.SUCCEED))),
    ),
    bug(
        "lost-chaos-unnoticed",
        "The deletion of a chaos resource by others is not passed on to its node.",
        f"{DESIGN}, Chaos: the node fails if the status of its object is not expected",
        "the chaos resource was deleted and its node did not fail",
        replaced("workflow.engine.triggers:chaos_event", _deletion_unnoticed),
    ),
    bug(
        "suspend-without-duration",
        "A Suspend node notifies itself at once instead of after its duration.",
        f"{DESIGN}, Suspend: delay notify itself with NodeHoldingAwake",
        "the Suspend node did not last as long as declared",
        cell(
            "leaf:SUSPEND",
            CREATED,
            INIT,
            do(enter(HOLDING), notify_self(AWAKE)),
        ),
    ),
    bug(
        "all-branches-chosen",
        "A Task continues with every branch, whatever its expression gives.",
        f"{DESIGN}, TaskScheduler: evaluates expressions for conditional branches",
        "the Task started a branch whose expression is false",
        edited(
            "workflow.engine.actors:evaluate_branches",
            ("chosen += [branch.target] * is_chosen", "chosen += [branch.target]"),
        ),
    ),
    bug(
        "failed-child-forgotten",
        "A workflow succeeds although one of its nodes has failed.",
        f"{DESIGN}, Failed: one failed node causes the whole workflow to fail; chaos-mesh#2407",
        "the workflow succeeded although a node had failed",
        edited(
            "workflow.engine.trees:Tree.result",
            (
                "if result in (NodeResult.AS_CHILDREN, NodeResult.AS_ENDED) and any(",
                "if result is NodeResult.AS_ENDED and any(",
            ),
        ),
    ),
    bug(
        "timer-of-deleted-workflow-kept",
        "Delayed events of a deleted workflow stay, and reach a new one of the same name.",
        f"{DESIGN}, NotifyDelay; chaos-mesh#3882: runs of a schedule overlap",
        "an event of a deleted workflow reached its successor",
        edited(
            "workflow.engine.triggers:OperableTrigger.forget",
            ("    self._wanted.pop(workflow, None)\n", ""),
        ),
    ),
    bug(
        "earlier-delay-missed",
        "A delayed event that is due before the others waits until the first of them is due.",
        f"{DESIGN}, Trigger: waiting for a duration, then trigger the event",
        "the node's delayed event came too late",
        edited(
            "workflow.engine.triggers:OperableTrigger.notify_delay",
            ("if self._later[0][2] is event:", "if len(self._later) == 1:"),
        ),
    ),
    bug(
        "events-of-old-attempt-taken",
        "An event of an earlier attempt's object counts for the present attempt.",
        "chaos-mesh#4878: task pod vanishes and is started again",
        "an event of an earlier attempt ended the present one",
        edited(
            "workflow.engine.processor:EventProcessor.take",
            ("    if event.about and event.about != node.object_name:\n        return\n", ""),
        ),
    ),
)
