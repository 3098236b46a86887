"""One look at a Deployment: what it wants and what there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.workloads.deployments import sets

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


@dataclass(slots=True)
class Rollout:
    """The Deployment and its ReplicaSets, brought up to date by every step."""

    deployment: Obj
    old: list[Obj]
    new: Obj | None

    @property
    def everyone(self) -> list[Obj]:
        return [*self.old, *([self.new] if self.new else [])]

    @property
    def revision(self) -> int:
        """The number that the newest template should have."""
        return max(map(sets.revision_of, self.old), default=0) + 1
