"""Expected tables: events as rows, phases as columns, "-" where nothing happens.

A word in a cell stands for what follows, in each situation in which the node may be.
"""

ON, DONE, BAD = "Holding", "Succeed", "Failed"  # phases of children
PICKS, UP, DOWN = (
    "itself told NodePickChildToSchedule",
    "parent told ChildNodeSucceed",
    "parent told ChildNodeFailed",
)
DEADLINE = "NodeDeadlineExceed in 100 s"
SUCCEEDS, FAILS = f"Succeed; {UP}", f"Failed; {DOWN}"
CUT_OFF = f"Failed; {UP}"
"""By its parent's time, before it came to its result: that is no failure of the parent's."""
CUT, ABORTED, CLEANING = (
    {"ending": "NodeDeadlineExceed"},
    {"ending": "NodeAborted"},
    {"cleaning": True},
)

FAILED_ONCE = {"attempt": 2, "ending": "NodeFault"}


def situation(follows, *children, **state):
    return follows, {"children": children, **state}


ENDS = {
    "ends": {
        "": situation(SUCCEEDS),
        "it waits for another attempt": situation(FAILS, engine=FAILED_ONCE),
    },
    "fails": {
        "": situation(FAILS),
        "it waits for another attempt": situation(FAILS, engine=FAILED_ONCE),
    },
    "begins": {"": situation("itself told NodeCreated")},
    "begins in time": {"": situation(f"itself told NodeCreated; {DEADLINE}")},
}
"""By its deadline or its parent's it is as it should be; by anything else it has failed."""
CHILDREN_END = {
    "ends first": {
        "no child": situation(SUCCEEDS),
        "a child is there": situation("WaitingForChild; a told ParentNodeDeadlineExceed", "Init"),
    },
    "fails first": {
        "no child": situation(FAILS),
        "a child is there": situation("WaitingForChild; a told {passed on}", "Init"),
    },
    "ends children": {
        "one is on": situation("b told ParentNodeDeadlineExceed", DONE, ON),
        "all over": situation(SUCCEEDS, DONE, DONE),
        "one has failed": situation(FAILS, DONE, BAD),
    },
    "fails children": {
        "one is on": situation("b told {passed on}", DONE, ON),
        "all over": situation(FAILS, DONE, DONE),
    },
    "picks again": {"": situation(f"{PICKS}; {DEADLINE}")},
    "hears": {
        "one is on": situation(DEADLINE, DONE, ON),
        "all over": situation(f"itself told ChildNodeSucceed; {DEADLINE}", DONE, DONE),
        "one has failed": situation(f"itself told ChildNodeFailed; {DEADLINE}", DONE, BAD),
        "being ended": situation("b told NodeAborted", DONE, ON, engine=ABORTED),
        "was ended": situation("itself told ChildNodeSucceed", DONE, DONE, engine=CUT),
    },
}
COMMON_BEGIN = {"waits": {"": situation(f"WaitingForSchedule; {PICKS}; {DEADLINE}")}}

SERIAL = """
NodeCreated              | waits  | -           | -              | - | -
NodePickChildToSchedule  | -      | picks one   | -              | - | -
ChildNodeSucceed         | -      | -           | goes on        | - | -
ChildNodeFailed          | -      | -           | fails          | - | -
NodeDeadlineExceed       | ends   | ends first  | ends children  | - | -
ParentNodeDeadlineExceed | ends   | ends first  | ends children  | - | -
NodeAborted              | fails  | fails first | fails children | - | -
NodeFailedElsewhere      | fails  | fails first | fails children | - | -
NodeFault                | fails  | fails first | fails children | - | -
EngineResumed            | begins in time | picks again | hears          | - | -
"""
SERIAL_CELLS = {
    **ENDS,
    **CHILDREN_END,
    **COMMON_BEGIN,
    "picks one": {
        "none made": situation("made a; WaitingForChild; a told NodeCreated"),
        "one over": situation("made b; WaitingForChild; b told NodeCreated", DONE),
        "all over": situation(SUCCEEDS, DONE, DONE),
    },
    "goes on": {
        "one left": situation(f"WaitingForSchedule; {PICKS}", DONE),
        "none left": situation(SUCCEEDS, DONE, DONE),
        "cut off": situation(SUCCEEDS, DONE, engine=CUT),
        "aborted": situation(FAILS, DONE, engine=ABORTED),
    },
}

