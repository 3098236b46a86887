"""What the scheduler told of its attempts to place a pod: who filtered which node, why, who scored what, what was chosen.

Results have the shape that kube-scheduler-simulator's users know: by the annotation's name without its prefix.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.scenarios import HISTORY, RESULTS, parsed, results_of
from pytest_kscen.scenario.models import ScenarioStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj

BEFORE = ScenarioStep()
GOOD = ("", "success", "wait", "passed")

Verdicts = dict[str, dict[str, str]]
"""By node and plugin."""
Scores = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One."""

    namespace: str
    pod: str
    number: int
    """1 for the pod's first."""
    step: ScenarioStep = BEFORE
    results: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""

    @property
    def node(self) -> str:
        """The one that was chosen; empty if none was."""
        return str(self.results.get("selected-node") or "")

    @property
    def filters(self) -> Verdicts:
        """What each plugin said of each node: `passed`, or why not."""
        return self._of("filter-result")

    @property
    def rejected(self) -> dict[str, tuple[str, str]]:
        """The nodes that were filtered out, each with the plugin that did it and its reason."""
        found = {}
        for node, by in self.filters.items():
            for plugin, verdict in by.items():
                if verdict not in GOOD:
                    found[node] = plugin, verdict
                    break
        return found

    @property
    def feasible(self) -> list[str]:
        """The nodes that passed all filters."""
        return [node for node in self.filters if node not in self.rejected]

    @property
    def scores(self) -> Scores:
        """As the plugins gave them."""
        return _numbers(self._of("score-result"))

    @property
    def final_scores(self) -> Scores:
        """Normalised, times the weight."""
        return _numbers(self._of("finalscore-result"))

    @property
    def totals(self) -> dict[str, int]:
        """The sum of its final scores for each node, the best first."""
        sums = {node: sum(by.values()) for node, by in self.final_scores.items()}
        return dict(sorted(sums.items(), key=lambda each: (-each[1], each[0])))

    @property
    def nominated(self) -> str:
        """The node from which pods are sent away for this one."""
        return next((node for node, by in self._of("postfilter-result").items() if by), "")

    @property
    def why_not(self) -> str:
        """Why there was no place; empty if there was one."""
        if self.message or self.node:
            return self.message
        for point in (
            "prefilter-result-status",
            "prescore-result",
            "reserve-result",
            "permit-result",
            "prebind-result",
            "bind-result",
        ):
            for plugin, verdict in self._of(point).items():
                if verdict not in GOOD and not isinstance(verdict, dict):
                    return f"{plugin}: {verdict}"
        counted = Counter(reason for _, reason in self.rejected.values())
        reasons = sorted(f"{count} {reason}" for reason, count in counted.items())
        return f"0/{len(self.filters)} nodes are available: {', '.join(reasons)}." if reasons else ""

    def _of(self, name: str) -> dict[str, Any]:
        found = self.results.get(name)
        return found if isinstance(found, dict) else {}


def attempts_of(pod: Obj) -> list[Attempt]:
    """All that a pod's own annotations tell of, the history first: for a pod that was read from any cluster."""
    metadata = pod["metadata"]
    annotations = results_of(pod)
    told = parsed(annotations.pop(HISTORY, "[]"))
    told = [{key.removeprefix(RESULTS): value for key, value in each.items()} for each in told or ()]
    if annotations and (not told or told[-1] != annotations):
        told.append(annotations)
    name = metadata.get("namespace") or "default", metadata["name"]
    results = [{key: parsed(value) for key, value in each.items()} for each in told]
    return [Attempt(*name, number, results=each) for number, each in enumerate(results, 1)]


def _numbers(scores: Verdicts) -> Scores:
    return {node: {plugin: int(score) for plugin, score in by.items()} for node, by in scores.items()}
