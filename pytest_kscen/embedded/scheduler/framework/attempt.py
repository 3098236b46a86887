"""Record of one scheduling attempt, its consumer, and the state that plugins share in it.

Attempts are recorded only if the scheduler has a sink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj


PASSED, SUCCESS, WAITING = "passed", "success", "wait"
NO_REASON = "left out without a reason"


@dataclass(slots=True)
class Attempt:
    """Results of all plugins in one attempt, for reports and annotations. Statuses are `success` or
    the message; scores are numbers by node and plugin.
    """

    pod: Obj
    scheduler: str
    number: int
    """Number of the attempt, 1 for the pod's first."""
    at: float
    pre_filter_status: dict[str, str] = field(default_factory=dict)
    pre_filter: dict[str, list[str]] = field(default_factory=dict)
    """Nodes to which a plugin has restricted the search, by plugin."""
    filter: dict[str, dict[str, str]] = field(default_factory=dict)
    post_filter: dict[str, dict[str, str]] = field(default_factory=dict)
    """Results by node; the nominated node names the plugin that chose it."""
    pre_score: dict[str, str] = field(default_factory=dict)
    score: dict[str, dict[str, int]] = field(default_factory=dict)
    final_score: dict[str, dict[str, int]] = field(default_factory=dict)
    """Normalized scores times the plugin's weight."""
    reserve: dict[str, str] = field(default_factory=dict)
    permit: dict[str, str] = field(default_factory=dict)
    permit_timeout: dict[str, float] = field(default_factory=dict)
    pre_bind: dict[str, str] = field(default_factory=dict)
    bind: dict[str, str] = field(default_factory=dict)
    extenders: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Decoded responses by verb (filter, prioritize, preempt, bind) and extender."""
    selected: str = ""
    nominated: str = ""
    bound: bool = False
    message: str = ""
    """Reason why the pod was not bound."""

    def record_filter(
        self, extender: str, requested: Iterable[str], kept: Container[str], why: Mapping[str, str]
    ) -> None:
        """Add an extender's filter results to the plugins' results. `requested` are the nodes sent
        to it, `kept` the returned nodes, `why` its reasons by node.
        """
        for node in requested:
            verdict = PASSED if node in kept else why.get(node) or NO_REASON
            self.filter[node] = {**self.filter.get(node, {}), extender: verdict}

    def record_scores(self, extender: str, scores: Mapping[str, int], weight: int) -> None:
        """Add an extender's scores to the plugins' scores, for nodes that were scored; others are
        ignored.
        """
        for node in self.final_score.keys() & scores:
            self.score[node][extender] = scores[node]
            self.final_score[node][extender] = weight * scores[node]


class Sink(Protocol):
    """Consumer of finished attempts, bound or not. The scheduling cycle awaits `record`, so a slow
    sink delays the next pod.
    """

    async def record(self, attempt: Attempt) -> None: ...


class CycleState(dict[str, Any]):
    """Data of one attempt by plugin name: written in pre_filter or pre_score, read by the methods
    that follow. `attempt` is None unless results are recorded.
    """

    __slots__ = ("attempt", "skip_filter", "skip_score")

    def __init__(self, attempt: Attempt | None = None) -> None:
        super().__init__()
        self.attempt = attempt
        """Record of the attempt, if results are recorded."""
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        """Return a copy for trying other pods on a node. Values with a `clone` method are cloned,
        others are shared and must not be changed by add_pod and remove_pod.
        """
        other = CycleState()
        for name, value in self.items():
            other[name] = value.clone() if hasattr(value, "clone") else value
        other.skip_filter, other.skip_score = self.skip_filter, self.skip_score
        return other
