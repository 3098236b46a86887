"""Chaos: a resource is created, takes effect, is held for its time, removed, and seen to be gone. So is a Schedule's."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, HOLDING, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import Act, Guard, Later, Machine, Result, Wait, do, every, if_, over, tell_itself, to

INJECTED_IN_TIME = Later(Happening.NOT_INJECTED, Wait.INJECTION)
CLEANED_IN_TIME = Later(Happening.NOT_CLEANED, Wait.CLEANING)

CHAOS = Machine(
    "Chaos",
    (INIT, RUNNING, HOLDING, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(to(RUNNING), Act.CREATE_CHAOS, INJECTED_IN_TIME),
        },
        Happening.INJECTED: {
            RUNNING: if_(Guard.IS_CLEANING) + do(to(HOLDING), Later(Happening.AWAKE, Wait.LENGTH)),
        },
        Happening.NOT_INJECTED: {
            RUNNING: if_(Guard.IS_CLEANING) + do(Act.MARK, Act.DELETE_CHAOS, CLEANED_IN_TIME),
        },
        Happening.AWAKE: {
            HOLDING: do(to(RUNNING), Act.DELETE_CHAOS, CLEANED_IN_TIME),
        },
        Happening.CLEANED: {
            RUNNING: if_(Guard.CLEANING_AND_ENDING, over(Result.AS_ENDED))
            + if_(Guard.IS_CLEANING, over(Result.SUCCEED))
            + do(over(Result.FAILED)),
            HOLDING: do(over(Result.FAILED)),
        },
        Happening.NOT_CLEANED: {
            RUNNING: if_(Guard.IS_CLEANING, over(Result.FAILED)),
        },
        **every(
            ENDINGS,
            {
                INIT: do(Act.MARK, over(Result.AS_ENDED)),
                RUNNING: if_(Guard.IS_CLEANING, Act.MARK) + do(Act.MARK, Act.DELETE_CHAOS, CLEANED_IN_TIME),
                HOLDING: do(Act.MARK, to(RUNNING), Act.DELETE_CHAOS, CLEANED_IN_TIME),
            },
        ),
        Happening.RESUMED: {
            INIT: do(tell_itself(Happening.CREATED)),
            RUNNING: if_(Guard.IS_CLEANING, Act.DELETE_CHAOS, CLEANED_IN_TIME) + do(Act.CREATE_CHAOS, INJECTED_IN_TIME),
            HOLDING: do(Later(Happening.AWAKE, Wait.LENGTH)),
        },
    },
)
