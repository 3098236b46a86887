"""What may happen to a node, in the design document's words, and what the document leaves open in the same style."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """A probe has held, or failed, for good: that is to be remembered, and nothing else comes of it."""
    WAITS = "NodeTaskPodWaits"
    """What its pod waits for has changed, or nothing keeps it any longer: that is told, and nothing else comes of it."""
    UNWRITTEN = "NodeStatusUnwritten"
    """What the API has not taken of the workflow's statuses is offered again."""
    RESUMED = "EngineResumed"
    """The engine has come back, and knows what the API says of the node."""


ENDINGS = (Happening.DEADLINE, Happening.PARENT_DEADLINE, Happening.ABORTED, Happening.FAILED_ELSEWHERE, Happening.FAULT)
"""What ends a node before it is done."""
BY_TIME = (Happening.DEADLINE, Happening.PARENT_DEADLINE)
GRAVITY = (*ENDINGS, Happening.NOT_CLEANED)
"""Why a node is not what it was to be, the gravest last."""
ONWARD = (Happening.CREATED, Happening.PICK, Happening.CHILD_SUCCEED, Happening.EVALUATED, Happening.RESUMED)
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
    """The node's turn that this was promised in: it is out of date if there was another since. Always valid below zero."""
    about: str = ""
    """The name of the object that has changed, if one has: only that of the node's present attempt counts."""
