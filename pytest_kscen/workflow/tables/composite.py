"""State machines of nodes with children: Serial, Parallel, Task, and the workflow itself."""

from __future__ import annotations

from pytest_kscen.objects.chaos_mesh import (
    EVALUATING,
    FAILED,
    INIT,
    RUNNING,
    SUCCEED,
    WAITING_FOR_CHILD,
    WAITING_FOR_SCHEDULE,
)
from pytest_kscen.workflow.tables.machine import (
    BEGIN_AGAIN,
    BEING_REMOVED,
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
    tell_children,
    tell_itself,
    to,
    tried_again,
)

ENDED_WHERE_CHILDREN_ARE = {
    INIT: do(Act.MARK, over(Result.AS_ENDED)),
    WAITING_FOR_SCHEDULE: if_(Guard.CHILDREN_OVER, Act.MARK, over(Result.AS_ENDED))
    + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, Act.MARK, over(Result.AS_ENDED))
    + do(Act.MARK, tell_children()),
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
            WAITING_FOR_SCHEDULE: if_(
                Guard.HAS_NEXT,
                Act.MAKE_CHILDREN,
                to(WAITING_FOR_CHILD),
                tell_children(Happening.CREATED),
            )
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
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN)
            + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)


# Parallel: all children at once. One that fails has the others ended, and only then has the
# node failed.


PICK_ALL = {
    WAITING_FOR_SCHEDULE: if_(
        Guard.HAS_NEXT, Act.MAKE_CHILDREN, to(WAITING_FOR_CHILD), tell_children(Happening.CREATED)
    )
    + do(over(Result.SUCCEED)),
}
ONE_OF_ALL_SUCCEEDED = {
    WAITING_FOR_CHILD: if_(Guard.ENDING_AND_CHILDREN_OVER, over(Result.AS_ENDED))
    + if_(Guard.CHILDREN_OVER, over(Result.AS_CHILDREN))
    + do(to(WAITING_FOR_CHILD)),
}
ONE_OF_ALL_FAILED = {
    WAITING_FOR_CHILD: if_(Guard.CHILDREN_OVER, over(Result.FAILED))
    + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
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
            WAITING_FOR_CHILD: if_(Guard.IS_ENDING, tell_children(), Act.HEAR_CHILDREN)
            + do(DEADLINE, Act.HEAR_CHILDREN),
        },
    },
)


# Task: a pod is run to its end, the branches' expressions say where to go on, and those that
# were chosen go on at once.


HAS_ENDED = if_(Guard.IS_CLEANING, over(Result.AS_ENDED))
END = (Act.MARK, Act.END_POD, over(Result.AS_ENDED))
RUN = (Act.RUN_POD, to(WAITING_FOR_CHILD))
"""That it was made is written right away: who finds it gone does not run another."""
WAS_ENDING = if_(Guard.IS_CLEANING, Act.END_POD, over(Result.AS_ENDED))
ENDED = {
    RUNNING: do(*END),
    EVALUATING: do(*END),
    WAITING_FOR_SCHEDULE: if_(Guard.CHILDREN_OVER, *END)
    + do(Act.MARK, to(WAITING_FOR_CHILD), tell_children()),
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
            WAITING_FOR_CHILD: HAS_ENDED
            + if_(Guard.POD_COUNTS, to(EVALUATING), Act.EVALUATE, tell_itself(Happening.EVALUATED)),
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


# The workflow itself: its entry is run, then its exit handler if it has one, and it is over
# when they are. What goes wrong with the workflow ends its entry, and leaves its exit handler
# be, which is there for that.


RUN_EXIT = (Act.MAKE_EXIT, to(RUNNING), tell_children(Happening.CREATED))
CHILD_OVER = {
    RUNNING: if_(Guard.EXIT_LEFT, *RUN_EXIT) + if_(Guard.CHILDREN_OVER, over(Result.AS_CHILDREN)),
}

WORKFLOW = Machine(
    "Workflow",
    (INIT, RUNNING, SUCCEED, FAILED),
    {
        Happening.CREATED: {
            INIT: do(Act.MAKE_CHILDREN, to(RUNNING), tell_children(Happening.CREATED)),
        },
        Happening.CHILD_SUCCEED: CHILD_OVER,
        Happening.CHILD_FAILED: CHILD_OVER,
        Happening.ABORTED: {
            INIT: do(Act.MARK, over(Result.FAILED)),
            RUNNING: do(Act.MARK, tell_children()),
        },
        Happening.FAULT: {
            INIT: do(Act.MARK, over(Result.FAILED)),
            RUNNING: if_(Guard.EXIT_LEFT, Act.MARK, *RUN_EXIT)
            + if_(Guard.CHILDREN_OVER, Act.MARK, over(Result.FAILED))
            + if_(Guard.EXIT_BEGUN, Act.MARK)
            + do(Act.MARK, tell_children()),
        },
        Happening.RESUMED: {
            INIT: do(tell_itself(Happening.CREATED)),
            RUNNING: if_(Guard.ENTRY_ENDING, tell_children(), Act.HEAR_CHILDREN)
            + do(Act.HEAR_CHILDREN),
        },
    },
)
