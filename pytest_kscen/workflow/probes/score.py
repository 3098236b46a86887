"""The resilience score: which share of the probes' weights belongs to probes that held, from 0 to 100.

One that was never asked has not held. Without probes there is no score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

PASSED, FAILED, AWAITED = "Passed", "Failed", "Awaited"


def score_of(results: Iterable[Obj]) -> float | None:
    """Of any number of `Probing.results`, as they stand in statuses."""
    all_of_it = held = 0
    for result in results:
        all_of_it += result.get("weight", 1)
        held += result.get("weight", 1) * (result.get("verdict") == PASSED)
    return round(100 * held / all_of_it, 2) if all_of_it else None
