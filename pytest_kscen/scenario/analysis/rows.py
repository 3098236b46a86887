"""A result as tables of flat rows, which pandas or a spreadsheet reads as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.replay import name_of, steps, target_of
from pytest_kscen.scenario.analysis.series import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.scenario.analysis.attempts import Attempt
    from pytest_kscen.scenario.analysis.lives import Life
    from pytest_kscen.scenario.analysis.rendering import Row
    from pytest_kscen.scenario.analysis.result import Result
    from pytest_kscen.scenario.models import TimelineEvent


def events(result: Result) -> Iterator[Row]:
    """Each event of the timeline."""
    for event in result.timeline:
        kind, what, node = _told(event)
        step = {"step": event.step.major, "minor": event.step.minor}
        yield {**step, "id": event.id, "controller": event.controller or "", "event": kind, "object": what, "node": node}


def _told(event: TimelineEvent) -> tuple[str, str, str]:
    """The event's kind, what it is about, and on which node."""
    for kind, made in (("create", event.create), ("patch", event.patch)):
        if made and made.result:
            metadata = made.result["metadata"]
            return kind, "/".join(filter(None, (made.result["kind"], metadata.get("namespace"), metadata["name"]))), ""
    if event.delete:
        metadata = event.delete.operation["objectMeta"]
        kind = target_of(event.delete.operation)[0]
        return "delete", "/".join(filter(None, (kind, metadata.get("namespace"), metadata["name"]))), ""
    if event.pod_scheduled:
        return "podScheduled", "/".join(("Pod", *name_of(event.pod_scheduled.pod))), event.pod_scheduled.bound_to
    if event.pod_unscheduled:
        return "podUnscheduled", "/".join(("Pod", *name_of(event.pod_unscheduled.pod))), event.pod_unscheduled.bound_to
    if event.pod_attempted:
        chosen = (event.pod_attempted.results or {}).get("selected-node") or ""
        return "podAttempted", "/".join(("Pod", *name_of(event.pod_attempted.pod))), str(chosen)
    return "done", "", ""


def pods(result: Result) -> Iterator[Row]:
    """Each pod's life."""
    for life in result.pods:
        yield {
            **_pod(life),
            "state": life.state,
            "node": life.node,
            "priority": life.priority,
            "created": life.created.major,
            "scheduled": life.scheduled.major if life.scheduled else None,
            "scheduled_minor": life.scheduled.minor if life.scheduled else None,
            "gone": life.gone.major if life.gone else None,
            "waited": None if life.is_given else life.major_steps,
            "waited_minor": None if life.is_given else life.minor_steps,
            "attempts": len(life.attempts),
            "why": life.why_not,
        }


def _pod(life: Life) -> Row:
    return {"namespace": life.namespace, "pod": life.name, "number": life.number}


def attempts(result: Result) -> Iterator[Row]:
    """Each attempt to place a pod."""
    for life, attempt in _attempts(result):
        filtered, kept = len(attempt.filters), len(attempt.feasible)
        best = next(iter(attempt.totals.values()), None)
        yield {
            **_attempt(life, attempt),
            "node": attempt.node,
            "nominated": attempt.nominated,
            "nodes_filtered": filtered,
            "nodes_feasible": kept,
            "best_score": best,
            "why": attempt.why_not,
        }


def filters(result: Result) -> Iterator[Row]:
    """What each plugin said of each node."""
    for life, attempt in _attempts(result):
        for node, by in attempt.filters.items():
            for plugin, verdict in by.items():
                yield {**_attempt(life, attempt), "node": node, "plugin": plugin, "verdict": verdict}


def scores(result: Result) -> Iterator[Row]:
    """What each plugin gave to each node, and what became of it: normalised, times the weight."""
    for life, attempt in _attempts(result):
        raw = attempt.scores
        for node, by in attempt.final_scores.items():
            for plugin, final in by.items():
                score = raw.get(node, {}).get(plugin)
                is_chosen = int(node == attempt.node)
                yield {
                    **_attempt(life, attempt),
                    "node": node,
                    "plugin": plugin,
                    "score": score,
                    "final_score": final,
                    "chosen": is_chosen,
                }


def _attempts(result: Result) -> Iterator[tuple[Life, Attempt]]:
    for life in result.pods:
        for attempt in life.attempts:
            yield life, attempt


def _attempt(life: Life, attempt: Attempt) -> Row:
    return {**_pod(life), "attempt": attempt.number, "step": attempt.step.major, "minor": attempt.step.minor}


def by_step(result: Result) -> Iterator[Row]:
    """The cluster at the end of each major step."""
    counted = [(step, len(scene.nodes), len(scene.pods), len(scene.pending)) for step, scene in steps(result.timeline)]
    numbers = [step for step, *_ in counted]
    columns: dict[str, list[float | None]] = {}
    for resource in result.resources:
        columns[f"allocation_{resource}"] = filled(result.allocation(resource), numbers)
        columns[f"imbalance_{resource}"] = filled(result.imbalance(resource), numbers)
        columns[f"range_{resource}"] = filled(result.spread(resource).range, numbers)
        columns[f"fragmentation_{resource}"] = filled(result.fragmentation(resource), numbers)
        columns[f"stranded_{resource}"] = filled(result.fragmentation(resource, pending=True), numbers)
    for place, (step, nodes, pods, pending) in enumerate(counted):
        values = {name: column[place] for name, column in columns.items()}
        yield {"step": step, "nodes": nodes, "pods": pods, "pending": pending, **values}


def utilisation(result: Result) -> Iterator[Row]:
    """Each node at each step in which it changed."""
    for resource in result.resources:
        for node, series in result.utilisation(resource).items():
            for step, value in series.by_step.items():
                yield {"node": node, "resource": resource, "step": step, "utilisation": value}
            if series.ended is not None:
                yield {"node": node, "resource": resource, "step": series.ended, "utilisation": None}


def preemptions(result: Result) -> Iterator[Row]:
    """Each pod that had to go."""
    for each in result.preemptions:
        where = {"namespace": each.namespace, "pod": each.pod, "node": each.node}
        yield {**where, "step": each.step.major, "minor": each.step.minor, "by": each.by, "evidence": each.evidence}


TABLES: dict[str, Callable[[Result], Iterator[Row]]] = {
    "events": events,
    "pods": pods,
    "attempts": attempts,
    "filters": filters,
    "scores": scores,
    "steps": by_step,
    "utilisation": utilisation,
    "preemptions": preemptions,
}
