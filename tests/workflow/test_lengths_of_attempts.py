"""How long what only lasts does last: each attempt its whole time, for chaos from when it is in
effect.
"""

import pytest
from forest import heard
from theatre import partition, suspend, template

from pytest_kscen.objects.chaos_mesh import FAILED, phase_of
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.workflow.story import stories

NOT_YET = {"apiVersion": "v1", "kind": "ConfigMap", "name": "not-yet"}


@pytest.fixture
def forest():
    with heard("lengths") as forest:
        yield forest


def held(forest, name):
    """Seconds that each attempt was in effect."""
    (node,) = stories(forest.entries)["default", name].nodes.values()
    ends = [at for _, at in node.history[1:]]
    return [
        end - at for (phase, at), end in zip(node.history, ends, strict=False) if phase == "Holding"
    ]


def test_repeated_chaos_has_its_full_duration(forest):
    name = forest.put_on(
        {"entry": "cut", "templates": [partition("cut", "60s", retry={"limit": 2})]}
    )
    forest.runner.advance(50)
    forest.befall(name, "remove chaos", 0)
    forest.end(name)
    first, second = held(forest, name)
    assert (first < 51, second) == (True, 60)


def test_repeated_suspend_has_its_full_duration(forest):
    probe = {"name": "steady", "when": "Continuous", "initialDelay": "7s", "kubernetes": NOT_YET}
    rest = {**suspend("rest", "10s"), "probes": [probe], "retry": {"limit": 1}}
    name = forest.put_on({"entry": "rest", "templates": [rest]})
    forest.end(name)
    assert held(forest, name) == [7, 7]


def asked_last(after):
    return {"name": "late", "when": "End", "initialDelay": after, "kubernetes": NOT_YET}


def test_parent_deadline_during_the_last_probes_prevents_a_retry(forest):
    cut = partition("cut", None, retry={"limit": 1}, probes=[asked_last("60s")])
    cut = {name: value for name, value in cut.items() if value is not None}
    name = forest.put_on(
        {
            "entry": "all",
            "templates": [template("all", "Serial", children=["cut"], deadline="30s"), cut],
        }
    )
    forest.runner.advance(5)
    forest.befall(name, "remove chaos", 0)
    workflow, nodes = forest.end(name)
    told = stories(forest.entries)["default", name]
    assert {phase_of(each) for each in (workflow, *nodes.values())} == {FAILED}
    assert told.node("cut").phases == ["Init", "Running", "Holding", "Running", FAILED]


def test_own_deadline_during_the_last_probes_prevents_a_retry(forest):
    both = template(
        "all",
        "Serial",
        children=["one"],
        deadline="30s",
        retry={"limit": 1},
        probes=[asked_last("30s")],
    )
    name = forest.put_on({"entry": "all", "templates": [both, suspend("one", "10s")]})
    forest.runner.advance(45)
    forest.call(
        forest.api.create(
            CONFIG_MAPS, {"metadata": {"name": NOT_YET["name"], "namespace": "default"}}
        )
    )
    workflow, nodes = forest.end(name)
    assert (phase_of(workflow), len(nodes)) == (FAILED, 2)
