"""StatusCheck: a check is made, and asks again and again until it holds, has failed too often, or its time is up."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.events import BY_TIME, ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
    Act,
    Guard,
    Machine,
    Result,
    do,
    every,
    if_,
    over,
    to,
    tried_again,
)
from pytest_kscen.workflow.tables.serial import DEADLINE

REMOVE = (Act.DELETE_CHECK, over(Result.AS_ENDED))
IS_ENDED = if_(Guard.CLEANING_AND_ENDING, *REMOVE)
IS_REMOVED = if_(Guard.IS_CLEANING, *REMOVE)
ENDED = do(Act.MARK, *REMOVE)
CUT_OFF = if_(Guard.CLEANING_AND_ENDING, Act.MARK, *REMOVE) + IS_REMOVED + ENDED
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
            RUNNING: IS_REMOVED + ENDED,
        },
        **every(ENDINGS, {INIT: do(Act.MARK, over(Result.AS_ENDED)), RUNNING: ENDED}),
        **every(BY_TIME, {INIT: do(Act.MARK, over(Result.AS_ENDED)), RUNNING: CUT_OFF}),
        **tried_again(Act.DELETE_CHECK, RUNNING),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            RUNNING: if_(Guard.IS_CLEANING, *REMOVE) + if_(Guard.MADE, DEADLINE, Act.FIND_CHECK) + do(DEADLINE, Act.CREATE_CHECK),
        },
    },
)
