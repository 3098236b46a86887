"""What a test has declared: churn and chaos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.chaos.pods import PodDestroy

if TYPE_CHECKING:
    from pytest_kscen.chaos.profiles import Profile
    from pytest_kscen.megatest.churn import Churn


@dataclass(frozen=True, slots=True)
class Plan:
    """The declared run."""

    churn: Churn | None = None
    chaos: tuple[Profile, ...] = ()
    health: str = "conditions"
    """Where a volume's health is read: the name of a source in objects.volume_health."""

    @property
    def declared(self) -> list[str]:
        """The profiles of which something has to be seen."""
        own = [PodDestroy.profile] if self.churn and self.churn.pod_destroyer else []
        return [*(profile.profile for profile in self.chaos), *own]
