"""On which terms scenarios are played: what the settings say of them."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kscen.scenario.waiting import PATIENCE


@dataclass(frozen=True, slots=True)
class Terms:
    """Without settings, the KEP's."""

    disposable: bool = False
    """Whether a cluster that is not of our making may be emptied."""
    results: str = ""
    """When results are written: UPDATE_SCENARIO_RESULTS_STRATEGY's values; empty is what the environment says."""
    patience: float = PATIENCE
    """Seconds that controllers have to finish in."""
    consent: str = (
        "--kscen-disposable (KSCEN_DISPOSABLE, kscen_disposable in the ini file), or play on another with --kscen-cluster=embedded"
    )
    """How somebody says that the cluster may be emptied."""
