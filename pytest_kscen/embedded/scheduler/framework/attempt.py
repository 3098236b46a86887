"""One attempt to place one pod, told whole; and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj


PASSED, SUCCESS, WAITING = "passed", "success", "wait"
LEFT_OUT = "left out without a reason"


@dataclass(slots=True)
class Attempt:
    """What every plugin said.

    Statuses are `success` or the message; scores are numbers by node and plugin.
    """

    pod: Obj
    scheduler: str
    number: int
    """1 for the pod's first attempt."""
    at: float
    pre_filter_status: dict[str, str] = field(default_factory=dict)
    pre_filter: dict[str, list[str]] = field(default_factory=dict)
    """The nodes to which a plugin has narrowed the search."""
    filter: dict[str, dict[str, str]] = field(default_factory=dict)
    post_filter: dict[str, dict[str, str]] = field(default_factory=dict)
    """By node; the plugin that chose the node to send pods away from says so."""
    pre_score: dict[str, str] = field(default_factory=dict)
    score: dict[str, dict[str, int]] = field(default_factory=dict)
    final_score: dict[str, dict[str, int]] = field(default_factory=dict)
    """Normalised, times the weight."""
    reserve: dict[str, str] = field(default_factory=dict)
    permit: dict[str, str] = field(default_factory=dict)
    permit_timeout: dict[str, float] = field(default_factory=dict)
    pre_bind: dict[str, str] = field(default_factory=dict)
    bind: dict[str, str] = field(default_factory=dict)
    extenders: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Raw answers, by what was asked (filter, prioritize, preempt, bind) and the extender's
    name.
    """
    selected: str = ""
    nominated: str = ""
    bound: bool = False
    message: str = ""
    """Why the pod is not bound."""

    def was_filtered(
        self, extender: str, asked: Iterable[str], kept: Container[str], why: Mapping[str, str]
    ) -> None:
        """What an extender says of nodes, beside what plugins say."""
        for node in asked:
            verdict = PASSED if node in kept else why.get(node) or LEFT_OUT
            self.filter[node] = {**self.filter.get(node, {}), extender: verdict}

    def was_scored(self, extender: str, scores: Mapping[str, int], weight: int) -> None:
        """The same of how good they are; nodes that nobody has asked about do not count."""
        for node in self.final_score.keys() & scores:
            self.score[node][extender] = scores[node]
            self.final_score[node][extender] = weight * scores[node]


class Sink(Protocol):
    """Who is told of every attempt when it is over: bound, or given up."""

    async def record(self, attempt: Attempt) -> None: ...


# What is known in one attempt to place one pod: a dictionary in which each plugin keeps its own
# under its name.


class CycleState(dict[str, Any]):
    """A plugin writes in pre_filter or pre_score and reads in what follows."""

    __slots__ = ("attempt", "skip_filter", "skip_score")

    def __init__(self, attempt: Attempt | None = None) -> None:
        super().__init__()
        self.attempt = attempt
        """Where results are recorded, if they are."""
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        """A copy to try pods on: what has a `clone` method is cloned, the rest is shared."""
        other = CycleState()
        for name, value in self.items():
            other[name] = value.clone() if hasattr(value, "clone") else value
        other.skip_filter, other.skip_score = self.skip_filter, self.skip_score
        return other