PARALLEL = (
    SERIAL.replace("picks one  ", "picks all  ")
    .replace("goes on        |", "counts         |")
    .replace(
        "ChildNodeFailed          | -      | -           | fails          |",
        "ChildNodeFailed          | -      | -           | stops others   |",
    )
)
ALL_AT_ONCE = {
    "picks all": {
        "none made": situation(
            "made a; made b; WaitingForChild; a told NodeCreated; b told NodeCreated"
        ),
        "all over": situation(SUCCEEDS, DONE, DONE),
    },
    "counts": {
        "one is on": situation("WaitingForChild", DONE, ON),
        "none is on": situation(SUCCEEDS, DONE, DONE),
        "one has failed meanwhile": situation(FAILS, DONE, BAD),
        "cut off, one is on": situation("WaitingForChild", DONE, ON, engine=CUT),
        "cut off": situation(SUCCEEDS, DONE, DONE, engine=CUT),
        "cut off, one has failed": situation(FAILS, DONE, BAD, engine=CUT),
        "aborted": situation(FAILS, DONE, DONE, engine=ABORTED),
    },
    "stops others": {
        "one is on": situation("WaitingForChild; b told NodeFailedElsewhere", BAD, ON),
        "none is on": situation(FAILS, BAD, DONE),
    },
}
PARALLEL_CELLS = {**ENDS, **CHILDREN_END, **COMMON_BEGIN, **ALL_AT_ONCE}

SUSPEND = """
NodeCreated              | holds  | -          | - | -
NodeHoldingAwake         | -      | wakes      | - | -
NodeDeadlineExceed       | ends   | ends       | - | -
ParentNodeDeadlineExceed | ends   | ends       | - | -
NodeAborted              | fails  | fails      | - | -
NodeFailedElsewhere      | fails  | fails      | - | -
NodeFault                | fails  | fails      | - | -
EngineResumed            | begins | holds on   | - | -
"""
SUSPEND_CELLS = {
    **ENDS,
    "holds": {"": situation("Holding; NodeHoldingAwake in 100 s", engine={"heldUntil": None})},
    "wakes": {"": situation(SUCCEEDS)},
    "holds on": {"": situation("NodeHoldingAwake in 40 s")},
}

CHAOS = """
NodeCreated              | injects | -           | -         | - | -
NodeChaosInjected        | -       | holds       | -         | - | -
NodeChaosNotInjected     | -       | gives up    | -         | - | -
NodeHoldingAwake         | -       | -           | removes   | - | -
NodeChaosCleaned         | -       | is gone     | -         | - | -
NodeChaosOutOfSight      | -       | is it gone  | removes   | - | -
NodeChaosNotCleaned      | -       | is stuck    | -         | - | -
NodeChaosNotRemoved      | -       | waits       | -         | - | -
NodeChaosCleanAgain      | -       | tries again | -         | - | -
NodeDeadlineExceed       | ends    | stops       | removes   | - | -
ParentNodeDeadlineExceed | ends    | stops       | removes   | - | -
NodeAborted              | fails   | stops       | removes   | - | -
NodeFailedElsewhere      | fails   | stops       | removes   | - | -
NodeFault                | fails   | stops       | removes   | - | -
EngineResumed            | begins  | does again  | holds on  | - | -
"""
GIVEN_TIME, GONE_BY = "NodeChaosNotInjected in 60 s", "NodeChaosNotCleaned in 300 s"


