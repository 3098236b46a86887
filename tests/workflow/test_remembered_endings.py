"""Recorded reasons of ended workflows and nodes: the most severe, known to the next engine."""

from __future__ import annotations

import itertools

import pytest
from engine_env import EngineEnv, suspend

from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.workflow.engine.repository import Repository
from pytest_kscen.workflow.engine.templates import Retry, Template, may_retry
from pytest_kscen.workflow.engine.trees import TreeNode
from pytest_kscen.workflow.tables.machine import EventType


@pytest.fixture
def engine_env():
    engine_env = EngineEnv()
    yield engine_env
    engine_env.close()


@pytest.mark.parametrize("ending", [None, EventType.FAULT, EventType.ABORTED])
def test_ending_of_a_workflow_is_read_again(engine_env, ending):
    tree = Repository(engine_env.actor(), SHIPPED).add_tree(
        engine_env.create_workflow("pause", suspend("pause"))
    )
    tree.root.ending = ending
    engine_env.call(Repository(engine_env.actor(), SHIPPED).save(tree, tree.root))
    (workflow,) = engine_env.all(SHIPPED.workflows)
    assert Repository(engine_env.actor(), SHIPPED).add_tree(workflow).root.ending is ending


@pytest.mark.parametrize("was_ended_from_outside", [True, False])
def test_remaining_attempt_of_a_node_is_read_again(engine_env, was_ended_from_outside):
    """A node ended externally that fails afterwards has none, also with the next engine."""
    repository = Repository(engine_env.actor(), SHIPPED)
    tree = repository.add_tree(engine_env.create_workflow("pause", suspend("pause")))
    pause = Template("pause", "Suspend", {"retry": {"limit": 1}}, retry=Retry(1))
    node = engine_env.call(repository.make(tree, tree.root, pause))
    if was_ended_from_outside:
        node.record_cause(EventType.ABORTED, "it was aborted")
    node.record_cause(EventType.FAULT, "it has failed")
    assert may_retry(tree, node) is not was_ended_from_outside
    engine_env.call(repository.save(tree, node))
    (written,) = engine_env.all(SHIPPED.nodes)
    read = Repository(engine_env.actor(), SHIPPED).add_node(tree, written)
    assert (read.ending, may_retry(tree, read)) == (EventType.FAULT, not was_ended_from_outside)


GRAVEST_LAST = [
    *(
        "NodeDeadlineExceed",
        "ParentNodeDeadlineExceed",
        "NodeAborted",
        "NodeFailedElsewhere",
        "NodeFault",
    ),
    "NodeChaosNotCleaned",
]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(GRAVEST_LAST, 2)))
def test_most_severe_end_of_a_node_is_reported(first, second):
    node = TreeNode("it", Template("it", "Suspend", {}), "above", 0.0, {}, phase="Holding")
    for ending in (first, second):
        node.record_cause(EventType(ending), f"by {ending}")
    gravest = max(first, second, key=GRAVEST_LAST.index)
    assert (node.ending, node.message) == (gravest, f"by {gravest}")
