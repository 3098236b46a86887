"""Task: a pod is run to its end, the branches' expressions say where to go on, and those that were chosen go on at once."""

from __future__ import annotations

from pytest_kscen.objects.workflows import (
    EVALUATING,
    FAILED,
    INIT,
    RUNNING,
    SUCCEED,
    WAITING_FOR_CHILD,
    WAITING_FOR_SCHEDULE,
)
from pytest_kscen.workflow.events import ENDINGS, Happening
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
    BEING_REMOVED,
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
    tried_again,
)
from pytest_kscen.workflow.tables.parallel import ONE_OF_ALL_FAILED, ONE_OF_ALL_SUCCEEDED, PICK_ALL
from pytest_kscen.workflow.tables.serial import DEADLINE

HAS_ENDED = if_(Guard.IS_CLEANING, over(Result.AS_ENDED))
END = (Act.MARK, Act.END_POD, over(Result.AS_ENDED))
RUN = (Act.RUN_POD, to(WAITING_FOR_CHILD))
"""That it was made is written right away: who finds it gone does not run another."""
WAS_ENDING = if_(Guard.IS_CLEANING, Act.END_POD, over(Result.AS_ENDED))
ENDED = {
    RUNNING: do(*END),
    EVALUATING: do(*END),
    WAITING_FOR_SCHEDULE: if_(Guard.CHILDREN_OVER, *END) + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, *END) + do(Act.MARK, tell_children()),
}

TASK = Machine(
    "Task",
    (INIT, RUNNING, WAITING_FOR_CHILD, EVALUATING, WAITING_FOR_SCHEDULE, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(RUNNING), *RUN),
        },
        Happening.POD_ENDED: {
            WAITING_FOR_CHILD: HAS_ENDED + if_(Guard.POD_COUNTS, to(EVALUATING), Act.EVALUATE, tell_itself(Happening.EVALUATED)),
        },
        Happening.OUT_OF_SIGHT: {phase: WAS_ENDING + cell for phase, cell in ENDED.items()},
        Happening.EVALUATED: {
            EVALUATING: BEING_REMOVED + do(to(WAITING_FOR_SCHEDULE), tell_itself(Happening.PICK)),
        },
        Happening.PICK: {phase: BEING_REMOVED + cell for phase, cell in PICK_ALL.items()},
        Happening.CHILD_SUCCEED: ONE_OF_ALL_SUCCEEDED,
        Happening.CHILD_FAILED: ONE_OF_ALL_FAILED,
        **every(ENDINGS, {INIT: do(Act.MARK, over(Result.AS_ENDED)), **ENDED}),
        **tried_again(Act.END_POD, *ENDED),
        Happening.RESUMED: {
            INIT: do(DEADLINE, BEGIN_AGAIN),
            RUNNING: WAS_ENDING + do(DEADLINE, *RUN),
            EVALUATING: WAS_ENDING + do(DEADLINE, Act.EVALUATE, tell_itself(Happening.EVALUATED)),
            WAITING_FOR_SCHEDULE: WAS_ENDING + do(DEADLINE, tell_itself(Happening.PICK)),
            WAITING_FOR_CHILD: WAS_ENDING
            + if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN)
            + if_(Guard.POD_COUNTS, DEADLINE, Act.FIND_POD)
            + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)
