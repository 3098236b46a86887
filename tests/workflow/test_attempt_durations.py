"""Durations of repeated attempts: each is full, for chaos counted from injection."""

import pytest
from engine_env import partition, suspend, template
from workflow_cluster import recorded_entries

from pytest_kscen.objects.chaos_mesh import FAILED, phase_of
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.workflow.story import stories

NOT_YET = {"apiVersion": "v1", "kind": "ConfigMap", "name": "not-yet"}


@pytest.fixture
def workflow_cluster():
    with recorded_entries("lengths") as workflow_cluster:
        yield workflow_cluster


def chaos_durations(workflow_cluster, name):
    """Return the seconds that each attempt was active."""
    (node,) = stories(workflow_cluster.entries)["default", name].nodes.values()
    ends = [at for _, at in node.history[1:]]
    return [
        end - at for (phase, at), end in zip(node.history, ends, strict=False) if phase == "Holding"
    ]


def test_repeated_chaos_has_its_full_duration(workflow_cluster):
    name = workflow_cluster.create_workflow(
        {"entry": "cut", "templates": [partition("cut", "60s", retry={"limit": 2})]}
    )
    workflow_cluster.runner.advance(50)
    workflow_cluster.disturb(name, "remove chaos", 0)
    workflow_cluster.end(name)
    first, second = chaos_durations(workflow_cluster, name)
    assert (first < 51, second) == (True, 60)


def test_repeated_suspend_has_its_full_duration(workflow_cluster):
    probe = {"name": "steady", "when": "Continuous", "initialDelay": "7s", "kubernetes": NOT_YET}
    rest = {**suspend("rest", "10s"), "probes": [probe], "retry": {"limit": 1}}
    name = workflow_cluster.create_workflow({"entry": "rest", "templates": [rest]})
    workflow_cluster.end(name)
    assert chaos_durations(workflow_cluster, name) == [7, 7]


def asked_at_end(after):
    return {"name": "late", "when": "End", "initialDelay": after, "kubernetes": NOT_YET}


def test_parent_deadline_during_the_last_probes_prevents_a_retry(workflow_cluster):
    cut = partition("cut", None, retry={"limit": 1}, probes=[asked_at_end("60s")])
    cut = {name: value for name, value in cut.items() if value is not None}
    name = workflow_cluster.create_workflow(
        {
            "entry": "all",
            "templates": [template("all", "Serial", children=["cut"], deadline="30s"), cut],
        }
    )
    workflow_cluster.runner.advance(5)
    workflow_cluster.disturb(name, "remove chaos", 0)
    workflow, nodes = workflow_cluster.end(name)
    reported = stories(workflow_cluster.entries)["default", name]
    assert {phase_of(each) for each in (workflow, *nodes.values())} == {FAILED}
    assert reported.node("cut").phases == ["Init", "Running", "Holding", "Running", FAILED]


def test_own_deadline_during_the_last_probes_prevents_a_retry(workflow_cluster):
    both = template(
        "all",
        "Serial",
        children=["one"],
        deadline="30s",
        retry={"limit": 1},
        probes=[asked_at_end("30s")],
    )
    name = workflow_cluster.create_workflow(
        {"entry": "all", "templates": [both, suspend("one", "10s")]}
    )
    workflow_cluster.runner.advance(45)
    workflow_cluster.call(
        workflow_cluster.api.create(
            CONFIG_MAPS, {"metadata": {"name": NOT_YET["name"], "namespace": "default"}}
        )
    )
    workflow, nodes = workflow_cluster.end(name)
    assert (phase_of(workflow), len(nodes)) == (FAILED, 2)
