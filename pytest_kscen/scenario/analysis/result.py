"""All questions that can be asked of a scenario's result, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis import usage

if TYPE_CHECKING:
    from pytest_kscen.scenario.analysis.timeline import Timeline
    from pytest_kscen.scenario.analysis.usage import Series


@dataclass(frozen=True)
class Result:
    """Of one scenario."""

    timeline: Timeline

    def allocation(self, resource: str) -> Series:
        """How much of all nodes is promised to pods, by major step."""
        return usage.allocation(self.timeline, resource)

    def utilisation(self, resource: str) -> dict[str, Series]:
        """The same for each node."""
        return usage.utilisation(self.timeline, resource)
