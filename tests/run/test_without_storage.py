"""Runs without volumes, on a kubeconfig cluster that has no storage definitions."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

REST = {
    "apiVersion": "chaos-mesh.org/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "w"},
    "spec": {
        "entry": "rest",
        "templates": [{"name": "rest", "templateType": "Suspend", "deadline": "1s"}],
    },
}


def control_plane_cluster():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    return ControlPlaneCluster("bare", nodes=0)


def embedded_cluster():
    return EmbeddedCluster("bare", nodes=0)


@pytest.fixture(
    scope="module",
    params=[embedded_cluster, pytest.param(control_plane_cluster, marks=pytest.mark.controlplane)],
)
def kubeconfig_cluster(request):
    with (
        contextlib.closing(request.param()) as cluster,
        contextlib.closing(KubeconfigCluster(cluster.kubeconfig)) as opened,
    ):
        yield opened


@pytest.fixture
def scenario_runner(kubeconfig_cluster):
    with contextlib.closing(ScenarioRunner(kubeconfig_cluster, Plan())) as runner:
        yield runner


def test_workflow_is_played_without_messages_about_storage(scenario_runner, caplog):
    with scenario_runner as run:
        workflow = run.workflow(REST)
        run.until(workflow.finished, timeout="1m")
    assert workflow.phase == "Succeed"
    assert run.outcome.verdict == "valid", run.outcome.explain()
    assert run.outcome.leftovers == []
    assert "storage" not in caplog.text


def test_volume_by_hand_names_missing_definitions(scenario_runner):
    lacks = (
        "the tested cluster has no replicatedstorageclasses.storage.deckhouse.io: install "
        "sds-replicated-volume there, or test"
    )
    with scenario_runner as run, pytest.raises(ValueError, match=lacks):
        run.volumes.create("any")


def test_crashed_actor_causes_no_messages_about_storage(scenario_runner, caplog):
    async def crash():
        raise LookupError("failed on purpose")

    async def begin():
        run.life.start_actor(crash(), "failing-actor")

    with pytest.raises(LookupError, match="failed on purpose"), scenario_runner as run:
        run.call(begin())
    assert "storage" not in caplog.text
    reported = [entry.data for entry in run.journal if entry.what == "crashed"]
    assert reported == [{"component": "failing-actor", "error": "LookupError('failed on purpose')"}]
