"""The real kube-scheduler starts with a scenario's configuration and reports its errors."""

import json

import pytest

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from tests.scenario.objects import create, done, node, pod, scenario

pytestmark = pytest.mark.controlplane

WANTED = scenario(
    create(1, node("a", "4")), create(1, node("b", "8")), create(2, pod("p", "1")), done(3)
)
"""Where least is asked for is b; where most is, it is a."""


def configuration(strategy):
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    profile = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


@pytest.fixture(scope="module")
def runner():
    cluster = ControlPlaneCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    yield runner
    runner.close()
    cluster.close()


def place(runner, scheduler=None):
    played = runner.play(WANTED, scheduler=scheduler)
    assert (played.phase, played.message) == ("Succeeded", "")
    return played.result.pod("p").node


def test_configuration_is_valid_for_one_scenario(runner):
    assert [place(runner), place(runner, configuration("MostAllocated")), place(runner)] == [
        "b",
        "a",
        "b",
    ]


def test_refused_configuration_fails_only_its_scenario(runner):
    played = runner.play(WANTED, scheduler=configuration("MostAlocated"))

    assert played.phase == "Failed"
    assert "the scheduler's configuration is refused: " in played.message
    assert "MostAlocated" in played.message
    assert place(runner) == "b"


def test_config_map_of_the_cluster_applies(runner):
    text = json.dumps(configuration("MostAllocated"))
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-scheduler"},
        "data": {"config.yaml": text},
    }
    api = runner.cluster.api("somebody")
    runner.cluster.runner.call(api.create(CONFIG_MAPS, config_map, "kube-system"))
    try:
        assert place(runner) == "a"
    finally:
        runner.cluster.runner.call(api.delete(CONFIG_MAPS, "kube-scheduler", "kube-system"))
