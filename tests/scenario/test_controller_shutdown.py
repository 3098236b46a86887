"""A stopped controller leaves no pod at a gate and no webhook."""

import contextlib
import signal
import subprocess
import sys

import pytest

from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.commands.scenario_controller import open_scenario_player
from pytest_kscen.objects.resources import MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from pytest_kscen.objects.scenarios import SCENARIOS, phase_of
from pytest_kscen.run.plan import ScenarioSettings
from pytest_kscen.scenario.webhooks import gates_of
from tests.scenario.objects import create, node, pod, scenario

FAILS = create(1, {**pod("odd"), "spec": {"containers": []}})


@pytest.fixture
def foreign_cluster():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    with contextlib.closing(ControlPlaneCluster("somebody", nodes=0)) as cluster:
        yield cluster


def webhooks(cluster):
    call, api = cluster.runner.call, cluster.api("kubectl")
    return [
        each["metadata"]["name"]
        for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
        for each in call(api.list(kind)).items
    ]


@pytest.mark.controlplane
def test_gates_and_webhooks_are_removed(foreign_cluster):
    call, api = foreign_cluster.runner.call, foreign_cluster.api("kubectl")
    with contextlib.closing(KubeconfigCluster(foreign_cluster.kubeconfig)) as ours:
        journal = open_scenario_player(
            ours, ScenarioSettings(disposable=True, patience=60)
        ).journals.to
        call(api.create(SCENARIOS, scenario(create(1, node()), create(1, pod("left")), FAILS)))
        foreign_cluster.until(lambda: phase_of(call(api.get(SCENARIOS, "test"))) == "Failed", "2m")
        foreign_cluster.until(lambda: gates_of(call(api.get(PODS, "left", "default"))) == [], "20s")
        assert len(webhooks(foreign_cluster)) == 2
    journal.close()
    assert webhooks(foreign_cluster) == []


@pytest.mark.controlplane
def test_stopped_controller_removes_its_webhooks(foreign_cluster):
    command = [
        sys.executable,
        "-m",
        "pytest_kscen",
        "scenario-controller",
        "--disposable",
        "--kubeconfig",
        foreign_cluster.kubeconfig,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert "Scenarios are played from now on" in program.stdout.readline()
        assert len(webhooks(foreign_cluster)) == 2
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
    assert webhooks(foreign_cluster) == []
