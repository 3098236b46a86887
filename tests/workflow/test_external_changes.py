"""External changes of workflows: each ends with its reason and leaves no chaos."""

from __future__ import annotations

import dataclasses

import pytest
from engine_env import ForwardingProxy, partition, suspend, task, template
from workflow_cluster import ABSENT, refuse_two_removals, refuse_writes, start_long_partition

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


def ended(workflow_cluster, *templates, entry="", after=0.0, then=lambda name: None, **spec):
    name = workflow_cluster.create_workflow(
        {"entry": entry or templates[0]["name"], "templates": list(templates), **spec}
    )
    if after:
        workflow_cluster.runner.advance(after)
        then(name)
    workflow, nodes = workflow_cluster.end(name)
    reported = {
        node["spec"]["templateName"]: (phase_of(node), node["status"].get("message", ""))
        for node in nodes.values()
    }
    assert workflow_cluster.chaos(name) == []
    workflow_cluster.free(name)
    return phase_of(workflow), workflow["status"].get("message", ""), reported


def test_loop_through_branches_ends(workflow_cluster, monkeypatch):
    monkeypatch.setattr("pytest_kscen.workflow.engine.processor.MOST_NODES", 30)
    phase, message, _ = ended(workflow_cluster, task("again", ("again", "exitCode == 0")))
    assert phase == FAILED
    assert (
        message
        == "again: the workflow would come to more than 30 nodes: check its branches for a loop that never ends"
    )


def test_tree_of_maximum_depth(workflow_cluster):
    deep = [template(f"t{number}", "Serial", children=[f"t{number + 1}"]) for number in range(190)]
    assert ended(workflow_cluster, *deep, suspend("t190", "3s"))[0] == SUCCEED


def test_siblings_end_and_their_chaos_is_removed_before_the_workflow_fails(workflow_cluster):
    bad = partition("bad")
    bad["networkChaos"]["selector"]["labelSelectors"] = {"app": "nobody"}
    good = partition("good", "10m")
    good["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    phase, message, reported = ended(
        workflow_cluster, template("both", "Parallel", children=["bad", "good"]), bad, good
    )
    assert phase == FAILED
    assert message == "bad: it was not in effect within 60 s: its selector matches nothing"
    assert reported["good"] == (FAILED, message)


