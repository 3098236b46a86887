"""Suspend: nothing, for a while."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, HOLDING, INIT, SUCCEED
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import BEGIN_AGAIN, Act, Later, Machine, Result, Wait, do, every, over, to

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
