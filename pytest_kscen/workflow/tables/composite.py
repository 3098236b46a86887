"""State tables of nodes with children: Serial, Parallel, Task, and the workflow itself.

Rows are events, columns are phases; `machine` defines the vocabulary. Cells that several tables
share are constants above the first table that uses them.
"""

from __future__ import annotations

from pytest_kscen.objects.chaos_mesh import (
    EVALUATING,
    FAILED,
    INIT,
    RUNNING,
    SUCCEED,
    WAITING_FOR_CHILD,
    WAITING_FOR_SCHEDULE,
)
from pytest_kscen.workflow.tables.machine import (
    ENDING_EVENTS,
    IGNORE_IF_CLEANING,
    START_AFTER_BACK_OFF,
    Delay,
    EventType,
    Guard,
    NodeAction,
    NodeResult,
    NotifyAfter,
    StateMachine,
    do,
    enter,
    finish,
    if_,
    notify_children,
    notify_self,
    retry_removal,
    same_row,
)

ENDED_WITH_CHILDREN = {
    INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)),
    WAITING_FOR_SCHEDULE: if_(
        Guard.CHILDREN_OVER, NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)
    )
    + do(NodeAction.RECORD_CAUSE, enter(WAITING_FOR_CHILD), notify_children()),
    WAITING_FOR_CHILD: if_(
        Guard.CHILDREN_OVER, NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)
    )
    + do(NodeAction.RECORD_CAUSE, notify_children()),
}
"""Cells of a node with children that is ended early: the children are ended first."""
DEADLINE = NotifyAfter(EventType.DEADLINE, Delay.DEADLINE)

SERIAL = StateMachine(
    "Serial",
    (INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(DEADLINE, enter(WAITING_FOR_SCHEDULE), notify_self(EventType.PICK)),
        },
        EventType.PICK: {
            WAITING_FOR_SCHEDULE: if_(
                Guard.HAS_NEXT,
                NodeAction.MAKE_CHILDREN,
                enter(WAITING_FOR_CHILD),
                notify_children(EventType.CREATED),
            )
            + do(finish(NodeResult.SUCCEED)),
        },
        EventType.CHILD_SUCCEED: {
            WAITING_FOR_CHILD: if_(Guard.ENDING, finish(NodeResult.AS_ENDED))
            + if_(Guard.HAS_NEXT, enter(WAITING_FOR_SCHEDULE), notify_self(EventType.PICK))
            + do(finish(NodeResult.SUCCEED)),
        },
        EventType.CHILD_FAILED: {
            WAITING_FOR_CHILD: do(finish(NodeResult.FAILED)),
        },
        **same_row(ENDING_EVENTS, ENDED_WITH_CHILDREN),
        EventType.RESUMED: {
            INIT: do(DEADLINE, START_AFTER_BACK_OFF),
            WAITING_FOR_SCHEDULE: do(DEADLINE, notify_self(EventType.PICK)),
            WAITING_FOR_CHILD: if_(Guard.ENDING, notify_children(), NodeAction.CHECK_CHILDREN)
            + do(DEADLINE, NodeAction.CHECK_CHILDREN),
        },
    },
)
"""Run the children one after the other; the first failure ends the node."""

START_ALL_CHILDREN = {
    WAITING_FOR_SCHEDULE: if_(
        Guard.HAS_NEXT,
        NodeAction.MAKE_CHILDREN,
        enter(WAITING_FOR_CHILD),
        notify_children(EventType.CREATED),
    )
    + do(finish(NodeResult.SUCCEED)),
}
CHILD_OF_MANY_SUCCEEDED = {
    WAITING_FOR_CHILD: if_(Guard.ENDING_AND_CHILDREN_OVER, finish(NodeResult.AS_ENDED))
    + if_(Guard.CHILDREN_OVER, finish(NodeResult.AS_CHILDREN))
    + do(enter(WAITING_FOR_CHILD)),
}
CHILD_OF_MANY_FAILED = {
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, finish(NodeResult.FAILED))
    + do(NodeAction.RECORD_CAUSE, enter(WAITING_FOR_CHILD), notify_children()),
}

PARALLEL = StateMachine(
    "Parallel",
    (INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(DEADLINE, enter(WAITING_FOR_SCHEDULE), notify_self(EventType.PICK)),
        },
        EventType.PICK: START_ALL_CHILDREN,
        EventType.CHILD_SUCCEED: CHILD_OF_MANY_SUCCEEDED,
        EventType.CHILD_FAILED: CHILD_OF_MANY_FAILED,
        **same_row(ENDING_EVENTS, ENDED_WITH_CHILDREN),
        EventType.RESUMED: {
            INIT: do(DEADLINE, START_AFTER_BACK_OFF),
            WAITING_FOR_SCHEDULE: do(DEADLINE, notify_self(EventType.PICK)),
            WAITING_FOR_CHILD: if_(Guard.ENDING, notify_children(), NodeAction.CHECK_CHILDREN)
            + do(DEADLINE, NodeAction.CHECK_CHILDREN),
        },
    },
)
"""Run all children at once; a failure ends the others before the node itself fails."""

