"""The settings of scenarios (KEP-140): whose cluster may be emptied for one, when results are written, how long one waits."""

from __future__ import annotations

from pytest_kscen.options import values
from pytest_kscen.options.option import Option

RESULTS = ("AtMovingNextStep", "OnPause", "OnDone")


def _results(text: str) -> str:
    if text not in RESULTS:
        raise ValueError(f"{text!r} is no time to write results: choose one of {', '.join(RESULTS)}")
    return text


DISPOSABLE = Option(
    "--kscen-disposable",
    values.switch,
    "",
    "the cluster of --kubeconfig may be emptied: a scenario begins with deleting all that is there",
)
SCENARIO_RESULTS = Option(
    "--kscen-scenario-results",
    _results,
    "|".join(RESULTS),
    "when a scenario's results are written into its status (default: UPDATE_SCENARIO_RESULTS_STRATEGY, else AtMovingNextStep)",
)
SCENARIO_PATIENCE = Option(
    "--kscen-scenario-patience",
    values.duration,
    "TIME",
    "how long controllers may take in cluster time before the scenario has failed",
    "10m",
)

SCENARIOS = (DISPOSABLE, SCENARIO_RESULTS, SCENARIO_PATIENCE)
