"""Declared plan (churn and chaos) and the settings under which scenarios are played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import in_words
from pytest_kscen.scenario.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.chaos.profile import Profile
    from pytest_kscen.megatest.churn import Churn


class PlanWarning(UserWarning):
    """What was declared cannot be seen in this run, or is more than its machines may bear."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The declared run."""

    churn: Churn | None = None
    chaos: tuple[Profile, ...] = ()
    health: str = "conditions"
    """Where a volume's health is read: the name of a source in objects.volume_health."""

    def in_vain(self, duration: float) -> Iterator[str]:
        """Why a run of this length and of nothing but the plan shows nothing at all, or nothing
        of a profile.
        """
        if not self.churn and not self.chaos:
            yield (
                "nothing is declared: this run makes no volumes and does no chaos: mark the "
                "test with volume_churn or chaos"
            )
        for profile in self.chaos:
            if profile.soonest >= duration:
                shorter = "give a shorter period (chaos(..., period=...), --chaos-period-min)"
                yield _too_short(profile.name, profile.soonest, duration, shorter)
            elif why := profile.without_incidents(makes_volumes=self.churn is not None):
                yield why
        for own in self._churns_own:
            if own.soonest >= duration:
                with_a_period = f'declare chaos("{own.name}", period=...) in its place'
                yield _too_short(
                    "volume_churn's pod_destroyer", own.soonest, duration, with_a_period
                )

    @property
    def hasty(self) -> Iterator[str]:
        """What it does to machines more often than is good for some, since that was asked for."""
        for profile in self.chaos:
            yield from profile.warnings()

    @property
    def declared(self) -> list[str]:
        """The profiles of which something has to be seen."""
        return [profile.name for profile in self.profiles]

    @property
    def profiles(self) -> list[Profile]:
        """All that does chaos: what was declared as that, and churn's own."""
        return [*self.chaos, *self._churns_own]

    @property
    def _churns_own(self) -> list[Profile]:
        return list(self.churn.profiles) if self.churn else []


def _too_short(who: str, soonest: float, duration: float, instead: str) -> str:
    return (
        f"{who} has no incident in this run: its first one comes after "
        f"{in_words(soonest)} at the earliest, "
        f"and the run lasts {in_words(duration)}: run longer, or {instead}"
    )


# On which terms scenarios are played: what the settings say of them.


@dataclass(frozen=True, slots=True)
class Terms:
    """Without settings, the KEP's."""

    disposable: bool = False
    """Whether a cluster that is not of our making may be emptied."""
    results: str = ""
    """When results are written: UPDATE_SCENARIO_RESULTS_STRATEGY's values; empty is what the
    environment says.
    """
    patience: float = PATIENCE
    """Seconds that controllers have to finish in."""
    consent: str = (
        "--kscen-disposable (KSCEN_DISPOSABLE, kscen_disposable in the ini file), or play on "
        "another with --kscen-cluster=embedded"
    )
    """How somebody says that the cluster may be emptied."""