def chaos_cells(kind):
    remove = f"delete {kind}; {GONE_BY}"
    at_once = "itself told NodeChaosInjected; " if kind == "schedules" else ""
    again = f"itself told NodeChaosInjected; {GIVEN_TIME}" if kind == "schedules" else GIVEN_TIME
    in_vain = SUCCEEDS if kind == "schedules" else FAILS
    return {
        **ENDS,
        "ends": {**ENDS["ends"], "": situation(in_vain)},
        "injects": {"": situation(f"Running; create {kind}; {at_once}{GIVEN_TIME}")},
        "holds": {
            "": situation("Holding; NodeHoldingAwake in 100 s", engine={"heldUntil": None}),
            "too late": situation("-", engine=CLEANING),
        },
        "gives up": {"": situation(remove), "too late": situation("-", engine=CLEANING)},
        "removes": {
            "": situation(f"Running; {remove}"),
            "somebody else has": situation(
                f"Running; itself told NodeChaosCleaned; {GONE_BY}", exists=False
            ),
        },
        "is gone": {
            "as it should": situation(SUCCEEDS, exists=False, engine=CLEANING),
            "cut off": situation(SUCCEEDS, exists=False, engine={**CLEANING, **CUT}, held=True),
            "cut off before it was in effect": situation(
                in_vain, exists=False, engine={**CLEANING, **CUT}
            ),
            "aborted": situation(FAILS, exists=False, engine={**CLEANING, **ABORTED}),
            "out of date": situation("-"),
        },
        "is it gone": {
            "it is": situation("itself told NodeChaosCleaned", exists=False, engine=CLEANING),
            "it is only out of sight": situation(f"delete {kind}", engine=CLEANING),
            "somebody else has removed it": situation(
                f"itself told NodeChaosCleaned; {GONE_BY}", exists=False
            ),
            "nobody has removed it": situation(remove),
        },
        "is stuck": {"": situation(FAILS, engine=CLEANING), "it is not": situation("-")},
        "tries again": {
            "": situation(f"delete {kind}", engine=CLEANING),
            "out of date": situation("-"),
        },
        "stops": {"": situation(remove), "it is being removed": situation("-", engine=CLEANING)},
        "waits": {
            "": situation("NodeChaosCleanAgain in 10 s", engine=CLEANING),
            "out of date": situation("-"),
        },
        "does again": {
            "it was made": situation(again),
            "it was not": situation(f"create {kind}; {again}", exists=False),
            "that is known": situation(again, engine={"made": True}),
            "somebody has removed it": situation(
                f"itself told NodeFault; {GIVEN_TIME}", exists=False, engine={"made": True}
            ),
            "it was being removed": situation(remove, engine=CLEANING),
            "it was removed": situation(
                f"itself told NodeChaosCleaned; {GONE_BY}", exists=False, engine=CLEANING
            ),
        },
        "holds on": {
            "": situation("NodeHoldingAwake in 40 s"),
            "somebody has removed it": situation(
                "itself told NodeFault; NodeHoldingAwake in 40 s", exists=False
            ),
        },
    }


TASK = """
NodeCreated              | runs   | -         | -              | -         | -            | - | -
NodeTaskPodEnded         | -      | -         | evaluates      | -         | -            | - | -
NodeChaosOutOfSight      | -      | vanishes  | vanishes late  | vanishes  | vanishes 1st | - | -
NodeChaosNotRemoved      | -      | waits     | waits          | waits     | waits        | - | -
NodeChaosCleanAgain      | -      | tries again | tries again  | tries again | tries again | - | -
NodeChaosNotCleaned      | -      | is stuck  | is stuck       | is stuck  | is stuck     | - | -
NodeBranchesEvaluated    | -      | -         | -              | evaluated | -            | - | -
NodePickChildToSchedule  | -      | -         | -              | -         | picks all    | - | -
ChildNodeSucceed         | -      | -         | counts         | -         | -            | - | -
ChildNodeFailed          | -      | -         | stops others   | -         | -            | - | -
NodeDeadlineExceed       | fails  | stops     | is cut off     | stops     | stops first  | - | -
ParentNodeDeadlineExceed | is cut | is ended  | is ended late  | is ended  | is ended 1st | - | -
NodeAborted              | fails  | stops     | is stopped     | stops     | stops first  | - | -
NodeFailedElsewhere      | fails  | stops     | is stopped     | stops     | stops first  | - | -
NodeFault                | fails  | stops     | is stopped     | stops     | stops first  | - | -
EngineResumed            | begins in time | runs on   | hears all      | looks on  | picks on     | - | -
"""
CHOSEN = {"chosen": ["a", "b"]}
WAS_REFUSED = {**CLEANING, **CUT}
LOOKS = "itself told NodeBranchesEvaluated"
WAS_CUT = situation(f"delete pods; {FAILS}", engine={**CLEANING, **CUT})
WAS_ENDED = situation(
    f"delete pods; {CUT_OFF}", engine={**CLEANING, "ending": "ParentNodeDeadlineExceed"}
)


def stop(over, reported, phase=""):
    """Cells of a Task, for any state of its children."""
    return {
        "no child": situation(f"delete pods; {over}", engine=CHOSEN),
        "one is on": situation(f"{phase}b told {reported}", DONE, ON, engine=CHOSEN),
        "its pod's end was refused": situation(
            f"delete pods; {FAILS}", engine={**CHOSEN, **CLEANING, "ending": "NodeFault"}
        ),
    }


