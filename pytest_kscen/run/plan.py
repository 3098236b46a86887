"""Declared plan (churn and chaos) and the settings under which scenarios are played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import in_words
from pytest_kscen.scenario.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.chaos.profile import Profile
    from pytest_kscen.judge.guarantees.declaration import Guarantee
    from pytest_kscen.megatest.churn import Churn


class PlanWarning(UserWarning):
    """Warning of a plan that can show nothing in this run, or is too much for its machines."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Declared run: churn, chaos profiles, and the source of volumes' health."""

    churn: Churn | None = None
    chaos: tuple[Profile, ...] = ()
    health: str = "conditions"
    """Name of the source in objects.volume_health that volumes' health is read from."""
    guarantees: tuple[Guarantee, ...] = ()
    """Guarantees of the test, checked from the run's start."""

    def explain_ineffective(self, duration: float) -> Iterator[str]:
        """Yield why parts of the plan have no effect in a run of `duration` seconds."""
        if not self.churn and not self.chaos and not self.guarantees:
            yield (
                "nothing is declared: this run makes no volumes and does no chaos: mark the "
                "test with volume_churn or chaos"
            )
        for profile in self.chaos:
            if profile.soonest >= duration:
                shorter = "set period= (--chaos-period-min)"
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
    def profile_warnings(self) -> Iterator[str]:
        """Yield warnings about faults that come more often than machines may bear."""
        for profile in self.chaos:
            yield from profile.warnings()

    @property
    def declared(self) -> list[str]:
        """Names of the profiles that must have an effect for the run to be valid."""
        return [profile.name for profile in self.profiles]

    @property
    def profiles(self) -> list[Profile]:
        """Declared profiles, and profiles of churn."""
        return [*self.chaos, *self._churns_own]

    @property
    def _churns_own(self) -> list[Profile]:
        return list(self.churn.profiles) if self.churn else []


def _too_short(name: str, soonest: float, duration: float, instead: str) -> str:
    return (
        f"{name}: no incident in {in_words(duration)} (first one due after {in_words(soonest)}). "
        f"Run longer or {instead}."
    )


@dataclass(frozen=True, slots=True)
class ScenarioSettings:
    """Settings of scenarios, with the defaults of KEP-140."""

    disposable: bool = False
    """True if a cluster that this session did not create may be emptied."""
    results: str = ""
    """Moment at which results are written:

    a value of UPDATE_SCENARIO_RESULTS_STRATEGY; empty takes the environment's.
    """
    patience: float = PATIENCE
    """Seconds within which controllers have to finish a step."""
    consent: str = (
        "--kscen-disposable (KSCEN_DISPOSABLE, kscen_disposable in the ini file), or play on "
        "another with --kscen-cluster=embedded"
    )
    """Option that states that the cluster may be emptied, for the refusal's message."""
