"""The life of each pod in a scenario: scheduling attempts, placement, preemption, deletion."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.scenarios import HISTORY, RESULTS, parsed, results_of
from pytest_kscen.scenario.analysis.replay import name_of, scenes, target_of
from pytest_kscen.scenario.models import ScenarioStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.replay import Name
    from pytest_kscen.scenario.models import PodUnscheduled, TimelineEvent


BEFORE = ScenarioStep()
PASSED_VERDICTS = ("", "success", "wait", "passed")

Verdicts = dict[str, dict[str, str]]
"""Results of plugins, by node and plugin."""
Scores = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class PodAttempt:
    """Attempt of the scheduler to place one pod, with the results of each plugin.

    Results have the shape of kube-scheduler-simulator's annotations, by name without the prefix.
    """

    namespace: str
    pod: str
    number: int
    """Number of the attempt, 1 for the pod's first."""
    step: ScenarioStep = BEFORE
    results: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""

    @property
    def node(self) -> str:
        return str(self.results.get("selected-node") or "")

    @property
    def filters(self) -> Verdicts:
        return self._of("filter-result")

    @property
    def rejected(self) -> dict[str, tuple[str, str]]:
        """Return the nodes that were filtered out, each with the plugin that refused it and the
        plugin's reason.
        """
        found = {}
        for node, by in self.filters.items():
            for plugin, verdict in by.items():
                if verdict not in PASSED_VERDICTS:
                    found[node] = plugin, verdict
                    break
        return found

    @property
    def feasible(self) -> list[str]:
        return [node for node in self.filters if node not in self.rejected]

    @property
    def scores(self) -> Scores:
        return _numbers(self._of("score-result"))

    @property
    def final_scores(self) -> Scores:
        return _numbers(self._of("finalscore-result"))

    @property
    def totals(self) -> dict[str, int]:
        """Return the sum of the final scores by node, the best node first; equal ones are ordered
        by name.
        """
        sums = {node: sum(by.values()) for node, by in self.final_scores.items()}
        return dict(sorted(sums.items(), key=lambda each: (-each[1], each[0])))

    @property
    def nominated(self) -> str:
        return next((node for node, by in self._of("postfilter-result").items() if by), "")

    @property
    def why_not(self) -> str:
        """Return the reason why no node was chosen: the scheduler's message, the first failed
        plugin, or the counted refusals of nodes. Empty if a node was chosen.
        """
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
                if verdict not in PASSED_VERDICTS and not isinstance(verdict, dict):
                    return f"{plugin}: {verdict}"
        counted = Counter(reason for _, reason in self.rejected.values())
        reasons = sorted(f"{count} {reason}" for reason, count in counted.items())
        return (
            f"0/{len(self.filters)} nodes are available: {', '.join(reasons)}." if reasons else ""
        )

    def _of(self, name: str) -> dict[str, Any]:
        found = self.results.get(name)
        return found if isinstance(found, dict) else {}


def attempts_of(pod: Obj) -> list[PodAttempt]:
    """Return the attempts that a pod's annotations contain, oldest first; the pod may come from
    any cluster.
    """
    metadata = pod["metadata"]
    annotations = results_of(pod)
    history = parsed(annotations.pop(HISTORY, "[]"))
    history = [
        {key.removeprefix(RESULTS): value for key, value in each.items()} for each in history or ()
    ]
    if annotations and (not history or history[-1] != annotations):
        history.append(annotations)
    name = metadata.get("namespace") or "default", metadata["name"]
    results = [{key: parsed(value) for key, value in each.items()} for each in history]
    return [PodAttempt(*name, number, results=each) for number, each in enumerate(results, 1)]


def _numbers(scores: Verdicts) -> Scores:
    return {
        node: {plugin: int(score) for plugin, score in by.items()} for node, by in scores.items()
    }


PLACED, PENDING, DELETED, PREEMPTED = "placed", "pending", "deleted", "preempted"


