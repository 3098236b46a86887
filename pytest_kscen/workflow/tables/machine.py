"""Building blocks of the state machines: events, phases, guards, actions, and the table that
maps event and phase to actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class Impossible(Exception):
    """What a node needs cannot be done; the words say why."""


class Happening(StrEnum):
    """The rows of the state machines."""

    CREATED = "NodeCreated"
    PICK = "NodePickChildToSchedule"
    CHILD_SUCCEED = "ChildNodeSucceed"
    CHILD_FAILED = "ChildNodeFailed"
    AWAKE = "NodeHoldingAwake"
    INJECTED = "NodeChaosInjected"
    NOT_INJECTED = "NodeChaosNotInjected"
    CLEANED = "NodeChaosCleaned"
    """The API has been asked, and has it no more."""
    OUT_OF_SIGHT = "NodeChaosOutOfSight"
    """It is gone, or only its labels are."""
    NOT_CLEANED = "NodeChaosNotCleaned"
    NOT_REMOVED = "NodeChaosNotRemoved"
    """Its removal was refused."""
    CLEAN_AGAIN = "NodeChaosCleanAgain"
    POD_ENDED = "NodeTaskPodEnded"
    EVALUATED = "NodeBranchesEvaluated"
    CHECK_HELD = "NodeStatusCheckHeld"
    CHECK_FAILED = "NodeStatusCheckFailed"
    DEADLINE = "NodeDeadlineExceed"
    PARENT_DEADLINE = "ParentNodeDeadlineExceed"
    ABORTED = "NodeAborted"
    FAILED_ELSEWHERE = "NodeFailedElsewhere"
    FAULT = "NodeFault"
    """Something that it needs could not be done; the message says what."""
    JUDGED = "NodeProbeJudged"
    """A probe has held, or failed, for good: that is to be remembered, and nothing else comes of
    it.
    """
    WAITS = "NodeTaskPodWaits"
    """What its pod waits for has changed, or nothing keeps it any longer: that is told, and
    nothing else comes of it.
    """
    UNWRITTEN = "NodeStatusUnwritten"
    """What the API has not taken of the workflow's statuses is offered again."""
    RESUMED = "EngineResumed"
    """The engine has come back, and knows what the API says of the node."""


ENDINGS = (
    Happening.DEADLINE,
    Happening.PARENT_DEADLINE,
    Happening.ABORTED,
    Happening.FAILED_ELSEWHERE,
    Happening.FAULT,
)
"""What ends a node before it is done."""
BY_TIME = (Happening.DEADLINE, Happening.PARENT_DEADLINE)
GRAVITY = (*ENDINGS, Happening.NOT_CLEANED)
"""Why a node is not what it was to be, the gravest last."""
ONWARD = (
    Happening.CREATED,
    Happening.PICK,
    Happening.CHILD_SUCCEED,
    Happening.EVALUATED,
    Happening.RESUMED,
)
"""What something new comes of, and is not told before it is written."""
PASSED_ON = {
    Happening.DEADLINE: Happening.PARENT_DEADLINE,
    Happening.PARENT_DEADLINE: Happening.PARENT_DEADLINE,
    Happening.ABORTED: Happening.ABORTED,
    Happening.FAILED_ELSEWHERE: Happening.FAILED_ELSEWHERE,
    Happening.FAULT: Happening.FAILED_ELSEWHERE,
    Happening.NOT_CLEANED: Happening.FAILED_ELSEWHERE,
}
"""What the children of a node are told that is ended by it."""


