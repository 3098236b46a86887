"""State machines of nodes without children: chaos (and Schedule), StatusCheck, Suspend."""

from __future__ import annotations

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.tables.composite import DEADLINE
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
    BY_TIME,
    CLEANED_IN_TIME,
    ENDINGS,
    Act,
    Guard,
    Happening,
    Later,
    Machine,
    Result,
    Wait,
    do,
    every,
    if_,
    over,
    to,
    tried_again,
)

INJECTED_IN_TIME = Later(Happening.NOT_INJECTED, Wait.INJECTION)
REMOVE_CHAOS = (CLEANED_IN_TIME, Act.DELETE_CHAOS)
CHAOS_ENDED = {
    INIT: do(Act.MARK, over(Result.AS_ENDED)),
    RUNNING: if_(Guard.IS_CLEANING, Act.MARK) + do(Act.MARK, *REMOVE_CHAOS),
    HOLDING: do(Act.MARK, to(RUNNING), *REMOVE_CHAOS),
}

CHAOS = Machine(
    "Chaos",
    (INIT, RUNNING, HOLDING, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(to(RUNNING), INJECTED_IN_TIME, Act.CREATE_CHAOS),
        },
        Happening.INJECTED: {
            RUNNING: if_(Guard.IS_CLEANING) + do(to(HOLDING), Later(Happening.AWAKE, Wait.LENGTH)),
        },
        Happening.NOT_INJECTED: {
            RUNNING: if_(Guard.IS_CLEANING) + do(Act.MARK, *REMOVE_CHAOS),
        },
        Happening.AWAKE: {
            HOLDING: do(to(RUNNING), *REMOVE_CHAOS),
        },
        Happening.CLEANED: {
            RUNNING: if_(Guard.CLEANING_AND_ENDING, over(Result.AS_ENDED))
            + if_(Guard.IS_CLEANING, over(Result.SUCCEED)),
        },
        Happening.OUT_OF_SIGHT: {
            RUNNING: if_(Guard.IS_CLEANING, Act.SEE_CHAOS_GONE) + do(Act.MARK, *REMOVE_CHAOS),
            HOLDING: do(Act.MARK, to(RUNNING), *REMOVE_CHAOS),
        },
        Happening.NOT_CLEANED: {
            RUNNING: if_(Guard.IS_CLEANING, Act.MARK, Act.LEAVE, over(Result.FAILED)),
        },
        Happening.NOT_REMOVED: {
            RUNNING: if_(Guard.IS_CLEANING, Later(Happening.CLEAN_AGAIN, Wait.AGAIN)),
        },
        Happening.CLEAN_AGAIN: {
            RUNNING: if_(Guard.IS_CLEANING, Act.DELETE_CHAOS),
        },
        **every(ENDINGS, CHAOS_ENDED),
        Happening.RESUMED: {
            INIT: do(BEGIN_AGAIN),
            RUNNING: if_(Guard.IS_CLEANING, *REMOVE_CHAOS)
            + if_(Guard.MADE, INJECTED_IN_TIME, Act.FIND_CHAOS)
            + do(INJECTED_IN_TIME, Act.CREATE_CHAOS),
            HOLDING: do(Later(Happening.AWAKE, Wait.LENGTH), Act.FIND_CHAOS),
        },
    },
)


# StatusCheck: a check is made, and asks again and again until it holds, has failed too often,
# or its time is up.


REMOVE_CHECK = (Act.DELETE_CHECK, over(Result.AS_ENDED))
IS_ENDED = if_(Guard.CLEANING_AND_ENDING, *REMOVE_CHECK)
IS_REMOVED = if_(Guard.IS_CLEANING, *REMOVE_CHECK)
CHECK_ENDED = do(Act.MARK, *REMOVE_CHECK)
CUT_OFF = if_(Guard.CLEANING_AND_ENDING, Act.MARK, *REMOVE_CHECK) + IS_REMOVED + CHECK_ENDED
"""Its time is that of coming to a result."""

STATUS_CHECK = Machine(
    "StatusCheck",
    (INIT, RUNNING, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(RUNNING), Act.CREATE_CHECK),
        },
        Happening.CHECK_HELD: {
            RUNNING: IS_ENDED + do(Act.DELETE_CHECK, over(Result.SUCCEED)),
        },
        Happening.CHECK_FAILED: {
            RUNNING: IS_ENDED
            + if_(Guard.ABORTS, Act.MARK, Act.ABORT_WORKFLOW, Act.DELETE_CHECK, over(Result.FAILED))
            + do(Act.QUOTE, Act.DELETE_CHECK, over(Result.SUCCEED)),
        },
        Happening.OUT_OF_SIGHT: {
            RUNNING: IS_REMOVED + CHECK_ENDED,
        },
        **every(ENDINGS, {INIT: do(Act.MARK, over(Result.AS_ENDED)), RUNNING: CHECK_ENDED}),
        **every(BY_TIME, {INIT: do(Act.MARK, over(Result.AS_ENDED)), RUNNING: CUT_OFF}),
        **tried_again(Act.DELETE_CHECK, RUNNING),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            RUNNING: if_(Guard.IS_CLEANING, *REMOVE_CHECK)
            + if_(Guard.MADE, DEADLINE, Act.FIND_CHECK)
            + do(DEADLINE, Act.CREATE_CHECK),
        },
    },
)


# Suspend: nothing, for a while.


AWAKE = Later(Happening.AWAKE, Wait.LENGTH)

SUSPEND = Machine(
    "Suspend",
    (INIT, HOLDING, SUCCEED, FAILED),
    {
        Happening.CREATED: {INIT: do(to(HOLDING), AWAKE)},
        Happening.AWAKE: {HOLDING: do(over(Result.SUCCEED))},
        **every(
            ENDINGS,
            {
                INIT: do(Act.MARK, over(Result.AS_ENDED)),
                HOLDING: do(Act.MARK, over(Result.AS_ENDED)),
            },
        ),
        Happening.RESUMED: {INIT: do(BEGIN_AGAIN), HOLDING: do(AWAKE)},
    },
)
