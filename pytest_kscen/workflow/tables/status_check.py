"""StatusCheck: a check is made, and asks again and again until it holds, has failed too often, or its time is up."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import BEGIN_AGAIN, Act, Guard, Machine, Result, do, every, if_, over, to
from pytest_kscen.workflow.tables.serial import DEADLINE

STATUS_CHECK = Machine(
    "StatusCheck",
    (INIT, RUNNING, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(RUNNING), Act.CREATE_CHECK),
        },
        Happening.CHECK_HELD: {
            RUNNING: do(Act.DELETE_CHECK, over(Result.SUCCEED)),
        },
        Happening.CHECK_FAILED: {
            RUNNING: if_(Guard.ABORTS, Act.MARK, Act.DELETE_CHECK, Act.ABORT_WORKFLOW, over(Result.FAILED))
            + do(Act.DELETE_CHECK, over(Result.SUCCEED)),
        },
        **every(
            ENDINGS,
            {
                INIT: do(Act.MARK, over(Result.AS_ENDED)),
                RUNNING: if_(Guard.IS_CLEANING, Act.MARK, over(Result.AS_ENDED))
                + do(Act.MARK, Act.DELETE_CHECK, over(Result.AS_ENDED)),
            },
        ),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            RUNNING: if_(Guard.IS_CLEANING, Act.DELETE_CHECK, over(Result.AS_ENDED))
            + if_(Guard.MADE, DEADLINE, Act.FIND_CHECK)
            + do(DEADLINE, Act.CREATE_CHECK),
        },
    },
)
