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
from pytest_kscen.workflow.tables.machine import Act, Guard, Machine, Result, do, every, if_, over, tell_children, tell_itself, to
from pytest_kscen.workflow.tables.parallel import ONE_OF_ALL_FAILED, ONE_OF_ALL_SUCCEEDED, PICK_ALL
from pytest_kscen.workflow.tables.serial import DEADLINE

ENDED = do(Act.MARK, Act.END_POD, over(Result.AS_ENDED))

TASK = Machine(
    "Task",
    (INIT, RUNNING, WAITING_FOR_CHILD, EVALUATING, WAITING_FOR_SCHEDULE, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(DEADLINE, to(RUNNING), Act.RUN_POD, tell_itself(Happening.POD_SPAWNED)),
        },
        Happening.POD_SPAWNED: {
            RUNNING: do(to(WAITING_FOR_CHILD)),
        },
        Happening.POD_ENDED: {
            WAITING_FOR_CHILD: if_(Guard.POD_COUNTS, to(EVALUATING), Act.EVALUATE, tell_itself(Happening.EVALUATED)),
        },
        Happening.EVALUATED: {
            EVALUATING: do(to(WAITING_FOR_SCHEDULE), tell_itself(Happening.PICK)),
        },
        Happening.PICK: PICK_ALL,
        Happening.CHILD_SUCCEED: ONE_OF_ALL_SUCCEEDED,
        Happening.CHILD_FAILED: ONE_OF_ALL_FAILED,
        **every(
            ENDINGS,
            {
                INIT: do(Act.MARK, over(Result.AS_ENDED)),
                RUNNING: ENDED,
                EVALUATING: ENDED,
                WAITING_FOR_SCHEDULE: ENDED,
                WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, *ENDED[0].steps) + do(Act.MARK, tell_children()),
            },
        ),
        Happening.RESUMED: {
            INIT: do(tell_itself(Happening.CREATED)),
            RUNNING: do(DEADLINE, Act.RUN_POD, tell_itself(Happening.POD_SPAWNED)),
            EVALUATING: do(DEADLINE, Act.EVALUATE, tell_itself(Happening.EVALUATED)),
            WAITING_FOR_SCHEDULE: do(DEADLINE, tell_itself(Happening.PICK)),
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN) + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)