def test_removal_of_chaos_is_recorded_when_possible(workflow_cluster):
    """A refused write concerns one node only."""
    held = {"metadata": {"finalizers": ["example.com/stuck"]}}
    name = start_long_partition(workflow_cluster)
    (chaos,) = workflow_cluster.chaos(name)
    workflow_cluster.call(
        workflow_cluster.api.patch(NETWORK_CHAOS, chaos["metadata"]["name"], held, "default")
    )
    workflow_cluster.disturb(name, "abort", 0)
    workflow_cluster.end(name)
    mute = Hook(
        "mute",
        validate=lambda _: "nothing is written",
        resources=[SHIPPED.nodes],
        subresources=("status",),
    )
    workflow_cluster.cluster.admission.add(mute)
    workflow_cluster.call(
        workflow_cluster.api.patch(
            NETWORK_CHAOS, chaos["metadata"]["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    workflow_cluster.runner.advance(2 * LONGEST_PAUSE)
    workflow_cluster.cluster.admission.remove(mute)
    assert not workflow_cluster.engine.done()
    workflow_cluster.runner.advance(2 * LONGEST_PAUSE)
    states = {
        condition(node, CHAOS_LEFT)["status"]
        for node in workflow_cluster.nodes(name)
        if node["spec"]["type"] == "NetworkChaos"
    }
    assert (workflow_cluster.chaos(name), states) == ([], {"False"})
    workflow_cluster.free(name)


def test_foreign_object_in_place_of_chaos_is_not_touched(workflow_cluster):
    """It appears after the chaos was read and before its deletion is requested."""
    workflow_cluster.stop()
    actor = workflow_cluster.actor()

    class Late(ForwardingProxy):
        async def delete(self, resource, name, namespace, **options):
            if resource == NETWORK_CHAOS:
                found = await workflow_cluster.api.get(resource, name, namespace)
                await workflow_cluster.api.patch(
                    resource, name, {"metadata": {"finalizers": None}}, namespace
                )
                await workflow_cluster.api.delete(resource, name, namespace)
                theirs = {
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "labels": {"whose": "theirs"},
                    },
                    "spec": found["spec"],
                }
                await workflow_cluster.api.create(resource, theirs)
            return await self._api.delete(resource, name, namespace, **options)

    workflow_cluster.start(dataclasses.replace(actor, api=Late(actor.api)))
    name = start_long_partition(workflow_cluster)
    workflow_cluster.disturb(name, "abort", 0)
    workflow, _ = workflow_cluster.end(name)
    (theirs,) = workflow_cluster.call(
        workflow_cluster.api.list(NETWORK_CHAOS, "default", labels="whose=theirs")
    ).items
    assert (phase_of(workflow), theirs["metadata"].get("deletionTimestamp")) == (FAILED, None)
    workflow_cluster.call(
        workflow_cluster.api.delete(NETWORK_CHAOS, theirs["metadata"]["name"], "default")
    )
    workflow_cluster.stop()
    workflow_cluster.start()
    workflow_cluster.free(name)


CUT_AND_REST = template("both", "Parallel", children=["cut", "rest"])
LOST = ("rest", "cut", "both")


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
@pytest.mark.parametrize("lost", LOST)
def test_node_deleted_without_an_engine_counts_as_aborted(workflow_cluster, lost, propagation):
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    spec = {
        "entry": "both",
        "onExit": "bye",
        "templates": [CUT_AND_REST, cut, suspend("rest", "1h"), suspend("bye", "3s")],
    }
    name = workflow_cluster.create_workflow(spec)
    workflow_cluster.runner.advance(5)
    workflow_cluster.stop()
    (node,) = (
        each["metadata"]["name"]
        for each in workflow_cluster.nodes(name)
        if each["spec"]["templateName"] == lost
    )
    workflow_cluster.call(
        workflow_cluster.api.delete(SHIPPED.nodes, node, "default", propagation=propagation)
    )
    workflow_cluster.runner.advance(5)
    workflow_cluster.start()
    workflow, nodes = workflow_cluster.end(name)
    assert phase_of(workflow) == FAILED
    assert workflow["status"]["message"] == f"{lost}: its WorkflowNode was deleted"
    assert workflow_cluster.chaos(name) == []
    assert {phase_of(each) for each in nodes.values()} <= {FAILED, SUCCEED}
    assert SUCCEED in {
        phase_of(each) for each in nodes.values() if each["spec"]["templateName"] == "bye"
    }


def test_chaos_of_a_lost_second_attempt_is_removed(workflow_cluster):
    cut = partition("cut", "1h", retry={"limit": 3, "backoff": {"duration": "1s"}})
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow(
        {"entry": "all", "templates": [template("all", "Serial", children=["cut"]), cut]}
    )
    workflow_cluster.runner.advance(5)
    workflow_cluster.disturb(name, "remove chaos", 0)
    workflow_cluster.runner.advance(5)
    (chaos,) = workflow_cluster.chaos(name)
    assert chaos["metadata"]["name"].endswith("-2")
    workflow_cluster.stop()
    owner = chaos["metadata"]["ownerReferences"][0]["name"]
    workflow_cluster.call(
        workflow_cluster.api.delete(SHIPPED.nodes, owner, "default", propagation="Orphan")
    )
    workflow_cluster.start()
    assert phase_of(workflow_cluster.end(name)[0]) == FAILED
    assert workflow_cluster.chaos(name) == []


ODD = {
    "an ending": ({"engine": {"ending": "Nonsense"}}, "'Nonsense' is not a valid EventType"),
    "a phase": ({"phase": "Odd"}, "Odd"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("resource", [SHIPPED.workflows, SHIPPED.nodes], ids=["workflow", "node"])
def test_foreign_value_in_a_status_fails_only_its_workflow(workflow_cluster, resource, odd):
    status, why = ODD[odd]
    beside = workflow_cluster.create_workflow(
        {"entry": "rest", "templates": [suspend("rest", "60s")]}
    )
    name = start_long_partition(workflow_cluster)
    (cut,) = (
        node["metadata"]["name"]
        for node in workflow_cluster.nodes(name)
        if node["spec"]["templateName"] == "cut"
    )
    workflow_cluster.stop()
    where = name if resource == SHIPPED.workflows else cut
    workflow_cluster.call(
        workflow_cluster.api.patch(
            resource, where, {"status": status}, "default", subresource="status"
        )
    )
    workflow_cluster.start()
    workflow, nodes = workflow_cluster.end(name)
    assert (
        phase_of(workflow),
        workflow_cluster.chaos(name),
        {phase_of(node) for node in nodes.values()},
    ) == (FAILED, [], {FAILED})
    assert "cannot be read" in workflow["status"]["message"]
    assert why in workflow["status"]["message"]
    assert phase_of(workflow_cluster.end(beside)[0]) == SUCCEED
    workflow_cluster.free(name)


def test_node_ended_before_its_deletion_keeps_its_end(workflow_cluster):
    spec = {
        "entry": "all",
        "templates": [
            template("all", "Serial", children=["one", "two"]),
            suspend("one", "1s"),
            suspend("two"),
        ],
    }
    name = workflow_cluster.create_workflow(
        {**spec, "onExit": "bye", "templates": [*spec["templates"], suspend("bye", "20s")]}
    )
    for after, lost in ((5, "one"), (10, "all")):
        workflow_cluster.runner.advance(after)
        workflow_cluster.stop()
        (node,) = (
            each["metadata"]["name"]
            for each in workflow_cluster.nodes(name)
            if each["spec"]["templateName"] == lost
        )
        workflow_cluster.call(workflow_cluster.api.delete(SHIPPED.nodes, node, "default"))
        workflow_cluster.start()
    assert phase_of(workflow_cluster.end(name)[0]) == SUCCEED


def test_refused_removal_is_retried(workflow_cluster):
    cut = partition("cut", "5s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    with refuse_two_removals(workflow_cluster, NETWORK_CHAOS) as asked:
        phase, _, reported = ended(workflow_cluster, cut)
    assert (phase, reported["cut"][0], len(asked)) == (SUCCEED, SUCCEED, 3)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
def test_chaos_held_by_a_finalizer_is_retried_until_it_is_gone(workflow_cluster, is_restarted):
    def refuse(review):
        raise Forbidden("not yet")

    hook = Hook("keeps", validate=refuse, resources=[NETWORK_CHAOS], operations=["DELETE"])
    workflow_cluster.cluster.admission.add(hook)
    cut = partition("cut", "5s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow({"entry": "cut", "templates": [cut]})
    workflow, nodes = workflow_cluster.end(name)
    why = "it was not gone within 300 s: not yet; deleting it is retried in the background"
    assert workflow["status"]["message"] == f"cut: {why}"
    (node,) = nodes.values()
    assert (is_true(node, CHAOS_LEFT), len(workflow_cluster.chaos(name))) == (True, 1)
    if is_restarted:
        workflow_cluster.stop()
        workflow_cluster.start()
    workflow_cluster.runner.advance(1800)
    assert len(workflow_cluster.chaos(name)) == 1
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.runner.advance(2 * LONGEST_PAUSE)
    (node,) = workflow_cluster.nodes(name)
    left = condition(node, CHAOS_LEFT)["status"]
    assert (workflow_cluster.chaos(name), left, phase_of(node), node["status"]["message"]) == (
        [],
        "False",
        FAILED,
        why,
    )
    workflow_cluster.free(name)


@pytest.mark.parametrize("kind", ["Serial", "Parallel"])
def test_parent_of_remaining_chaos_has_no_further_attempt(workflow_cluster, kind):
    """Otherwise the chaos would be active twice."""
    cut = partition("cut", "10s")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    above = template("above", "Serial", children=["all"], retry={"limit": 1})
    spec = {
        "entry": "above",
        "templates": [above, template("all", kind, children=["cut"], retry={"limit": 1}), cut],
    }
    name = workflow_cluster.create_workflow(spec)
    workflow_cluster.runner.advance(5)
    workflow_cluster.disturb(name, "stick", 0)
    workflow, nodes = workflow_cluster.end(name)
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
    workflow_cluster.free(name)


@pytest.mark.parametrize("label", [NODE_LABEL, WORKFLOW_LABEL])
@pytest.mark.parametrize("owners", [{}, {"ownerReferences": None}], ids=["", "an orphan"])
def test_chaos_losing_its_labels_during_removal_is_tracked(workflow_cluster, label, owners):
    """The watch no longer shows it, so the API is read."""
    name = start_long_partition(workflow_cluster)
    workflow_cluster.disturb(name, "stick", 0)
    workflow_cluster.disturb(name, "abort", 0)
    workflow_cluster.runner.advance(5)
    (chaos,) = workflow_cluster.chaos(name)
    workflow_cluster._patch(
        NETWORK_CHAOS, chaos["metadata"]["name"], {"labels": {label: None}, **owners}
    )
    workflow_cluster.runner.advance(20)
    assert phase_of(workflow_cluster.workflow(name)) == "Running"
    assert [each["metadata"]["labels"].keys() for each in workflow_cluster.chaos(name)] == [
        chaos["metadata"]["labels"].keys()
    ]
    workflow_cluster._patch(NETWORK_CHAOS, chaos["metadata"]["name"], {"finalizers": None})
    workflow_cluster.runner.advance(1)
    assert phase_of(workflow_cluster.workflow(name)) == FAILED
    workflow_cluster.free(name)


@pytest.mark.parametrize("is_away", [False, True], ids=["", "while no engine is there"])
def test_active_chaos_losing_its_labels_fails_its_node(workflow_cluster, is_away):
    """Its further state could not be observed."""
    name = start_long_partition(workflow_cluster)
    if is_away:
        workflow_cluster.disturb_without_engine(name, "strip", 0, 5)
    else:
        workflow_cluster.disturb(name, "strip", 0)
    workflow, _ = workflow_cluster.end(name)
    why = "cut: its resource or its labels were deleted, and not by the engine"
    assert (phase_of(workflow), workflow["status"]["message"], workflow_cluster.chaos(name)) == (
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
def test_temporarily_refused_removal_changes_nothing(workflow_cluster, what, is_restarted):
    made, resource, phase, message = MADE[what]
    hook = refuse_writes(workflow_cluster, resource)
    name = workflow_cluster.create_workflow({"entry": "it", "templates": [made]})
    workflow_cluster.runner.advance(18)
    if is_restarted:
        workflow_cluster.stop()
        workflow_cluster.start()
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.runner.advance(45)
    (node,) = workflow_cluster.nodes(name)
    reported = node["status"].get("message", "").partition("; its pod it-")[0]
    assert (phase_of(node), reported, workflow_cluster.of(name, resource)) == (phase, message, [])
    workflow_cluster.free(name)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("what", MADE)
def test_object_held_by_a_finalizer_is_retried_until_it_is_gone(
    workflow_cluster, what, is_restarted
):
    made, resource, _, _ = MADE[what]
    hook = refuse_writes(workflow_cluster, resource)
    name = workflow_cluster.create_workflow(
        {"entry": "it", "templates": [{**made, "retry": {"limit": 3}}]}
    )
    workflow, nodes = workflow_cluster.end(name)
    (node,) = nodes.values()
    refusal = 'admission webhook "keeps" denied the request: not yet'
    why = f"it was not gone within 300 s: {refusal}; deleting it is retried in the background"
    assert (
        workflow["status"]["message"],
        is_true(node, CHAOS_LEFT),
        len(workflow_cluster.of(name, resource)),
    ) == (f"it: {why}", True, 1)
    if is_restarted:
        workflow_cluster.stop()
        workflow_cluster.start()
    workflow_cluster.runner.advance(1800)
    assert len(workflow_cluster.of(name, resource)) == 1
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.runner.advance(LONGEST_PAUSE + 31)
    (node,) = workflow_cluster.nodes(name)
    assert (
        workflow_cluster.of(name, resource),
        condition(node, CHAOS_LEFT)["status"],
        node["status"]["message"],
    ) == ([], "False", why)
    workflow_cluster.free(name)


def test_pod_removed_while_its_end_is_refused_is_no_failure(workflow_cluster):
    name = workflow_cluster.create_workflow(
        {
            "entry": "all",
            "templates": [
                template("all", "Serial", children=["it"], deadline="10s"),
                task("it", command="sleep 99"),
            ],
        }
    )
    workflow_cluster.runner.advance(5)
    hook = refuse_writes(workflow_cluster, PODS)
    workflow_cluster.runner.advance(8)
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.disturb(name, "vanish", 0)
    workflow, nodes = workflow_cluster.end(name)
    reported = {node["spec"]["templateName"]: node["status"]["message"] for node in nodes.values()}
    assert phase_of(workflow) == SUCCEED
    assert reported["it"].startswith("its parent's deadline is over; its pod ")
    workflow_cluster.free(name)


def test_chaos_is_removed_without_a_node_status_write(workflow_cluster):
    def refuse(review):
        raise Forbidden("nothing is written")

    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow({"entry": "cut", "templates": [cut]})
    workflow_cluster.runner.advance(5)
    hook = Hook("mute", validate=refuse, resources=[SHIPPED.nodes], subresources=("status",))
    workflow_cluster.cluster.admission.add(hook)
    workflow_cluster.disturb(name, "abort", 0)
    workflow, _ = workflow_cluster.end(name)
    workflow_cluster.runner.advance(2 * LONGEST_PAUSE)
    assert (phase_of(workflow), workflow_cluster.chaos(name)) == (FAILED, [])
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.free(name)


def test_retry_creates_another_pod_and_an_abort_ends_it(workflow_cluster):
    tried = task(
        "try",
        ("try", "stdout[5] == 'x'"),
        retry={"limit": 2, "backoff": {"duration": "5s", "factor": 2}},
    )
    phase, message, _ = ended(workflow_cluster, tried)
    assert phase == FAILED
    assert "stdout[5]" in message
    aborted = ended(
        workflow_cluster,
        tried,
        after=3,
        then=lambda name: workflow_cluster.disturb(name, "abort", 0),
    )
    assert aborted[:2] == (FAILED, "the workflow was aborted")


def test_deleted_pod_of_an_earlier_attempt_does_not_affect_the_next(workflow_cluster):
    late = {"apiVersion": "v1", "kind": "ConfigMap", "name": "late"}
    awaited = {"name": "late", "when": "Continuous", "initialDelay": "3s", "kubernetes": late}
    tried = task(
        "try", command="trap '' TERM; sleep 20", deadline="5m", retry={"limit": 1}, probes=[awaited]
    )
    name = workflow_cluster.create_workflow({"entry": "try", "templates": [tried]})
    workflow_cluster.runner.advance(5)
    assert [pod["metadata"]["name"].endswith("-2") for pod in workflow_cluster.of(name, PODS)] == [
        False,
        True,
    ]
    workflow_cluster.call(
        workflow_cluster.api.create(
            CONFIG_MAPS, {"metadata": {"name": "late", "namespace": "default"}}
        )
    )
    workflow, _ = workflow_cluster.end(name)
    assert (phase_of(workflow), workflow["status"].get("message")) == (SUCCEED, None)
    workflow_cluster.call(workflow_cluster.api.delete(CONFIG_MAPS, "late", "default"))
    workflow_cluster.free(name)


def test_node_ended_externally_is_not_retried_by_the_next_engine(workflow_cluster):
    """Its own later failure does not matter."""
    probe = {"name": "later", "when": "Continuous", "initialDelay": "20s", "kubernetes": ABSENT}
    cut = partition("cut", "1h", retry={"limit": 3}, probes=[probe])
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow(
        {"entry": "all", "templates": [template("all", "Serial", children=["cut"]), cut]}
    )
    workflow_cluster.runner.advance(5)
    (chaos,) = workflow_cluster.chaos(name)
    workflow_cluster.disturb(name, "stick", 0)
    workflow_cluster._patch(
        SHIPPED.nodes, chaos["metadata"]["name"], {"annotations": {ABORT: "true"}}
    )
    workflow_cluster.runner.advance(25)
    assert "the probe 'later' has failed" in str(workflow_cluster.shown(name))
    workflow_cluster.disturb_without_engine(name, "nothing", 0, 1)
    workflow_cluster._patch(NETWORK_CHAOS, chaos["metadata"]["name"], {"finalizers": None})
    workflow_cluster.runner.advance(2)
    workflow, nodes = workflow_cluster.end(name)
    assert [phase_of(each) for each in (workflow, *nodes.values())] == [FAILED] * 3
    assert {(node["status"]["engine"]).get("attempt", 1) for node in nodes.values()} == {1}
    workflow_cluster.free(name)


BESIDE = (
    template("all", "Parallel", children=["both", "aside"]),
    template("both", "Parallel", children=["one", "two"]),
    *(suspend(name, "1h") for name in ("one", "two", "aside")),
)


@pytest.mark.parametrize("who", ["one", "both", "all", ""])
def test_object_ended_by_an_abort_names_the_aborted_node(workflow_cluster, who):
    def abort(name):
        named = {
            each["spec"]["templateName"]: each["metadata"]["name"]
            for each in workflow_cluster.nodes(name)
        }
        resource, target = (SHIPPED.nodes, named[who]) if who else (SHIPPED.workflows, name)
        workflow_cluster._patch(resource, target, {"annotations": {ABORT: "true"}})

    why = f"{who}: it was aborted" if who else "the workflow was aborted"
    _, message, reported = ended(workflow_cluster, *BESIDE, after=2, then=abort)
    assert (message, reported) == (
        why,
        dict.fromkeys(("all", "both", "one", "two", "aside"), (FAILED, why)),
    )


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("who", ["one", "both", "all"])
def test_object_ended_by_a_node_deletion_names_the_node(workflow_cluster, who, propagation):
    def delete(name):
        named = {
            each["spec"]["templateName"]: each["metadata"]["name"]
            for each in workflow_cluster.nodes(name)
        }
        workflow_cluster.call(
            workflow_cluster.api.delete(
                SHIPPED.nodes, named[who], "default", propagation=propagation
            )
        )

    _, message, reported = ended(workflow_cluster, *BESIDE, after=2, then=delete)
    assert {message, *(why for _, why in reported.values())} == {
        f"{who}: its WorkflowNode was deleted"
    }


def test_finished_workflow_cannot_be_aborted(workflow_cluster):
    name = workflow_cluster.create_workflow({"entry": "rest", "templates": [suspend("rest", "1s")]})
    workflow_cluster.end(name)
    workflow_cluster.disturb(name, "abort", 0)
    workflow_cluster.runner.advance(5)
    of = f"involvedObject.name={name},involvedObject.kind=Workflow"
    reported = {
        event["reason"]
        for event in workflow_cluster.call(
            workflow_cluster.api.list(EVENTS, "default", fields=of)
        ).items
    }
    assert reported == {"EntryCreated", "WorkflowAccomplished"}
    workflow_cluster.free(name)


def test_exit_handler_runs_after_an_abort(workflow_cluster):
    phase, message, reported = ended(
        workflow_cluster,
        suspend("long", "1h"),
        suspend("bye", "3s"),
        onExit="bye",
        after=5,
        then=lambda name: workflow_cluster.disturb(name, "abort", 0),
    )
    assert (phase, message, reported["bye"][0]) == (FAILED, "the workflow was aborted", SUCCEED)


def test_later_nodes_use_the_current_spec(workflow_cluster):
    def change(name):
        spec = {
            "templates": [
                template("all", "Serial", children=["one", "two"]),
                suspend("one", "9s"),
                suspend("two", "1h"),
            ]
        }
        workflow_cluster.call(
            workflow_cluster.api.patch(SHIPPED.workflows, name, {"spec": spec}, "default")
        )

    before = workflow_cluster.runner.clock.now()
    serial = template("all", "Serial", children=["one", "two"])
    assert (
        ended(
            workflow_cluster,
            serial,
            suspend("one", "9s"),
            suspend("two", "9s"),
            after=2,
            then=change,
        )[0]
        == SUCCEED
    )
    assert workflow_cluster.runner.clock.now() - before > 3600


def test_names_of_maximum_length(workflow_cluster):
    label = "a" * 50
    name = ".".join([label, label, label, label, label[:48]])
    assert ended(workflow_cluster, suspend(name, "1m"))[0] == SUCCEED


def test_invalid_templates(workflow_cluster):
    phase, message, _ = ended(workflow_cluster, suspend("odd", "soon"))
    assert phase == FAILED
    assert "'soon' is not a duration" in message
    phase, message, reported = ended(
        workflow_cluster, template("all", "Serial", children=["nobody"])
    )
    assert (phase, reported) == (FAILED, {})
    assert "there is no template 'nobody'" in message
