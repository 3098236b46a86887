"""Who had to leave its node for whom.

A timeline that names the one who came says it itself. Otherwise the results of attempts do: the pod for which a plugin
chose this node to send pods away from, in the same major step. Where there are none, as with a scheduler that writes no
results, it is the next pod of a higher priority that gets the node in that step. Who cannot be found is not named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.replay import name_of, scenes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.scenario.analysis.replay import Name
    from pytest_kscen.scenario.models import PodUnscheduled, ScenarioStep, TimelineEvent

TOLD, NOMINATED, FOLLOWED = "told", "nominated", "followed"


@dataclass(frozen=True, slots=True)
class Preemption:
    """One pod's."""

    namespace: str
    pod: str
    node: str
    """Where it was."""
    step: ScenarioStep
    by: str
    """The pod that came, as namespace/name; empty if nobody knows."""
    evidence: str
    """How that is known: told, nominated, followed; empty if it is not."""


def preemptions(events: Iterable[TimelineEvent]) -> list[Preemption]:
    """In the order in which they happened."""
    found: list[Preemption] = []
    for within in _by_step(events):
        clues = _Clues(within)
        for place, (event, _) in enumerate(within):
            if what := event.pod_unscheduled:
                found.append(Preemption(*name_of(what.pod), what.bound_to, event.step, *clues.who(what, place)))
    return found


Told = list[tuple["TimelineEvent", int]]
"""Events, each with the priority of the pod that it is about, as it was before the event."""


def _by_step(events: Iterable[TimelineEvent]) -> Iterable[Told]:
    """The major steps that have preemptions."""
    within: Told = []
    priorities: dict[Name, int] = {}
    for event, scene in scenes(events):
        if within and within[0][0].step.major != event.step.major:
            yield within
            within = []
        made = event.create or event.patch
        if made and made.result and made.result.get("kind") == "Pod":
            metadata = made.result["metadata"]
            name = metadata.get("namespace") or "default", metadata["name"]
            priorities[name] = (scene.pods.get(name) or made.result)["spec"].get("priority") or 0
        elif subject := event.pod_scheduled or event.pod_unscheduled or event.pod_attempted:
            within.append((event, priorities.get(name_of(subject.pod), 0)))
    if within:
        yield within


class _Clues:
    """What one major step tells of who came."""

    def __init__(self, told: Sequence[tuple[TimelineEvent, int]]) -> None:
        self._told = told
        self._nominations: dict[str, list[tuple[int, str]]] = {}
        self._arrivals: dict[str, list[tuple[int, str]]] = {}
        for place, (event, _) in enumerate(told):
            if event.pod_attempted:
                results = (event.pod_attempted.results or {}).get("postfilter-result") or {}
                for node in (node for node, by in results.items() if by):
                    self._nominations.setdefault(node, []).append((place, "/".join(name_of(event.pod_attempted.pod))))
            elif event.pod_scheduled:
                arrival = place, "/".join(name_of(event.pod_scheduled.pod))
                self._arrivals.setdefault(event.pod_scheduled.bound_to, []).append(arrival)

    def who(self, what: PodUnscheduled, place: int) -> tuple[str, str]:
        if what.preempted_by:
            return what.preempted_by, TOLD
        nominations = self._nominations.get(what.bound_to)
        if nominations:
            return min(nominations, key=lambda each: abs(each[0] - place))[1], NOMINATED
        priority = self._told[place][1]
        later = (who for when, who in self._arrivals.get(what.bound_to, ()) if when > place and self._told[when][1] > priority)
        by = next(later, "")
        return by, FOLLOWED if by else ""
