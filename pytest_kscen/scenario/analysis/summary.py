"""A whole result in some twenty numbers, each with a name that says what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.scenario.analysis.result import Result

Figures = dict[str, float]


def summary(result: Result) -> Figures:
    """In the order in which people ask."""
    return {**_of_pods(result), **_of_waiting(result), **_of_cluster(result)}


def _of_pods(result: Result) -> Figures:
    pods = result.pods
    attempts = [attempt for life in pods for attempt in life.attempts]
    return {
        "major steps": len(result.timeline.steps),
        "pods": len(pods),
        "pods scheduled": sum(life.scheduled is not None for life in pods),
        "pods pending at the end": sum(life.is_pending for life in pods),
        "attempts": len(attempts),
        "attempts without a place": sum(not attempt.node for attempt in attempts),
        "preemptions": len(result.preemptions),
    }


def _of_waiting(result: Result) -> Figures:
    waited = [life for life in result.pods if not life.is_given]
    major, minor = [life.major_steps for life in waited], [life.minor_steps for life in waited]
    return {
        "waiting, major steps, mean": _mean(major),
        "waiting, major steps, longest": max(major, default=0),
        "waiting, minor steps, mean": _mean(minor),
        "waiting, minor steps, longest": max(minor, default=0),
    }


def _of_cluster(result: Result) -> Figures:
    found: Figures = {}
    for resource in result.resources:
        allocation, imbalance = result.allocation(resource), result.imbalance(resource)
        fragmentation, stranded = result.fragmentation(resource), result.fragmentation(resource, pending=True)
        found |= {
            f"{resource} allocation, mean": allocation.mean,
            f"{resource} allocation, highest": allocation.most,
            f"{resource} allocation, at the end": allocation.last,
            f"{resource} imbalance, mean": imbalance.mean,
            f"{resource} imbalance, at the end": imbalance.last,
            f"{resource} range over nodes, at the end": result.spread(resource).range.last,
            f"{resource} fragmentation, mean": fragmentation.mean,
            f"{resource} fragmentation, at the end": fragmentation.last,
            f"{resource} fragmentation for pending pods, at the end": stranded.last,
        }
    return found


def _mean(values: Iterable[int]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0