def refused(removal):
    """Situation in which a removed object still exists."""
    cut_off = {**CLEANING, "ending": "ParentNodeDeadlineExceed"}
    return {
        "waits": {
            "": situation(f"NodeChaosCleanAgain in 10 s; {GONE_BY}", engine=CLEANING),
            "out of date": situation("-"),
        },
        "tries again": {
            "": situation(f"{removal}; {SUCCEEDS}", engine=CLEANING),
            "aborted": situation(f"{removal}; {FAILS}", engine={**CLEANING, **ABORTED}),
            "it is gone": situation(SUCCEEDS, exists=False, engine=CLEANING),
            "out of date": situation("-"),
        },
        "is stuck": {"": situation(FAILS, engine=cut_off), "it is not": situation("-")},
    }


TASK_CELLS = {
    **ENDS,
    **ALL_AT_ONCE,
    "counts": {**ALL_AT_ONCE["counts"], "cut off": situation(FAILS, DONE, DONE, engine=CUT)},
    "picks all": {
        "two chosen": situation(
            "made a; made b; WaitingForChild; a told NodeCreated; b told NodeCreated", engine=CHOSEN
        ),
        "none chosen": situation(SUCCEEDS, engine={"chosen": []}),
        "too late": situation("-", engine={**CHOSEN, **WAS_REFUSED}),
    },
    "runs": {
        "": situation(f"Running; create configmaps; create pods; WaitingForChild; {DEADLINE}")
    },
    **refused("delete pods"),
    "vanishes": {"": situation(f"delete pods; {FAILS}"), "being ended": WAS_CUT},
    "vanishes 1st": {
        **stop(FAILS, "NodeFailedElsewhere", "WaitingForChild; "),
        "being ended": WAS_CUT,
    },
    "vanishes late": {**stop(FAILS, "NodeFailedElsewhere"), "being ended": WAS_CUT},
    "evaluates": {
        "being ended": situation(FAILS, engine=WAS_REFUSED),
        "": situation(f"Evaluating; {LOOKS}"),
        "it was": situation("-", ON, engine=CHOSEN),
        "its pod is gone": situation("Evaluating; itself told NodeFault", exists=False),
    },
    "evaluated": {
        "": situation(f"WaitingForSchedule; {PICKS}"),
        "too late": situation("-", engine=WAS_REFUSED),
    },
    "stops": {"": situation(f"delete pods; {FAILS}"), "its pod's end was refused": WAS_CUT},
    "is cut": {"": situation(CUT_OFF)},
    "is ended": {"": situation(f"delete pods; {CUT_OFF}"), "its pod's end was refused": WAS_ENDED},
    "stops first": stop(FAILS, "{passed on}", "WaitingForChild; "),
    "is ended 1st": stop(CUT_OFF, "ParentNodeDeadlineExceed", "WaitingForChild; "),
    "is cut off": stop(FAILS, "ParentNodeDeadlineExceed"),
    "is ended late": stop(CUT_OFF, "ParentNodeDeadlineExceed"),
    "is stopped": stop(FAILS, "{passed on}"),
    "runs on": {
        "its pod is there": situation(f"WaitingForChild; {DEADLINE}"),
        "it is not": situation(
            f"create configmaps; create pods; WaitingForChild; {DEADLINE}", exists=False
        ),
        "cut off": WAS_CUT,
    },
    "looks on": {"": situation(f"{LOOKS}; {DEADLINE}"), "cut off": WAS_CUT, "ended": WAS_ENDED},
    "picks on": {"": situation(f"{PICKS}; {DEADLINE}", engine=CHOSEN), "cut off": WAS_CUT},
    "hears all": {
        "its pod runs": situation(DEADLINE),
        "its pod is gone": situation(f"itself told NodeFault; {DEADLINE}", exists=False),
        "cut off": WAS_CUT,
        "one is on": situation(DEADLINE, DONE, ON, engine=CHOSEN),
        "all over": situation(
            f"itself told ChildNodeSucceed; {DEADLINE}", DONE, DONE, engine=CHOSEN
        ),
        "being ended": situation("b told NodeAborted", DONE, ON, engine={**CHOSEN, **ABORTED}),
    },
}

STATUS_CHECK = """
NodeCreated              | checks | -           | - | -
NodeStatusCheckHeld      | -      | held        | - | -
NodeStatusCheckFailed    | -      | failed      | - | -
NodeChaosOutOfSight      | -      | vanishes    | - | -
NodeChaosNotRemoved      | -      | waits       | - | -
NodeChaosCleanAgain      | -      | tries again | - | -
NodeChaosNotCleaned      | -      | is stuck    | - | -
NodeDeadlineExceed       | late   | too late    | - | -
ParentNodeDeadlineExceed | is cut | is ended    | - | -
NodeAborted              | fails  | stops       | - | -
NodeFailedElsewhere      | fails  | stops       | - | -
NodeFault                | fails  | stops       | - | -
EngineResumed            | begins in time | checks on   | - | -
"""
NO_MORE = "delete statuschecks"