CLEANUP_DONE = if_(Guard.CLEANING, finish(NodeResult.AS_ENDED))
END_TASK = (NodeAction.RECORD_CAUSE, NodeAction.DELETE_POD, finish(NodeResult.AS_ENDED))
START_POD = (NodeAction.CREATE_POD, enter(WAITING_FOR_CHILD))
"""The phase is saved right after the creation: a restarted engine creates no second pod."""
CLEANUP_INTERRUPTED = if_(Guard.CLEANING, NodeAction.DELETE_POD, finish(NodeResult.AS_ENDED))
TASK_ENDED = {
    RUNNING: do(*END_TASK),
    EVALUATING: do(*END_TASK),
    WAITING_FOR_SCHEDULE: if_(Guard.CHILDREN_OVER, *END_TASK)
    + do(NodeAction.RECORD_CAUSE, enter(WAITING_FOR_CHILD), notify_children()),
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, *END_TASK)
    + do(NodeAction.RECORD_CAUSE, notify_children()),
}

TASK = StateMachine(
    "Task",
    (INIT, RUNNING, WAITING_FOR_CHILD, EVALUATING, WAITING_FOR_SCHEDULE, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(DEADLINE, enter(RUNNING), *START_POD),
        },
        EventType.POD_ENDED: {
            WAITING_FOR_CHILD: CLEANUP_DONE
            + if_(
                Guard.POD_NOT_EVALUATED,
                enter(EVALUATING),
                NodeAction.EVALUATE,
                notify_self(EventType.EVALUATED),
            ),
        },
        EventType.OBJECT_LOST: {
            phase: CLEANUP_INTERRUPTED + cell for phase, cell in TASK_ENDED.items()
        },
        EventType.EVALUATED: {
            EVALUATING: IGNORE_IF_CLEANING
            + do(enter(WAITING_FOR_SCHEDULE), notify_self(EventType.PICK)),
        },
        EventType.PICK: {
            phase: IGNORE_IF_CLEANING + cell for phase, cell in START_ALL_CHILDREN.items()
        },
        EventType.CHILD_SUCCEED: CHILD_OF_MANY_SUCCEEDED,
        EventType.CHILD_FAILED: CHILD_OF_MANY_FAILED,
        **same_row(
            ENDING_EVENTS,
            {INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)), **TASK_ENDED},
        ),
        **retry_removal(NodeAction.DELETE_POD, *TASK_ENDED),
        EventType.RESUMED: {
            INIT: do(DEADLINE, START_AFTER_BACK_OFF),
            RUNNING: CLEANUP_INTERRUPTED + do(DEADLINE, *START_POD),
            EVALUATING: CLEANUP_INTERRUPTED
            + do(DEADLINE, NodeAction.EVALUATE, notify_self(EventType.EVALUATED)),
            WAITING_FOR_SCHEDULE: CLEANUP_INTERRUPTED + do(DEADLINE, notify_self(EventType.PICK)),
            WAITING_FOR_CHILD: CLEANUP_INTERRUPTED
            + if_(Guard.ENDING, notify_children(), NodeAction.CHECK_CHILDREN)
            + if_(Guard.POD_NOT_EVALUATED, DEADLINE, NodeAction.FIND_POD)
            + do(DEADLINE, NodeAction.CHECK_CHILDREN),
        },
    },
)
"""Run a pod to completion, evaluate the branches' expressions, run the chosen branches at once."""

START_EXIT_HANDLER = (NodeAction.MAKE_EXIT, enter(RUNNING), notify_children(EventType.CREATED))
WORKFLOW_CHILD_OVER = {
    RUNNING: if_(Guard.EXIT_PENDING, *START_EXIT_HANDLER)
    + if_(Guard.CHILDREN_OVER, finish(NodeResult.AS_CHILDREN)),
}

WORKFLOW = StateMachine(
    "Workflow",
    (INIT, RUNNING, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(NodeAction.MAKE_CHILDREN, enter(RUNNING), notify_children(EventType.CREATED)),
        },
        EventType.CHILD_SUCCEED: WORKFLOW_CHILD_OVER,
        EventType.CHILD_FAILED: WORKFLOW_CHILD_OVER,
        EventType.ABORTED: {
            INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.FAILED)),
            RUNNING: do(NodeAction.RECORD_CAUSE, notify_children()),
        },
        EventType.FAULT: {
            INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.FAILED)),
            RUNNING: if_(Guard.EXIT_PENDING, NodeAction.RECORD_CAUSE, *START_EXIT_HANDLER)
            + if_(Guard.CHILDREN_OVER, NodeAction.RECORD_CAUSE, finish(NodeResult.FAILED))
            + if_(Guard.EXIT_STARTED, NodeAction.RECORD_CAUSE)
            + do(NodeAction.RECORD_CAUSE, notify_children()),
        },
        EventType.RESUMED: {
            INIT: do(notify_self(EventType.CREATED)),
            RUNNING: if_(Guard.ENTRY_ENDING, notify_children(), NodeAction.CHECK_CHILDREN)
            + do(NodeAction.CHECK_CHILDREN),
        },
    },
)
"""Run the entry, then the exit handler if there is one.

A fault of the workflow ends its entry and lets its exit handler run to its end.
"""
