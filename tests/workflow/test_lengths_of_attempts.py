"""How long what only lasts does last: each attempt its whole time, for chaos from when it is in effect."""

import pytest
from forest import Forest
from theatre import partition, suspend

from pytest_kscen.workflow.story import stories

NOT_YET = {"apiVersion": "v1", "kind": "ConfigMap", "name": "not-yet"}


@pytest.fixture
def forest():
    forest = Forest("lengths")
    forest.entries = []
    forest.journal.follow(forest.entries.append)
    yield forest
    forest.close()


def held(forest, name):
    """Seconds that each attempt was in effect."""
    (node,) = stories(forest.entries)["default", name].nodes.values()
    ends = [at for _, at in node.history[1:]]
    return [end - at for (phase, at), end in zip(node.history, ends, strict=False) if phase == "Holding"]


def test_chaos_is_in_effect_for_its_whole_length_again(forest):
    name = forest.put_on({"entry": "cut", "templates": [partition("cut", "60s", retry={"limit": 2})]})
    forest.runner.advance(50)
    forest.befall(name, "remove chaos", 0)
    forest.end(name)
    first, second = held(forest, name)
    assert (first < 51, second) == (True, 60)


def test_a_suspend_lasts_its_whole_length_again(forest):
    probe = {"name": "steady", "when": "Continuous", "initialDelay": "7s", "kubernetes": NOT_YET}
    rest = {**suspend("rest", "10s"), "probes": [probe], "retry": {"limit": 1}}
    name = forest.put_on({"entry": "rest", "templates": [rest]})
    forest.end(name)
    assert held(forest, name) == [7, 7]
