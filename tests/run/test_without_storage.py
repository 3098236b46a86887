"""Runs without volumes need no storage, on a foreign cluster without its definitions."""

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


def real():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    return ControlPlaneCluster("bare", nodes=0)


def embedded():
    return EmbeddedCluster("bare", nodes=0)


@pytest.fixture(
    scope="module", params=[embedded, pytest.param(real, marks=pytest.mark.controlplane)]
)
def given(request):
    with (
        contextlib.closing(request.param()) as cluster,
        contextlib.closing(KubeconfigCluster(cluster.kubeconfig)) as given,
    ):
        yield given


@pytest.fixture
def scenario_runner(given):
    with contextlib.closing(ScenarioRunner(given, Plan())) as runner:
        yield runner


def test_workflow_is_played_without_messages_about_storage(scenario_runner, caplog):
    with scenario_runner as run:
        workflow = run.workflow(REST)
        run.until(workflow.finished, timeout="1m")
    assert workflow.phase == "Succeed"
    assert run.outcome.verdict == "valid", run.outcome.explain()
    assert run.outcome.leftovers == []
    assert "storage" not in caplog.text


def test_volume_by_hand_reports_what_the_cluster_lacks(scenario_runner):
    lacks = (
        "the tested cluster has no replicatedstorageclasses.storage.deckhouse.io: install "
        "sds-replicated-volume there, or test"
    )
    with scenario_runner as run, pytest.raises(ValueError, match=lacks):
        run.volumes.create("any")


def test_crashed_actor_leaves_no_volumes_to_delete(scenario_runner, caplog):
    async def crash():
        raise LookupError("stumbled")

    async def begin():
        run.life.start_actor(crash(), "stumbler")

    with pytest.raises(LookupError, match="stumbled"), scenario_runner as run:
        run.call(begin())
    assert "storage" not in caplog.text
    reported = [entry.data for entry in run.journal if entry.what == "crashed"]
    assert reported == [{"component": "stumbler", "error": "LookupError('stumbled')"}]
