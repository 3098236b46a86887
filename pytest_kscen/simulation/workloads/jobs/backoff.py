"""How long a job waits after a failure before it makes the next pod: ten seconds, doubled each time, up to ten minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.workloads.jobs.failures import finished_at
from pytest_kscen.simulation.workloads.podstate import phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

FIRST, LONGEST = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class Record:
    """The failures since the last success."""

    failures: int = 0
    last: float = 0.0

    def after(self, finished: Iterable[Obj]) -> Record:
        """With these pods, which have just finished."""
        record = self
        for pod in sorted(finished, key=finished_at):
            record = Record() if phase(pod) == "Succeeded" else Record(record.failures + 1, max(record.last, finished_at(pod)))
        return record

    def wait(self, now: float) -> float:
        """The seconds until another pod may be made."""
        return remaining(self.failures, self.last, now)


def remaining(failures: int, last: float, now: float) -> float:
    if not failures:
        return 0.0
    pause: float = min(FIRST * 2 ** (failures - 1), LONGEST)
    return max(0.0, round(last + pause - now, 6))
