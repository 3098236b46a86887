"""Which of several nodes to make room on: where it does the least harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.preemption.victims import started

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.simulation.scheduler.framework.extending import Victims

LOWEST = 2**31  # added to each priority, so that more victims are never better than fewer


def least_harm(candidates: Mapping[str, Victims], now: str) -> list[str]:
    """The best nodes; more than one only if nothing tells them apart.

    The fewest violated budgets, the lowest highest priority, the lowest sum of priorities, the fewest pods; and at last
    where the oldest of the most important pods has run for the shortest time.
    """
    least = min(map(_harm, candidates.values()))
    equals = [node for node, victims in candidates.items() if _harm(victims) == least]
    youngest = max(_since(candidates[node], now) for node in equals)
    return [node for node in equals if _since(candidates[node], now) == youngest]


def _harm(victims: Victims) -> tuple[int, int, int, int]:
    pods = victims.pods
    return victims.violations, pods[0].priority, sum(pod.priority + LOWEST for pod in pods), len(pods)


def _since(victims: Victims, now: str) -> str:
    most = max(pod.priority for pod in victims.pods)
    return min(started(pod, now) for pod in victims.pods if pod.priority == most)
