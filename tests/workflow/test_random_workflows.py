"""Random workflows under random changes end, with all nodes, and leave no removable chaos."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings
from test_engine_restarts import EVERYTHING
from workflow_cluster import (
    DISTURBANCES,
    LASTING,
    WorkflowCluster,
    counted_nodes,
    disturbances,
    durations_of,
    trees,
)

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.chaos_mesh import (
    CHAOS_INJECTED,
    FAILED,
    NODE_LABEL,
    OVER,
    SUCCEED,
    phase_of,
)
from pytest_kscen.objects.conditions import is_true

MANY, SHARES = int(os.environ.get("KSCEN_TREES", "200")), 2
"""Thousands, where there is the time for them: in shares, each of which may have a processor of
its own.
"""
AT_ONCE = settings(
    max_examples=MANY // SHARES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster()
    yield workflow_cluster
    workflow_cluster.close()


@pytest.mark.parametrize("share", range(SHARES))
def test_every_tree_ends_and_leaves_no_chaos(workflow_cluster, share):
    @seed(share)
    @AT_ONCE
    @given(spec=trees(), disturbance_plan=disturbances)
    def grow(spec, disturbance_plan):
        live(workflow_cluster, spec, disturbance_plan)

    grow()


def live(workflow_cluster, spec, disturbance_plan):
    """Execute a workflow under disturbances, also without an engine."""
    name = workflow_cluster.create_workflow(spec)
    for what, after, number, away in disturbance_plan:
        workflow_cluster.runner.advance(round(after, 1))
        if away is None:
            workflow_cluster.disturb(name, what, number)
        else:
            workflow_cluster.disturb_without_engine(name, what, number, round(away, 1))
    workflow, nodes = workflow_cluster.end(name)
    if workflow:
        judge(workflow_cluster, name, workflow, nodes)
    assert {
        node["spec"]["templateName"]: duration_of(node) for node in nodes.values()
    }.items() <= durations_of(spec).items()
    workflow_cluster.free(name)


def duration_of(node):
    spec = node["spec"]
    return (
        round(epoch_of(spec["deadline"]) - epoch_of(spec["startTime"]), 3)
        if "deadline" in spec
        else None
    )


def judge(workflow_cluster, name, workflow, nodes):
    shown = workflow_cluster.shown(name)
    assert {phase_of(node) for node in nodes.values()} <= set(OVER), shown
    stuck = {chaos["metadata"]["labels"].get(NODE_LABEL) for chaos in workflow_cluster.chaos(name)}
    for each in stuck & set(nodes):
        assert phase_of(workflow) == FAILED, shown
        assert phase_of(nodes[each]) == FAILED, shown
        assert "it was not gone within" in nodes[each]["status"]["message"], shown
    for each in nodes.values():
        if (
            each["spec"]["type"] in LASTING
            and "deadline" not in each["spec"]
            and phase_of(each) == SUCCEED
        ):
            assert is_interrupted(each), shown
        if each["spec"]["type"] in LASTING - {"Schedule"} and phase_of(each) == SUCCEED:
            assert is_true(each, CHAOS_INJECTED), shown
    has_failed = any(
        phase_of(node) == FAILED and not is_truncated(node)
        for node in counted_nodes(workflow, nodes).values()
    )
    was_ended = any(each["type"] == "Aborted" for each in workflow["status"]["conditions"])
    if phase_of(workflow) == FAILED:
        assert has_failed or was_ended or workflow["status"].get("message"), shown
        assert workflow["status"]["message"], shown
    else:
        assert not has_failed, shown


def is_interrupted(node):
    """By its parent's deadline."""
    late = {"type": "DeadlineExceed", "status": "True", "reason": "ParentNodeDeadlineExceed"}
    return late in node["status"]["conditions"]


def is_truncated(node):
    """Return whether a Task or check was ended early, which does not fail the parent."""
    return node["spec"]["type"] in {"Task", "StatusCheck"} and is_interrupted(node)


def test_same_seed_writes_the_same_journal():
    first, second = journal_of(EVERYTHING), journal_of(EVERYTHING)
    assert first == second
    assert b"the workflow was aborted" in first


def journal_of(spec):
    workflow_cluster = WorkflowCluster("twice")
    names = [workflow_cluster.create_workflow(spec) for _ in range(5)]
    for name, what, after in zip(names, DISTURBANCES, range(5), strict=False):
        workflow_cluster.runner.advance(after)
        workflow_cluster.disturb(name, what, after)
    for name in names:
        workflow_cluster.end(name)
    content = workflow_cluster.journal.content()
    workflow_cluster.close()
    return content
