"""Chaos: a resource is created, takes effect, is held for its time, removed, and seen to be gone. So is a Schedule's."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, HOLDING, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
    CLEANED_IN_TIME,
    Act,
    Guard,
    Later,
    Machine,
    Result,
    Wait,
    do,
    every,
    if_,
    over,
    to,
)

INJECTED_IN_TIME = Later(Happening.NOT_INJECTED, Wait.INJECTION)
REMOVE = (CLEANED_IN_TIME, Act.DELETE_CHAOS)
ENDED = {
    INIT: do(Act.MARK, over(Result.AS_ENDED)),
    RUNNING: if_(Guard.IS_CLEANING, Act.MARK) + do(Act.MARK, *REMOVE),
    HOLDING: do(Act.MARK, to(RUNNING), *REMOVE),
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
            RUNNING: if_(Guard.IS_CLEANING) + do(Act.MARK, *REMOVE),
        },
        Happening.AWAKE: {
            HOLDING: do(to(RUNNING), *REMOVE),
        },
        Happening.CLEANED: {
            RUNNING: if_(Guard.CLEANING_AND_ENDING, over(Result.AS_ENDED)) + if_(Guard.IS_CLEANING, over(Result.SUCCEED)),
        },
        Happening.OUT_OF_SIGHT: {
            RUNNING: if_(Guard.IS_CLEANING, Act.SEE_CHAOS_GONE) + do(Act.MARK, *REMOVE),
            HOLDING: do(Act.MARK, to(RUNNING), *REMOVE),
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
        **every(ENDINGS, ENDED),
        Happening.RESUMED: {
            INIT: do(BEGIN_AGAIN),
            RUNNING: if_(Guard.IS_CLEANING, *REMOVE)
            + if_(Guard.MADE, INJECTED_IN_TIME, Act.FIND_CHAOS)
            + do(INJECTED_IN_TIME, Act.CREATE_CHAOS),
            HOLDING: do(Later(Happening.AWAKE, Wait.LENGTH), Act.FIND_CHAOS),
        },
    },
)
