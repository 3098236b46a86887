"""Tests of a user who has installed the example package."""

from __future__ import annotations

import pytest
from kscen_examples.toy_storage import TOY_VOLUMES

from pytest_kscen.storage import HEALTH_SOURCES


@pytest.mark.chaos("node-cordon", period=("5s", "10s"), incident=("5s", "10s"))
def test_nodes_are_cordoned(scenario_runner):
    outcome = scenario_runner.run("2m")
    assert outcome.verdict == "valid"
    assert {one.profile for one in outcome.incidents} == {"node-cordon"}


@pytest.mark.filterwarnings("ignore:node-cordon. no incident in 10s")
@pytest.mark.plan_from_command_line
def test_the_plan_is_the_command_lines(scenario_runner):
    assert [each.name for each in scenario_runner.plan.chaos] == ["node-cordon"]
    assert scenario_runner.plan.chaos[0].period == (20.0, 300.0)
    assert scenario_runner.run("10s").verdict == "unknown"


def test_the_toy_storage(scenario_runner):
    volume = {"apiVersion": "toy.example/v1", "kind": "ToyVolume", "metadata": {"name": "v"}}
    with scenario_runner as run:
        run.apply(volume)

        def ready():
            api = run.cluster.api("test")
            found = run.cluster.runner.call(api.get(TOY_VOLUMES, "v"))
            return HEALTH_SOURCES["toy"].is_ready(found)

        assert not ready()
        run.advance("1m")
        assert ready()


@pytest.mark.volume_churn
def test_volume_churn_without_its_volumes(scenario_runner):
    scenario_runner.run("1m")
