"""Serial: one child after the other."""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, INIT, SUCCEED, WAITING_FOR_CHILD, WAITING_FOR_SCHEDULE
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
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
    tell_children,
    tell_itself,
    to,
)

ENDED_WHERE_CHILDREN_ARE = {
    INIT: do(Act.MARK, over(Result.AS_ENDED)),
    WAITING_FOR_SCHEDULE: if_(Guard.CHILDREN_OVER, Act.MARK, over(Result.AS_ENDED))
    + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, Act.MARK, over(Result.AS_ENDED)) + do(Act.MARK, tell_children()),
}
DEADLINE = Later(Happening.DEADLINE, Wait.DEADLINE)

SERIAL = Machine(
    "Serial",
    (INIT, WAITING_FOR_SCHEDULE, WAITING_FOR_CHILD, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(WAITING_FOR_SCHEDULE), tell_itself(Happening.PICK)),
        },
        Happening.PICK: {
            WAITING_FOR_SCHEDULE: if_(Guard.HAS_NEXT, Act.MAKE_CHILDREN, to(WAITING_FOR_CHILD), tell_children(Happening.CREATED))
            + do(over(Result.SUCCEED)),
        },
        Happening.CHILD_SUCCEED: {
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, over(Result.AS_ENDED))
            + if_(Guard.HAS_NEXT, to(WAITING_FOR_SCHEDULE), tell_itself(Happening.PICK))
            + do(over(Result.SUCCEED)),
        },
        Happening.CHILD_FAILED: {
            WAITING_FOR_CHILD: do(over(Result.FAILED)),
        },
        **every(ENDINGS, ENDED_WHERE_CHILDREN_ARE),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            WAITING_FOR_SCHEDULE: do(DEADLINE, tell_itself(Happening.PICK)),
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN) + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)