def check_cells(*, aborts=False, continuous=False):
    late, cut_off = (SUCCEEDS, SUCCEEDS) if continuous else (FAILS, CUT_OFF)
    aborted = {"it was aborted": situation(f"{NO_MORE}; {FAILS}", engine={**CLEANING, **ABORTED})}
    had_result = {"it had its result": situation(f"{NO_MORE}; {FAILS}", engine=CLEANING)}
    has_result = {"it has its result": situation(f"{NO_MORE}; {SUCCEEDS}", engine=CLEANING)}
    fails = f"aborted the workflow; {NO_MORE}; {FAILS}" if aborts else f"{NO_MORE}; {SUCCEEDS}"
    return {
        **ENDS,
        "checks": {"": situation(f"Running; create statuschecks; {DEADLINE}")},
        **refused(NO_MORE),
        "held": {"": situation(f"{NO_MORE}; {SUCCEEDS}"), **aborted},
        "failed": {"": situation(fails), **aborted},
        "vanishes": {
            "": situation(f"{NO_MORE}; {FAILS}"),
            "as it should": situation(SUCCEEDS, exists=False, engine=CLEANING),
        },
        "late": {"": situation(late)},
        "too late": {"": situation(f"{NO_MORE}; {late}"), **aborted, **has_result},
        "is cut": {"": situation(cut_off)},
        "is ended": {"": situation(f"{NO_MORE}; {cut_off}"), **aborted, **has_result},
        "stops": {
            "": situation(f"{NO_MORE}; {FAILS}"),
            **aborted,
            **had_result,
        },
        "checks on": {
            "it is there": situation(DEADLINE),
            "it is not": situation(f"create statuschecks; {DEADLINE}", exists=False),
            "it was made": situation(DEADLINE, engine={"made": True}),
            "somebody has removed it": situation(
                f"itself told NodeFault; {DEADLINE}", exists=False, engine={"made": True}
            ),
            "it was being removed": situation(f"{NO_MORE}; {SUCCEEDS}", engine=CLEANING),
        },
    }


WORKFLOW = """
NodeCreated      | enters | -       | - | -
ChildNodeSucceed | -      | counts  | - | -
ChildNodeFailed  | -      | counts  | - | -
NodeAborted      | fails  | stops   | - | -
NodeFault        | fails  | breaks  | - | -
EngineResumed    | begins | hears   | - | -
"""
WORKFLOW_CELLS = {
    "enters": {"": situation("made top; Running; top told NodeCreated")},
    "begins": {"": situation("itself told NodeCreated")},
    "fails": {"": situation("Failed")},
    "stops": {"": situation("top told NodeAborted", ON), "its entry is over": situation("-", DONE)},
    "breaks": {
        "": situation("top told NodeFailedElsewhere", ON),
        "its entry is over": situation("Failed", DONE),
        "an exit handler is left": situation(
            "made bye; Running; bye told NodeCreated", DONE, exit="bye"
        ),
        "its exit handler is on": situation("-", DONE, ON, exit="bye"),
        "its exit handler is over": situation("Failed", DONE, DONE, exit="bye"),
    },
    "counts": {
        "": situation("Succeed", DONE),
        "its entry has failed": situation("Failed", BAD),
        "aborted": situation("Failed", DONE, aborted=True),
        "an exit handler is left": situation(
            "made bye; Running; bye told NodeCreated", BAD, exit="bye"
        ),
        "its exit handler is on": situation("-", DONE, ON, exit="bye"),
        "its exit handler is over": situation("Succeed", DONE, DONE, exit="bye"),
        "its exit handler has failed": situation("Failed", DONE, BAD, exit="bye"),
        "its entry had failed": situation("Failed", BAD, DONE, exit="bye"),
    },
    "hears": {
        "its entry is on": situation("-", ON),
        "its entry is over": situation("itself told ChildNodeSucceed", DONE),
        "its entry has failed": situation("itself told ChildNodeFailed", BAD),
        "it was aborted": situation("top told NodeAborted", ON, aborted=True),
        "its exit handler runs after an abort": situation(
            "itself told ChildNodeFailed", BAD, ON, exit="bye", aborted=True
        ),
    },
}
