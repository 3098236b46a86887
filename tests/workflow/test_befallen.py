"""What may befall a workflow, told one by one: each is ended with its reason, and no chaos is
left.
"""

from __future__ import annotations

import dataclasses

import pytest
from forest import ABSENT, long_cut, refusing, refusing_twice
from theatre import Through, partition, suspend, task, template

from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.objects.chaos_mesh import (
    ABORT,
    CHAOS_LEFT,
    FAILED,
    KINDS,
    NODE_LABEL,
    SHIPPED,
    SUCCEED,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import CONFIG_MAPS, EVENTS, PODS
from pytest_kscen.workflow.engine.cleanup import LONGEST_PAUSE

NETWORK_CHAOS = KINDS["NetworkChaos"].resource


def ended(forest, *templates, entry="", after=0.0, then=lambda name: None, **spec):
    name = forest.put_on(
        {"entry": entry or templates[0]["name"], "templates": list(templates), **spec}
    )
    if after:
        forest.runner.advance(after)
        then(name)
    workflow, nodes = forest.end(name)
    told = {
        node["spec"]["templateName"]: (phase_of(node), node["status"].get("message", ""))
        for node in nodes.values()
    }
    assert forest.chaos(name) == []
    forest.free(name)
    return phase_of(workflow), workflow["status"].get("message", ""), told


def test_loop_through_branches_ends(forest, monkeypatch):
    monkeypatch.setattr("pytest_kscen.workflow.engine.transitions.MOST_NODES", 30)
    phase, message, _ = ended(forest, task("again", ("again", "exitCode == 0")))
    assert phase == FAILED
    assert (
        message
        == "again: the workflow would come to more than 30 nodes: check its branches for a loop that never ends"
    )


def test_tree_of_maximum_depth(forest):
    deep = [template(f"t{number}", "Serial", children=[f"t{number + 1}"]) for number in range(190)]
    assert ended(forest, *deep, suspend("t190", "3s"))[0] == SUCCEED


def test_siblings_end_and_their_chaos_is_removed_before_the_workflow_fails(forest):
    bad = partition("bad")
    bad["networkChaos"]["selector"]["labelSelectors"] = {"app": "nobody"}
    good = partition("good", "10m")
    good["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    phase, message, told = ended(
        forest, template("both", "Parallel", children=["bad", "good"]), bad, good
    )
    assert phase == FAILED
    assert message == "bad: it was not in effect within 60 s: its selector matches nothing"
    assert told["good"] == (FAILED, message)


def test_removal_of_chaos_is_recorded_when_possible(forest):
    """Whoever refuses that is one node's affair."""
    held = {"metadata": {"finalizers": ["example.com/stuck"]}}
    name = long_cut(forest)
    (chaos,) = forest.chaos(name)
    forest.call(forest.api.patch(NETWORK_CHAOS, chaos["metadata"]["name"], held, "default"))
    forest.befall(name, "abort", 0)
    forest.end(name)
    mute = Hook(
        "mute",
        validate=lambda _: "nothing is written",
        resources=[SHIPPED.nodes],
        subresources=("status",),
    )
    forest.cluster.admission.add(mute)
    forest.call(
        forest.api.patch(
            NETWORK_CHAOS, chaos["metadata"]["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    forest.runner.advance(2 * LONGEST_PAUSE)
    forest.cluster.admission.remove(mute)
    assert not forest.engine.done()
    forest.runner.advance(2 * LONGEST_PAUSE)
    states = {
        condition(node, CHAOS_LEFT)["status"]
        for node in forest.nodes(name)
        if node["spec"]["type"] == "NetworkChaos"
    }
    assert (forest.chaos(name), states) == ([], {"False"})
    forest.free(name)


def test_foreign_object_in_place_of_chaos_is_not_touched(forest):
    """It is there when the chaos has been looked at, and before the API is asked to remove that."""
    forest.stop()
    actor = forest.actor()

    class Late(Through):
        async def delete(self, resource, name, namespace, **options):
            if resource == NETWORK_CHAOS:
                found = await forest.api.get(resource, name, namespace)
                await forest.api.patch(
                    resource, name, {"metadata": {"finalizers": None}}, namespace
                )
                await forest.api.delete(resource, name, namespace)
                theirs = {
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "labels": {"whose": "theirs"},
                    },
                    "spec": found["spec"],
                }
                await forest.api.create(resource, theirs)
            return await self._api.delete(resource, name, namespace, **options)

    forest.start(dataclasses.replace(actor, api=Late(actor.api)))
    name = long_cut(forest)
    forest.befall(name, "abort", 0)
    workflow, _ = forest.end(name)
    (theirs,) = forest.call(forest.api.list(NETWORK_CHAOS, "default", labels="whose=theirs")).items
    assert (phase_of(workflow), theirs["metadata"].get("deletionTimestamp")) == (FAILED, None)
    forest.call(forest.api.delete(NETWORK_CHAOS, theirs["metadata"]["name"], "default"))
    forest.stop()
    forest.start()
    forest.free(name)


CUT_AND_REST = template("both", "Parallel", children=["cut", "rest"])
LOST = ("rest", "cut", "both")


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
@pytest.mark.parametrize("lost", LOST)
def test_node_deleted_without_an_engine_counts_as_aborted(forest, lost, propagation):
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    spec = {
        "entry": "both",
        "onExit": "bye",
        "templates": [CUT_AND_REST, cut, suspend("rest", "1h"), suspend("bye", "3s")],
    }
    name = forest.put_on(spec)
    forest.runner.advance(5)
    forest.stop()
    (node,) = (
        each["metadata"]["name"]
        for each in forest.nodes(name)
        if each["spec"]["templateName"] == lost
    )
    forest.call(forest.api.delete(SHIPPED.nodes, node, "default", propagation=propagation))
    forest.runner.advance(5)
    forest.start()
    workflow, nodes = forest.end(name)
    assert phase_of(workflow) == FAILED
    assert workflow["status"]["message"] == f"{lost}: its WorkflowNode was deleted"
    assert forest.chaos(name) == []
    assert {phase_of(each) for each in nodes.values()} <= {FAILED, SUCCEED}
    assert SUCCEED in {
        phase_of(each) for each in nodes.values() if each["spec"]["templateName"] == "bye"
    }


def test_chaos_of_a_lost_second_attempt_is_removed(forest):
    cut = partition("cut", "1h", retry={"limit": 3, "backoff": {"duration": "1s"}})
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = forest.put_on(
        {"entry": "all", "templates": [template("all", "Serial", children=["cut"]), cut]}
    )
    forest.runner.advance(5)
    forest.befall(name, "remove chaos", 0)
    forest.runner.advance(5)
    (chaos,) = forest.chaos(name)
    assert chaos["metadata"]["name"].endswith("-2")
    forest.stop()
    owner = chaos["metadata"]["ownerReferences"][0]["name"]
    forest.call(forest.api.delete(SHIPPED.nodes, owner, "default", propagation="Orphan"))
    forest.start()
    assert phase_of(forest.end(name)[0]) == FAILED
    assert forest.chaos(name) == []


ODD = {
    "an ending": ({"engine": {"ending": "Nonsense"}}, "'Nonsense' is not a valid EventType"),
    "a phase": ({"phase": "Odd"}, "Odd"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("resource", [SHIPPED.workflows, SHIPPED.nodes], ids=["workflow", "node"])
def test_foreign_value_in_a_status_fails_only_its_workflow(forest, resource, odd):
    status, why = ODD[odd]
    beside = forest.put_on({"entry": "rest", "templates": [suspend("rest", "60s")]})
    name = long_cut(forest)
    (cut,) = (
        node["metadata"]["name"]
        for node in forest.nodes(name)
        if node["spec"]["templateName"] == "cut"
    )
    forest.stop()
    where = name if resource == SHIPPED.workflows else cut
    forest.call(
        forest.api.patch(resource, where, {"status": status}, "default", subresource="status")
    )
    forest.start()
    workflow, nodes = forest.end(name)
    assert (
        phase_of(workflow),
        forest.chaos(name),
        {phase_of(node) for node in nodes.values()},
    ) == (FAILED, [], {FAILED})
    assert "cannot be read" in workflow["status"]["message"]
    assert why in workflow["status"]["message"]
    assert phase_of(forest.end(beside)[0]) == SUCCEED
    forest.free(name)


def test_node_ended_before_its_deletion_keeps_its_end(forest):
    spec = {
        "entry": "all",
        "templates": [
            template("all", "Serial", children=["one", "two"]),
            suspend("one", "1s"),
            suspend("two"),
        ],
    }
    name = forest.put_on(
        {**spec, "onExit": "bye", "templates": [*spec["templates"], suspend("bye", "20s")]}
    )
    for after, lost in ((5, "one"), (10, "all")):
        forest.runner.advance(after)
        forest.stop()
        (node,) = (
            each["metadata"]["name"]
            for each in forest.nodes(name)
            if each["spec"]["templateName"] == lost
        )
        forest.call(forest.api.delete(SHIPPED.nodes, node, "default"))
        forest.start()
    assert phase_of(forest.end(name)[0]) == SUCCEED


def test_refused_removal_is_retried(forest):
    cut = partition("cut", "5s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    with refusing_twice(forest, NETWORK_CHAOS) as asked:
        phase, _, told = ended(forest, cut)
    assert (phase, told["cut"][0], len(asked)) == (SUCCEED, SUCCEED, 3)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
def test_chaos_held_by_a_finalizer_is_retried_until_it_is_gone(forest, is_restarted):
    def refuse(review):
        raise Forbidden("not yet")

    hook = Hook("keeps", validate=refuse, resources=[NETWORK_CHAOS], operations=["DELETE"])
    forest.cluster.admission.add(hook)
    cut = partition("cut", "5s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = forest.put_on({"entry": "cut", "templates": [cut]})
    workflow, nodes = forest.end(name)
    why = "it was not gone within 300 s: not yet; deleting it is retried in the background"
    assert workflow["status"]["message"] == f"cut: {why}"
    (node,) = nodes.values()
    assert (is_true(node, CHAOS_LEFT), len(forest.chaos(name))) == (True, 1)
    if is_restarted:
        forest.stop()
        forest.start()
    forest.runner.advance(1800)
    assert len(forest.chaos(name)) == 1
    forest.cluster.admission.remove(hook)
    forest.runner.advance(2 * LONGEST_PAUSE)
    (node,) = forest.nodes(name)
    left = condition(node, CHAOS_LEFT)["status"]
    assert (forest.chaos(name), left, phase_of(node), node["status"]["message"]) == (
        [],
        "False",
        FAILED,
        why,
    )
    forest.free(name)


@pytest.mark.parametrize("kind", ["Serial", "Parallel"])
def test_parent_of_remaining_chaos_has_no_further_attempt(forest, kind):
    """It would be in effect twice."""
    cut = partition("cut", "10s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    above = template("above", "Serial", children=["all"], retry={"limit": 1})
    spec = {
        "entry": "above",
        "templates": [above, template("all", kind, children=["cut"], retry={"limit": 1}), cut],
    }
    name = forest.put_on(spec)
    forest.runner.advance(5)
    forest.befall(name, "stick", 0)
    workflow, nodes = forest.end(name)
    assert phase_of(workflow) == FAILED
    assert (
        workflow["status"]["message"]
        == "cut: it was not gone within 300 s; deleting it is retried in the background"
    )
    assert sorted(node["spec"]["templateName"] for node in nodes.values()) == [
        "above",
        "all",
        "cut",
    ]
    forest.free(name)


@pytest.mark.parametrize("label", [NODE_LABEL, WORKFLOW_LABEL])
@pytest.mark.parametrize("owners", [{}, {"ownerReferences": None}], ids=["", "an orphan"])
def test_chaos_losing_its_labels_during_removal_is_tracked(forest, label, owners):
    """Out of sight is not gone: the API is asked."""
    name = long_cut(forest)
    forest.befall(name, "stick", 0)
    forest.befall(name, "abort", 0)
    forest.runner.advance(5)
    (chaos,) = forest.chaos(name)
    forest._patch(NETWORK_CHAOS, chaos["metadata"]["name"], {"labels": {label: None}, **owners})
    forest.runner.advance(20)
    assert phase_of(forest.workflow(name)) == "Running"
    assert [each["metadata"]["labels"].keys() for each in forest.chaos(name)] == [
        chaos["metadata"]["labels"].keys()
    ]
    forest._patch(NETWORK_CHAOS, chaos["metadata"]["name"], {"finalizers": None})
    forest.runner.advance(1)
    assert phase_of(forest.workflow(name)) == FAILED
    forest.free(name)


@pytest.mark.parametrize("is_away", [False, True], ids=["", "while no engine is there"])
def test_active_chaos_losing_its_labels_fails_its_node(forest, is_away):
    """Nobody would see what becomes of it."""
    name = long_cut(forest)
    if is_away:
        forest.befall_while_away(name, "strip", 0, 5)
    else:
        forest.befall(name, "strip", 0)
    workflow, _ = forest.end(name)
    why = "cut: its resource or its labels were deleted, and not by the engine"
    assert (phase_of(workflow), workflow["status"]["message"], forest.chaos(name)) == (
        FAILED,
        why,
        [],
    )


def check(**fields):
    http = {"url": "http://nobody.default", "criteria": {"statusCode": fields.pop("status", "404")}}
    body = {"type": "HTTP", "intervalSeconds": 1, "failureThreshold": 100, "http": http, **fields}
    return template("it", "StatusCheck", deadline="10s", statusCheck=body)


ANSWERED = 'http://nobody.default answered 404, and 200 was expected: services "nobody" not found'
MADE = {
    "a Task": (
        task("it", command="sleep 3600", deadline="10s"),
        PODS,
        FAILED,
        "its deadline of 10s is over",
    ),
    "a check that held": (check(), SHIPPED.status_checks, SUCCEED, ""),
    "a check that failed": (
        check(status="200", failureThreshold=1),
        *(
            SHIPPED.status_checks,
            SUCCEED,
            f"the status check has failed: FailureThresholdExceed: {ANSWERED}",
        ),
    ),
    "a check that goes on": (
        check(mode="Continuous", status="200", failureThreshold=1000),
        SHIPPED.status_checks,
        SUCCEED,
        "",
    ),
}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("what", MADE)
def test_temporarily_refused_removal_changes_nothing(forest, what, is_restarted):
    made, resource, phase, message = MADE[what]
    hook = refusing(forest, resource)
    name = forest.put_on({"entry": "it", "templates": [made]})
    forest.runner.advance(18)
    if is_restarted:
        forest.stop()
        forest.start()
    forest.cluster.admission.remove(hook)
    forest.runner.advance(45)
    (node,) = forest.nodes(name)
    told = node["status"].get("message", "").partition("; its pod it-")[0]
    assert (phase_of(node), told, forest.of(name, resource)) == (phase, message, [])
    forest.free(name)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("what", MADE)
def test_object_held_by_a_finalizer_is_retried_until_it_is_gone(forest, what, is_restarted):
    made, resource, _, _ = MADE[what]
    hook = refusing(forest, resource)
    name = forest.put_on({"entry": "it", "templates": [{**made, "retry": {"limit": 3}}]})
    workflow, nodes = forest.end(name)
    (node,) = nodes.values()
    refusal = 'admission webhook "keeps" denied the request: not yet'
    why = f"it was not gone within 300 s: {refusal}; deleting it is retried in the background"
    assert (
        workflow["status"]["message"],
        is_true(node, CHAOS_LEFT),
        len(forest.of(name, resource)),
    ) == (f"it: {why}", True, 1)
    if is_restarted:
        forest.stop()
        forest.start()
    forest.runner.advance(1800)
    assert len(forest.of(name, resource)) == 1
    forest.cluster.admission.remove(hook)
    forest.runner.advance(LONGEST_PAUSE + 31)
    (node,) = forest.nodes(name)
    assert (
        forest.of(name, resource),
        condition(node, CHAOS_LEFT)["status"],
        node["status"]["message"],
    ) == ([], "False", why)
    forest.free(name)


def test_pod_removed_while_its_end_is_refused_is_no_failure(forest):
    name = forest.put_on(
        {
            "entry": "all",
            "templates": [
                template("all", "Serial", children=["it"], deadline="10s"),
                task("it", command="sleep 99"),
            ],
        }
    )
    forest.runner.advance(5)
    hook = refusing(forest, PODS)
    forest.runner.advance(8)
    forest.cluster.admission.remove(hook)
    forest.befall(name, "vanish", 0)
    workflow, nodes = forest.end(name)
    told = {node["spec"]["templateName"]: node["status"]["message"] for node in nodes.values()}
    assert phase_of(workflow) == SUCCEED
    assert told["it"].startswith("its parent's deadline is over; its pod ")
    forest.free(name)


def test_chaos_is_removed_without_a_node_status_write(forest):
    def refuse(review):
        raise Forbidden("nothing is written")

    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = forest.put_on({"entry": "cut", "templates": [cut]})
    forest.runner.advance(5)
    hook = Hook("mute", validate=refuse, resources=[SHIPPED.nodes], subresources=("status",))
    forest.cluster.admission.add(hook)
    forest.befall(name, "abort", 0)
    workflow, _ = forest.end(name)
    forest.runner.advance(2 * LONGEST_PAUSE)
    assert (phase_of(workflow), forest.chaos(name)) == (FAILED, [])
    forest.cluster.admission.remove(hook)
    forest.free(name)


def test_retry_creates_another_pod_and_an_abort_ends_it(forest):
    tried = task(
        "try",
        ("try", "stdout[5] == 'x'"),
        retry={"limit": 2, "backoff": {"duration": "5s", "factor": 2}},
    )
    phase, message, _ = ended(forest, tried)
    assert phase == FAILED
    assert "stdout[5]" in message
    aborted = ended(forest, tried, after=3, then=lambda name: forest.befall(name, "abort", 0))
    assert aborted[:2] == (FAILED, "the workflow was aborted")


def test_deleted_pod_of_an_earlier_attempt_does_not_affect_the_next(forest):
    late = {"apiVersion": "v1", "kind": "ConfigMap", "name": "late"}
    awaited = {"name": "late", "when": "Continuous", "initialDelay": "3s", "kubernetes": late}
    tried = task(
        "try", command="trap '' TERM; sleep 20", deadline="5m", retry={"limit": 1}, probes=[awaited]
    )
    name = forest.put_on({"entry": "try", "templates": [tried]})
    forest.runner.advance(5)
    assert [pod["metadata"]["name"].endswith("-2") for pod in forest.of(name, PODS)] == [
        False,
        True,
    ]
    forest.call(
        forest.api.create(CONFIG_MAPS, {"metadata": {"name": "late", "namespace": "default"}})
    )
    workflow, _ = forest.end(name)
    assert (phase_of(workflow), workflow["status"].get("message")) == (SUCCEED, None)
    forest.call(forest.api.delete(CONFIG_MAPS, "late", "default"))
    forest.free(name)


def test_node_ended_externally_is_not_retried_by_the_next_engine(forest):
    """Though it has failed by itself after that."""
    probe = {"name": "later", "when": "Continuous", "initialDelay": "20s", "kubernetes": ABSENT}
    cut = partition("cut", "1h", retry={"limit": 3}, probes=[probe])
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = forest.put_on(
        {"entry": "all", "templates": [template("all", "Serial", children=["cut"]), cut]}
    )
    forest.runner.advance(5)
    (chaos,) = forest.chaos(name)
    forest.befall(name, "stick", 0)
    forest._patch(SHIPPED.nodes, chaos["metadata"]["name"], {"annotations": {ABORT: "true"}})
    forest.runner.advance(25)
    assert "the probe 'later' has failed" in str(forest.shown(name))
    forest.befall_while_away(name, "nothing", 0, 1)
    forest._patch(NETWORK_CHAOS, chaos["metadata"]["name"], {"finalizers": None})
    forest.runner.advance(2)
    workflow, nodes = forest.end(name)
    assert [phase_of(each) for each in (workflow, *nodes.values())] == [FAILED] * 3
    assert {(node["status"]["engine"]).get("attempt", 1) for node in nodes.values()} == {1}
    forest.free(name)


BESIDE = (
    template("all", "Parallel", children=["both", "aside"]),
    template("both", "Parallel", children=["one", "two"]),
    *(suspend(name, "1h") for name in ("one", "two", "aside")),
)


@pytest.mark.parametrize("who", ["one", "both", "all", ""])
def test_object_ended_by_an_abort_names_the_aborted_node(forest, who):
    def abort(name):
        named = {
            each["spec"]["templateName"]: each["metadata"]["name"] for each in forest.nodes(name)
        }
        resource, target = (SHIPPED.nodes, named[who]) if who else (SHIPPED.workflows, name)
        forest._patch(resource, target, {"annotations": {ABORT: "true"}})

    why = f"{who}: it was aborted" if who else "the workflow was aborted"
    _, message, told = ended(forest, *BESIDE, after=2, then=abort)
    assert (message, told) == (
        why,
        dict.fromkeys(("all", "both", "one", "two", "aside"), (FAILED, why)),
    )


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("who", ["one", "both", "all"])
def test_object_ended_by_a_node_deletion_names_the_node(forest, who, propagation):
    def delete(name):
        named = {
            each["spec"]["templateName"]: each["metadata"]["name"] for each in forest.nodes(name)
        }
        forest.call(
            forest.api.delete(SHIPPED.nodes, named[who], "default", propagation=propagation)
        )

    _, message, told = ended(forest, *BESIDE, after=2, then=delete)
    assert {message, *(why for _, why in told.values())} == {f"{who}: its WorkflowNode was deleted"}


def test_finished_workflow_cannot_be_aborted(forest):
    name = forest.put_on({"entry": "rest", "templates": [suspend("rest", "1s")]})
    forest.end(name)
    forest.befall(name, "abort", 0)
    forest.runner.advance(5)
    of = f"involvedObject.name={name},involvedObject.kind=Workflow"
    told = {
        event["reason"]
        for event in forest.call(forest.api.list(EVENTS, "default", fields=of)).items
    }
    assert told == {"EntryCreated", "WorkflowAccomplished"}
    forest.free(name)


def test_exit_handler_runs_after_an_abort(forest):
    phase, message, told = ended(
        forest,
        suspend("long", "1h"),
        suspend("bye", "3s"),
        onExit="bye",
        after=5,
        then=lambda name: forest.befall(name, "abort", 0),
    )
    assert (phase, message, told["bye"][0]) == (FAILED, "the workflow was aborted", SUCCEED)


def test_later_nodes_use_the_current_spec(forest):
    def change(name):
        spec = {
            "templates": [
                template("all", "Serial", children=["one", "two"]),
                suspend("one", "9s"),
                suspend("two", "1h"),
            ]
        }
        forest.call(forest.api.patch(SHIPPED.workflows, name, {"spec": spec}, "default"))

    before = forest.runner.clock.now()
    serial = template("all", "Serial", children=["one", "two"])
    assert (
        ended(forest, serial, suspend("one", "9s"), suspend("two", "9s"), after=2, then=change)[0]
        == SUCCEED
    )
    assert forest.runner.clock.now() - before > 3600


def test_names_of_maximum_length(forest):
    label = "a" * 50
    name = ".".join([label, label, label, label, label[:48]])
    assert ended(forest, suspend(name, "1m"))[0] == SUCCEED


def test_invalid_templates(forest):
    phase, message, _ = ended(forest, suspend("odd", "soon"))
    assert phase == FAILED
    assert "'soon' is no duration" in message
    phase, message, told = ended(forest, template("all", "Serial", children=["nobody"]))
    assert (phase, told) == (FAILED, {})
    assert "there is no template 'nobody'" in message
