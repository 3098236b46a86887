"""The megatest suite: `pytest -m megatest`."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.megatest


@pytest.mark.volume_churn
def test_calm(scenario_runner):
    """An hour of churn and nothing else: no condition may ever change."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes.stable == list(outcome.volumes)
    assert outcome.incidents == []
    assert outcome.leftovers == []


@pytest.mark.volume_churn
@pytest.mark.chaos("pod-destroy", label="app=controller", pods=(1, 3))
@pytest.mark.chaos("pod-destroy", label="app=agent", pods=(1, 2))
def test_pods_are_destroyed(scenario_runner):
    """The storage's own pods die again and again, and its volumes must not mind for long."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes.broken == []
    assert all(incident.had_effect for incident in outcome.incidents)
    assert outcome.leftovers == []