@dataclass(eq=False, slots=True)
class PodHistory:
    """History of one pod, from its creation to its deletion or the end of the scenario. A pod that
    is created again under its name has another history, with the next number.
    """

    namespace: str
    name: str
    number: int
    """Number of the pod among pods of its name, from 1."""
    created: ScenarioStep
    origin: str = ""
    """Controller, or generateName, of a pod with a generated name."""
    priority: int = 0
    node: str = ""
    is_given: bool = False
    """Pod that was created with its node, and was never scheduled."""
    scheduled: ScenarioStep | None = None
    gone: ScenarioStep | None = None
    is_preempted: bool = False
    attempts: list[PodAttempt] = field(default_factory=list)
    major_steps: int = 0
    """Steps that it waited for a node: until it got one, was deleted, or the scenario ended."""
    minor_steps: int = 0

    @property
    def state(self) -> str:
        if self.gone:
            return PREEMPTED if self.is_preempted else DELETED
        return PLACED if self.node else PENDING

    @property
    def is_pending(self) -> bool:
        return self.state == PENDING

    @property
    def why_not(self) -> str:
        return self.attempts[-1].why_not if self.attempts and not self.node else ""


class _PodHistories:
    def __init__(self) -> None:
        self.all: list[PodHistory] = []
        self._now: dict[Name, PodHistory] = {}
        self._numbers: dict[Name, int] = {}

    def observe(self, event: TimelineEvent) -> None:
        made, step = event.create or event.patch, event.step
        if made and made.result and made.result.get("kind") == "Pod":
            self._record_pod(made.result, step, is_new=event.create is not None)
        elif event.delete:
            kind, name = target_of(event.delete.operation)
            if kind == "Pod" and (history := self._now.pop(name, None)):
                history.gone = step
        elif event.pod_scheduled:
            history = self._of(name_of(event.pod_scheduled.pod), step)
            history.node, history.scheduled = event.pod_scheduled.bound_to, step
        elif event.pod_unscheduled:
            name = name_of(event.pod_unscheduled.pod)
            history = self._of(name, step)
            history.node, history.gone = history.node or event.pod_unscheduled.bound_to, step
            history.is_preempted = True
            del self._now[name]
        elif event.pod_attempted:
            what = event.pod_attempted
            history = self._of(name_of(what.pod), step)
            number, results, message = len(history.attempts) + 1, what.results, what.message
            history.attempts.append(
                PodAttempt(
                    history.namespace, history.name, number, step, results or {}, message or ""
                )
            )

    def _record_pod(self, pod: Obj, step: ScenarioStep, *, is_new: bool) -> None:
        metadata = pod["metadata"]
        name = metadata.get("namespace") or "default", metadata["name"]
        if not is_new and (name in self._now or metadata.get("deletionTimestamp")):
            return
        history = self._begin(name, step)
        owners = [
            f"{each['kind']} {each['name']}"
            for each in metadata.get("ownerReferences") or ()
            if each.get("controller")
        ]
        history.origin = next(iter(owners), metadata.get("generateName") or "")
        history.priority = pod["spec"].get("priority") or 0
        history.node = pod["spec"].get("nodeName") or ""
        history.is_given = bool(history.node)

    def _begin(self, name: Name, step: ScenarioStep) -> PodHistory:
        if name in self._now:
            self._now[name].gone = step
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        history = self._now[name] = PodHistory(*name, number, step)
        self.all.append(history)
        return history

    def _of(self, name: Name, step: ScenarioStep) -> PodHistory:
        """Return the pod's life; one without a creation event begins at its first event."""
        return self._now.get(name) or self._begin(name, step)


def pod_histories(events: Iterable[TimelineEvent]) -> list[PodHistory]:
    """Return the lives of all pods, in the order in which they began."""
    found, lasted = _PodHistories(), _Minors()
    for event in events:
        found.observe(event)
        lasted.observe(event.step)
    for history in found.all:
        if not history.is_given:
            end = history.scheduled or history.gone or lasted.last
            history.major_steps = end.major - history.created.major
            history.minor_steps = lasted.between(history.created, end)
    return found.all


