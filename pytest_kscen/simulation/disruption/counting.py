"""The arithmetic of a disruption budget. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.simulation.workloads.podstate import is_ready
from pytest_kscen.simulation.workloads.shares import share

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

PATIENCE = 120.0  # seconds that an evicted pod may take to be marked as deleted


@dataclass(frozen=True, slots=True)
class Need:
    """How many pods there should be, and how many of them healthy."""

    expected: int
    healthy: int


def counts_owners(budget: Obj) -> bool:
    """Whether the size of the workloads has to be known: a plain number of pods speaks for itself."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def need(budget: Obj, pods: int, owners: int) -> Need:
    """`owners` is the sum of the sizes of the workloads that the pods belong to."""
    spec = budget["spec"]
    if (most := spec.get("maxUnavailable")) is not None:
        return Need(owners, max(0, owners - share(most, owners, up=True)))
    least = spec.get("minAvailable", 0)
    return Need(owners, share(least, owners, up=True)) if isinstance(least, str) else Need(pods, least)


def still_evicted(budget: Obj, pods: list[Obj], now: float) -> tuple[dict[str, str], list[Obj]]:
    """The evictions whose pods are not marked as deleted yet, and the pods for which that took too long."""
    listed = (budget.get("status") or {}).get("disruptedPods") or {}
    waiting, overdue = {}, []
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp") or name not in listed:
            continue
        if epoch_of(listed[name]) + PATIENCE < now:
            overdue.append(pod)
        else:
            waiting[name] = listed[name]
    return waiting, overdue


def healthy(pods: list[Obj], evicted: dict[str, str]) -> int:
    staying = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    return sum(is_ready(pod) and pod["metadata"]["name"] not in evicted for pod in staying)


def status_of(budget: Obj, wanted: Need, current: int, evicted: dict[str, str], now: str) -> Obj:
    allowed = max(0, current - wanted.healthy) if wanted.expected > 0 else 0
    generation = budget["metadata"].get("generation", 1)
    return {
        "conditions": _allowed(budget, "SufficientPods" if allowed else "InsufficientPods", now),
        "currentHealthy": current,
        "desiredHealthy": wanted.healthy,
        **({"disruptedPods": evicted} if evicted else {}),
        "disruptionsAllowed": allowed,
        "expectedPods": wanted.expected,
        "observedGeneration": generation,
    }


def failed(budget: Obj, message: str, now: str) -> Obj:
    """When nothing is known for sure nothing may be evicted."""
    conditions = _allowed(budget, "SyncFailed", now, message)
    return {**(budget.get("status") or {}), "disruptionsAllowed": 0, "conditions": conditions}


def _allowed(budget: Obj, reason: str, now: str, message: str = "") -> list[Obj]:
    words = {
        "type": "DisruptionAllowed",
        "status": "True" if reason == "SufficientPods" else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    old = condition(budget, "DisruptionAllowed")
    if old and all(old.get(name, "") == value for name, value in words.items()):
        return list(budget["status"]["conditions"])
    return set_condition((budget.get("status") or {}).get("conditions"), words, now)