@dataclass(frozen=True, slots=True)
class Key:
    """A workflow's whereabouts."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Event:
    """Something has happened to a node, or to a workflow itself if there is no node."""

    workflow: Key
    node: str
    happening: Happening
    message: str = ""
    turn: int = -1
    """The node's turn that this was promised in: it is out of date if there was another since.

    Always valid below zero.
    """
    about: str = ""
    """The name of the object that has changed, if one has: only that of the node's present
    attempt counts.
    """


# How a state machine is written down: a row for each event, a cell for each phase, in it what
# is done, in order. A cell may have alternatives: the first whose guard holds is taken. An
# empty cell means that nothing is done.


class Whom(StrEnum):
    """Who is told."""

    SELF = "itself"
    PARENT = "the parent"
    CHILDREN = "the children that are not over"


class Guard(StrEnum):
    """What may hold of a node when something happens to it."""

    ALWAYS = "always"
    HAS_NEXT = "a child is left to be made"
    CHILDREN_OVER = "all children are over"
    IS_ENDING = "it is being ended"
    ENDING_AND_CHILDREN_OVER = "it is being ended, and all children are over"
    IS_CLEANING = "what it has made is being removed"
    CLEANING_AND_ENDING = "what it has made is being removed, because it is being ended"
    POD_COUNTS = "its pod's end has not been looked at"
    MADE = "what it is about has been made"
    ABORTS = "it takes the workflow with it"
    EXIT_LEFT = "the exit handler is left to be run"
    EXIT_BEGUN = "the exit handler has begun"
    ENTRY_ENDING = "it is being ended, and its exit handler has not begun"


class Act(StrEnum):
    """What is done to the world, and to the node besides its phase."""

    MAKE_CHILDREN = "create the children that come next"
    MAKE_EXIT = "create the exit handler's node"
    HEAR_CHILDREN = "take in which children are over"
    CREATE_CHAOS = "create the resource"
    DELETE_CHAOS = "remove the resource"
    SEE_CHAOS_GONE = "see that the resource is gone, and remove it if it is not"
    FIND_CHAOS = "see that the resource is there"
    LEAVE = "go on removing what it has made for as long as it takes"
    RUN_POD = "run the pod"
    FIND_POD = "see that the pod is there"
    END_POD = "end the pod"
    EVALUATE = "evaluate the branches' expressions"
    CREATE_CHECK = "create the status check"
    FIND_CHECK = "see that the status check is there"
    DELETE_CHECK = "remove the status check"
    ABORT_WORKFLOW = "abort the workflow"
    QUOTE = "remember what the status check has said"
    MARK = "remember why it is being ended"


class Result(StrEnum):
    """What a node is when it is over; why it was ended may decide."""

    SUCCEED = "Succeed"
    FAILED = "Failed"
    AS_ENDED = "as what ended it has it, but Failed if one of its children is"
    AS_CHILDREN = "Failed if one of its children is, or if it was being ended"


class Wait(StrEnum):
    """How long until something is told."""

    LENGTH = "its duration"
    DEADLINE = "what is left of its deadline"
    INJECTION = "the time in which chaos is in effect, or has failed"
    CLEANING = "the time in which chaos is gone, or has failed"
    AGAIN = "a while, before what was refused is tried again"
    BACK_OFF = "what is left until its next attempt"


@dataclass(frozen=True, slots=True)
class To:
    phase: str


@dataclass(frozen=True, slots=True)
class Over:
    """The last phase, and the parent is told."""

    result: Result


@dataclass(frozen=True, slots=True)
class Tell:
    whom: Whom
    happening: Happening | None
    """None: what ends the node, as it is passed on."""


@dataclass(frozen=True, slots=True)
class Later:
    """Told to itself after this time."""

    happening: Happening
    wait: Wait


Step: TypeAlias = To | Over | Tell | Later | Act


@dataclass(frozen=True, slots=True)
class Alternative:
    guard: Guard
    steps: tuple[Step, ...]


Cell: TypeAlias = tuple[Alternative, ...]
Row: TypeAlias = "Mapping[str, Cell]"


@dataclass(frozen=True, slots=True)
class Machine:
    """One type's."""

    name: str
    phases: tuple[str, ...]
    rows: Mapping[Happening, Row]

    def cell(self, happening: Happening, phase: str) -> Cell:
        return self.rows.get(happening, {}).get(phase, ())


def do(*steps: Step) -> Cell:
    """A cell without alternatives."""
    return (Alternative(Guard.ALWAYS, steps),)


def if_(guard: Guard, *steps: Step) -> Cell:
    """One alternative; others are added with +."""
    return (Alternative(guard, steps),)


def to(phase: str) -> To:
    return To(phase)


def over(result: Result) -> Over:
    return Over(result)


def tell_itself(happening: Happening) -> Tell:
    return Tell(Whom.SELF, happening)


def tell_children(happening: Happening | None = None) -> Tell:
    return Tell(Whom.CHILDREN, happening)


BEGIN_AGAIN = Later(Happening.CREATED, Wait.BACK_OFF)
"""What an engine does with a node that has not begun, or is to be tried again."""


CLEANED_IN_TIME = Later(Happening.NOT_CLEANED, Wait.CLEANING)
BEING_REMOVED = if_(Guard.IS_CLEANING)
"""Nothing else counts any more."""


def tried_again(remove: Act, *phases: str) -> dict[Happening, Row]:
    """What was refused is: for so long the node is not over.

    If it was in vain, it goes on when the node has failed.
    """
    again = if_(Guard.IS_CLEANING, CLEANED_IN_TIME, Later(Happening.CLEAN_AGAIN, Wait.AGAIN))
    in_vain = if_(Guard.IS_CLEANING, Act.MARK, Act.LEAVE, over(Result.FAILED))
    return {
        Happening.NOT_REMOVED: dict.fromkeys(phases, again),
        Happening.CLEAN_AGAIN: dict.fromkeys(
            phases, if_(Guard.IS_CLEANING, remove, over(Result.AS_ENDED))
        ),
        Happening.NOT_CLEANED: dict.fromkeys(phases, in_vain),
    }


def every(happenings: tuple[Happening, ...], row: Row) -> dict[Happening, Row]:
    """The same row for each of these."""
    return dict.fromkeys(happenings, row)