class _Minors:
    """Number of minor steps of each major step, as far as events show, to measure how long pods
    waited.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self.last: ScenarioStep

    def observe(self, step: ScenarioStep) -> None:
        self._most[step.major] = max(self._most.get(step.major, 0), step.minor)
        self.last = step

    def between(self, one: ScenarioStep, other: ScenarioStep) -> int:
        if one.major == other.major:
            return other.minor - one.minor
        sums = accumulate(self._most.values(), initial=0)
        before = dict(zip(self._most, sums, strict=False))
        return before[other.major] + other.minor - before[one.major] - one.minor


REPORTED, NOMINATED, FOLLOWED = "reported", "nominated", "followed"


@dataclass(frozen=True, slots=True)
class Preemption:
    """Preemption of one pod: the node it lost, the step, and the pod that caused it, with the
    evidence by which that pod was found.
    """

    namespace: str
    pod: str
    node: str
    """Node that it lost."""
    step: ScenarioStep
    by: str
    """Pod that took its place, as namespace/name; empty if unknown."""
    evidence: str
    """Source of that: reported, nominated, followed; empty if unknown."""


def preemptions(events: Iterable[TimelineEvent]) -> list[Preemption]:
    """Return the preemptions in order of time, with the pod for which each was made.

    That pod is named by the timeline itself, else by the results of an attempt in the same major
    step, else it is the next pod of a higher priority on that node in the step. It stays empty if
    none of these is found.
    """
    found: list[Preemption] = []
    for within in _preemption_steps(events):
        step_evidence = _PreemptionEvidence(within)
        for position, (event, _) in enumerate(within):
            if what := event.pod_unscheduled:
                found.append(
                    Preemption(
                        *name_of(what.pod),
                        what.bound_to,
                        event.step,
                        *step_evidence.preemptor_of(what, position),
                    )
                )
    return found


TimedEvents = list[tuple["TimelineEvent", int]]
"""Events, each with the priority of the pod that it is about, as it was before the event."""


def _preemption_steps(events: Iterable[TimelineEvent]) -> Iterable[TimedEvents]:
    """Yield the events of each major step in which pods were scheduled, preempted or attempted,
    each with the priority that its pod had before.
    """
    within: TimedEvents = []
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


class _PreemptionEvidence:
    """Events of one major step that show for which pod another was preempted: nominations by
    attempts, and pods that arrived on the node afterwards.
    """

    def __init__(self, timed: Sequence[tuple[TimelineEvent, int]]) -> None:
        self._events = timed
        self._nominations: dict[str, list[tuple[int, str]]] = {}
        self._arrivals: dict[str, list[tuple[int, str]]] = {}
        for position, (event, _) in enumerate(timed):
            if event.pod_attempted:
                results = (event.pod_attempted.results or {}).get("postfilter-result") or {}
                for node in (node for node, by in results.items() if by):
                    self._nominations.setdefault(node, []).append(
                        (position, "/".join(name_of(event.pod_attempted.pod)))
                    )
            elif event.pod_scheduled:
                arrival = position, "/".join(name_of(event.pod_scheduled.pod))
                self._arrivals.setdefault(event.pod_scheduled.bound_to, []).append(arrival)

    def preemptor_of(self, what: PodUnscheduled, position: int) -> tuple[str, str]:
        if what.preempted_by:
            return what.preempted_by, REPORTED
        nominations = self._nominations.get(what.bound_to)
        if nominations:
            return min(nominations, key=lambda each: abs(each[0] - position))[1], NOMINATED
        priority = self._events[position][1]
        preemptors = (
            preemptor
            for when, preemptor in self._arrivals.get(what.bound_to, ())
            if when > position and self._events[when][1] > priority
        )
        by = next(preemptors, "")
        return by, FOLLOWED if by else ""
