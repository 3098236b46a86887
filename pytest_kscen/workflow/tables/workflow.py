"""The workflow itself: its entry is run, then its exit handler if it has one, and it is over when they are.

What goes wrong with the workflow ends its entry, and leaves its exit handler be, which is there for that.
"""

from __future__ import annotations

from pytest_kscen.objects.workflows import FAILED, INIT, RUNNING, SUCCEED
from pytest_kscen.workflow.events import Happening
from pytest_kscen.workflow.tables.machine import Act, Guard, Machine, Result, do, if_, over, tell_children, tell_itself, to

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
            RUNNING: if_(Guard.ENTRY_ENDING, tell_children(), Act.HEAR_CHILDREN) + do(Act.HEAR_CHILDREN),
        },
    },
)
