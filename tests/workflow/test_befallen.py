"""What may befall a workflow, told one by one: each is ended with its reason, and no chaos is left."""

from __future__ import annotations

import pytest
from forest import Forest
from theatre import partition, suspend, task, template

from pytest_kscen.machinery.admission import Hook
from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.workflows import FAILED, SHIPPED, SUCCEED, phase_of

NETWORK_CHAOS = KINDS["NetworkChaos"].resource


@pytest.fixture(scope="module")
def forest():
    forest = Forest("befallen")
    yield forest
    forest.close()


def ended(forest, *templates, entry="", after=0.0, then=lambda name: None, **spec):
    name = forest.put_on({"entry": entry or templates[0]["name"], "templates": list(templates), **spec})
    if after:
        forest.runner.advance(after)
        then(name)
    workflow, nodes = forest.end(name)
    told = {node["spec"]["templateName"]: (phase_of(node), node["status"].get("message", "")) for node in nodes.values()}
    assert forest.chaos(name) == []
    forest.free(name)
    return phase_of(workflow), workflow["status"].get("message", ""), told


def test_a_loop_through_branches_comes_to_an_end(forest, monkeypatch):
    monkeypatch.setattr("pytest_kscen.workflow.turns.MOST_NODES", 30)
    phase, message, _ = ended(forest, task("again", ("again", "exitCode == 0")))
    assert phase == FAILED
    assert message == "again: the workflow would come to more than 30 nodes: is there a loop that never ends?"


def test_a_tree_as_deep_as_trees_may_be(forest):
    deep = [template(f"t{number}", "Serial", children=[f"t{number + 1}"]) for number in range(190)]
    assert ended(forest, *deep, suspend("t190", "3s"))[0] == SUCCEED


def test_siblings_are_ended_and_their_chaos_is_gone_before_the_workflow_has_failed(forest):
    bad = partition("bad")
    bad["networkChaos"]["selector"]["labelSelectors"] = {"app": "nobody"}
    good = partition("good", "10m")
    good["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    phase, message, told = ended(forest, template("both", "Parallel", children=["bad", "good"]), bad, good)
    assert phase == FAILED
    assert message == "bad: it was not in effect within 60 s: it has selected nothing"
    assert told["good"] == (FAILED, message)


def test_a_removal_that_is_refused_is_tried_again(forest):
    refusals = []

    def refuse(review):
        refusals.append(review.name)
        if len(refusals) < 3:
            raise Forbidden("not yet")

    hook = Hook("keeps", validate=refuse, resources=[NETWORK_CHAOS], operations=["DELETE"])
    forest.cluster.admission.add(hook)
    cut = partition("cut", "5s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    phase, _, told = ended(forest, cut)
    forest.cluster.admission.remove(hook)
    assert (phase, told["cut"][0], len(refusals)) == (SUCCEED, SUCCEED, 3)


def test_a_retry_is_another_pod_and_an_abort_ends_it(forest):
    tried = task("try", ("try", "stdout[5] == 'x'"), retry={"limit": 2, "backoff": {"duration": "5s", "factor": 2}})
    phase, message, _ = ended(forest, tried)
    assert phase == FAILED
    assert "stdout[5]" in message
    aborted = ended(forest, tried, after=3, then=lambda name: forest.befall(name, "abort", 0))
    assert aborted[:2] == (FAILED, "it was aborted")


def test_an_exit_handler_runs_after_an_abort(forest):
    phase, message, told = ended(
        forest,
        suspend("long", "1h"),
        suspend("bye", "3s"),
        onExit="bye",
        after=5,
        then=lambda name: forest.befall(name, "abort", 0),
    )
    assert (phase, message, told["bye"][0]) == (FAILED, "it was aborted", SUCCEED)


def test_what_begins_later_is_as_the_spec_says_then(forest):
    def change(name):
        spec = {"templates": [template("all", "Serial", children=["one", "two"]), suspend("one", "9s"), suspend("two", "1h")]}
        forest.call(forest.api.patch(SHIPPED.workflows, name, {"spec": spec}, "default"))

    before = forest.runner.clock.now()
    serial = template("all", "Serial", children=["one", "two"])
    assert ended(forest, serial, suspend("one", "9s"), suspend("two", "9s"), after=2, then=change)[0] == SUCCEED
    assert forest.runner.clock.now() - before > 3600


def test_names_as_long_as_names_may_be(forest):
    label = "a" * 50
    name = ".".join([label, label, label, label, label[:48]])
    assert ended(forest, suspend(name, "1m"))[0] == SUCCEED


def test_templates_that_make_no_sense(forest):
    phase, message, _ = ended(forest, suspend("odd", "soon"))
    assert phase == FAILED
    assert "'soon' is no duration" in message
    phase, message, told = ended(forest, template("all", "Serial", children=["nobody"]))
    assert (phase, told) == (FAILED, {})
    assert "there is no template 'nobody'" in message
