"""Parallel: all children at once. One that fails has the others ended, and only then has the node failed."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, INIT, SUCCEED, WAITING_FOR_CHILD, WAITING_FOR_SCHEDULE
from pytest_kscen.workflow.events import ENDINGS, Happening
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
    tell_children,
    tell_itself,
    to,
)
from pytest_kscen.workflow.tables.serial import DEADLINE, ENDED_WHERE_CHILDREN_ARE

PICK_ALL = {
    WAITING_FOR_SCHEDULE: if_(Guard.HAS_NEXT, Act.MAKE_CHILDREN, to(WAITING_FOR_CHILD), tell_children(Happening.CREATED))
    + do(over(Result.SUCCEED)),
}
ONE_OF_ALL_SUCCEEDED = {
    WAITING_FOR_CHILD: if_(Guard.ENDING_AND_CHILDREN_OVER, over(Result.AS_ENDED))
    + if_(Guard.CHILDREN_OVER, over(Result.AS_CHILDREN))
    + do(to(WAITING_FOR_CHILD)),
}
ONE_OF_ALL_FAILED = {
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, over(Result.FAILED)) + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
}

PARALLEL = Machine(
    "Parallel",
    (INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(WAITING_FOR_SCHEDULE), tell_itself(Happening.PICK)),
        },
        Happening.PICK: PICK_ALL,
        Happening.CHILD_SUCCEED: ONE_OF_ALL_SUCCEEDED,
        Happening.CHILD_FAILED: ONE_OF_ALL_FAILED,
        **every(ENDINGS, ENDED_WHERE_CHILDREN_ARE),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            WAITING_FOR_SCHEDULE: do(DEADLINE, tell_itself(Happening.PICK)),
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN) + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)
