"""What a scenario_runner and its run cannot be asked for, and what they say then."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.preflight import PreflightRefused
from pytest_kscen.runs.runner import ScenarioRunner


@pytest.fixture
def runner():
    cluster = EmbeddedCluster("mistakes", nodes=1)
    runner = ScenarioRunner(cluster, Plan(), parent=cluster.parent)
    yield runner
    runner.close()
    cluster.close()


@pytest.mark.parametrize("duration", [0, "0s", -1, "-5m"])
def test_a_run_needs_time(runner, duration):
    with pytest.raises(ValueError, match=r"write seconds, zero or more|a run needs time: give more than zero, as in '90s'"):
        runner.run(duration)
    assert runner.runs == []


def test_runs_do_not_nest(runner):
    with runner as run:
        with pytest.raises(RuntimeError, match="a run is on: act on what `with scenario_runner as run` gave"):
            runner.run("1m")
        with pytest.raises(RuntimeError, match="a run is on"), runner:
            pass
        run.advance("1m")
    assert runner.run("1m").verdict == run.outcome.verdict == "valid"


def test_an_async_test_is_told_to_be_a_plain_one(runner):
    async def test():
        runner.run("1m")

    with pytest.raises(RuntimeError, match="make the test a plain `def`"):
        runner.cluster.runner.call(test())
    assert runner.run("1m").verdict == "valid"


def test_a_cluster_without_nodes():
    cluster = EmbeddedCluster("nobody", nodes=0)
    with contextlib.closing(cluster), pytest.raises(PreflightRefused, match=r"^the cluster has no nodes, and the storage lives"):
        ScenarioRunner(cluster, Plan(Churn())).run("1m")


@pytest.mark.parametrize("by", ["run", "cluster"])
def test_a_condition_that_was_called(runner, by):
    with (
        runner as run,
        pytest.raises(TypeError, match=r"^until\(False\): give the condition itself, as in until\(volume.ready\), not what it"),
    ):
        (run if by == "run" else runner.cluster).until(False)
