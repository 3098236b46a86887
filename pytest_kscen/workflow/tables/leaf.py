"""State tables of nodes without children: chaos (and Schedule), StatusCheck, Suspend.

Rows are events, columns are phases; `machine` defines the vocabulary.
"""

from __future__ import annotations

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.tables.composite import DEADLINE
from pytest_kscen.workflow.tables.machine import (
    CLEANUP_TIMEOUT,
    DEADLINE_EVENTS,
    ENDING_EVENTS,
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
    retry_removal,
    same_row,
)

INJECTION_TIMEOUT = NotifyAfter(EventType.NOT_INJECTED, Delay.INJECTION)
REMOVE_CHAOS = (CLEANUP_TIMEOUT, NodeAction.DELETE_CHAOS)
CHAOS_ENDED = {
    INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)),
    RUNNING: if_(Guard.CLEANING, NodeAction.RECORD_CAUSE)
    + do(NodeAction.RECORD_CAUSE, *REMOVE_CHAOS),
    HOLDING: do(NodeAction.RECORD_CAUSE, enter(RUNNING), *REMOVE_CHAOS),
}

CHAOS = StateMachine(
    "Chaos",
    (INIT, RUNNING, HOLDING, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(enter(RUNNING), INJECTION_TIMEOUT, NodeAction.CREATE_CHAOS),
        },
        EventType.INJECTED: {
            RUNNING: if_(Guard.CLEANING)
            + do(enter(HOLDING), NotifyAfter(EventType.DELAY_OVER, Delay.LENGTH)),
        },
        EventType.NOT_INJECTED: {
            RUNNING: if_(Guard.CLEANING) + do(NodeAction.RECORD_CAUSE, *REMOVE_CHAOS),
        },
        EventType.DELAY_OVER: {
            HOLDING: do(enter(RUNNING), *REMOVE_CHAOS),
        },
        EventType.CLEANED: {
            RUNNING: if_(Guard.CLEANING_AND_ENDING, finish(NodeResult.AS_ENDED))
            + if_(Guard.CLEANING, finish(NodeResult.SUCCEED)),
        },
        EventType.OBJECT_LOST: {
            RUNNING: if_(Guard.CLEANING, NodeAction.CONFIRM_DELETED)
            + do(NodeAction.RECORD_CAUSE, *REMOVE_CHAOS),
            HOLDING: do(NodeAction.RECORD_CAUSE, enter(RUNNING), *REMOVE_CHAOS),
        },
        EventType.NOT_CLEANED: {
            RUNNING: if_(
                Guard.CLEANING,
                NodeAction.RECORD_CAUSE,
                NodeAction.DELETE_IN_BACKGROUND,
                finish(NodeResult.FAILED),
            ),
        },
        EventType.DELETE_REFUSED: {
            RUNNING: if_(Guard.CLEANING, NotifyAfter(EventType.RETRY_CLEANUP, Delay.RETRY)),
        },
        EventType.RETRY_CLEANUP: {
            RUNNING: if_(Guard.CLEANING, NodeAction.DELETE_CHAOS),
        },
        **same_row(ENDING_EVENTS, CHAOS_ENDED),
        EventType.RESUMED: {
            INIT: do(START_AFTER_BACK_OFF),
            RUNNING: if_(Guard.CLEANING, *REMOVE_CHAOS)
            + if_(Guard.CREATED_OBJECT, INJECTION_TIMEOUT, NodeAction.FIND_CHAOS)
            + do(INJECTION_TIMEOUT, NodeAction.CREATE_CHAOS),
            HOLDING: do(NotifyAfter(EventType.DELAY_OVER, Delay.LENGTH), NodeAction.FIND_CHAOS),
        },
    },
)
"""Create the resource, hold it while it is in effect, delete it, and wait until it is gone.

Schedules go by the same table; any other type is treated as a kind of chaos, too.
"""

REMOVE_CHECK = (NodeAction.DELETE_CHECK, finish(NodeResult.AS_ENDED))
FINISH_IF_ENDED = if_(Guard.CLEANING_AND_ENDING, *REMOVE_CHECK)
FINISH_IF_CLEANING = if_(Guard.CLEANING, *REMOVE_CHECK)
CHECK_ENDED = do(NodeAction.RECORD_CAUSE, *REMOVE_CHECK)
CUT_OFF = (
    if_(Guard.CLEANING_AND_ENDING, NodeAction.RECORD_CAUSE, *REMOVE_CHECK)
    + FINISH_IF_CLEANING
    + CHECK_ENDED
)
"""A deadline is the time within which the check must come to a result."""

STATUS_CHECK = StateMachine(
    "StatusCheck",
    (INIT, RUNNING, SUCCEED, FAILED),
    {
        EventType.CREATED: {
            INIT: do(DEADLINE, enter(RUNNING), NodeAction.CREATE_CHECK),
        },
        EventType.CHECK_HELD: {
            RUNNING: FINISH_IF_ENDED + do(NodeAction.DELETE_CHECK, finish(NodeResult.SUCCEED)),
        },
        EventType.CHECK_FAILED: {
            RUNNING: FINISH_IF_ENDED
            + if_(
                Guard.ABORTS_WORKFLOW,
                NodeAction.RECORD_CAUSE,
                NodeAction.ABORT_WORKFLOW,
                NodeAction.DELETE_CHECK,
                finish(NodeResult.FAILED),
            )
            + do(NodeAction.RECORD_ANSWER, NodeAction.DELETE_CHECK, finish(NodeResult.SUCCEED)),
        },
        EventType.OBJECT_LOST: {
            RUNNING: FINISH_IF_CLEANING + CHECK_ENDED,
        },
        **same_row(
            ENDING_EVENTS,
            {INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)), RUNNING: CHECK_ENDED},
        ),
        **same_row(
            DEADLINE_EVENTS,
            {INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)), RUNNING: CUT_OFF},
        ),
        **retry_removal(NodeAction.DELETE_CHECK, RUNNING),
        EventType.RESUMED: {
            INIT: do(DEADLINE, START_AFTER_BACK_OFF),
            RUNNING: if_(Guard.CLEANING, *REMOVE_CHECK)
            + if_(Guard.CREATED_OBJECT, DEADLINE, NodeAction.FIND_CHECK)
            + do(DEADLINE, NodeAction.CREATE_CHECK),
        },
    },
)
"""Create a StatusCheck and wait until it holds, exceeds its failures, or times out."""

DELAY_OVER = NotifyAfter(EventType.DELAY_OVER, Delay.LENGTH)

SUSPEND = StateMachine(
    "Suspend",
    (INIT, HOLDING, SUCCEED, FAILED),
    {
        EventType.CREATED: {INIT: do(enter(HOLDING), DELAY_OVER)},
        EventType.DELAY_OVER: {HOLDING: do(finish(NodeResult.SUCCEED))},
        **same_row(
            ENDING_EVENTS,
            {
                INIT: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)),
                HOLDING: do(NodeAction.RECORD_CAUSE, finish(NodeResult.AS_ENDED)),
            },
        ),
        EventType.RESUMED: {INIT: do(START_AFTER_BACK_OFF), HOLDING: do(DELAY_OVER)},
    },
)
"""Wait for the length of the deadline."""
