"""Why there was no node for a pod, in the real scheduler's words."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.filters import Refusal

NO_NODES = "no nodes available to schedule pods"
HELPLESS = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def of_problem(nodes: int, problem: str) -> str:
    """What keeps the pod from every node; the real scheduler ends so too."""
    return f"0/{nodes} nodes are available: {problem}. not found"


def of_refusals(pod: Obj, refusals: Sequence[Refusal]) -> str:
    nodes = len(refusals)
    reasons = _counted([reason for refusal in refusals for reason in refusal.reasons])
    if pod["spec"].get("preemptionPolicy") == "Never":
        rescue = "not eligible due to preemptionPolicy=Never."
    else:
        words = _counted([HELPLESS if refusal.final else NO_VICTIMS for refusal in refusals])
        rescue = f"0/{nodes} nodes are available: {words}."
    return f"0/{nodes} nodes are available: {reasons}. no new claims to deallocate, preemption: {rescue}"


def _counted(reasons: list[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in collections.Counter(reasons).items()))
