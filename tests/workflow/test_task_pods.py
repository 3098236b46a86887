"""Input of a Task's pod at its start, and handling of its output."""

from __future__ import annotations

import json

from engine_env import partition, suspend, task, template

from pytest_kscen.objects.chaos_mesh import KINDS, SHIPPED
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS

A_KIBIBYTE = "x" * 1023 + "\n"


def workflow(*templates):
    spec = {"entry": templates[0]["name"], "templates": list(templates)}
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": spec,
    }


def test_pod_sees_the_workflow_as_of_its_creation(scenario_runner):
    look = task(
        "look", command="sleep 5; cat /var/run/chaos-mesh/workflow.json; cat /notes/own; exit 7"
    )
    look["task"]["volumes"] = [{"name": "own", "configMap": {"name": "own"}}]
    look["task"]["container"]["volumeMounts"] = [{"name": "own", "mountPath": "/notes"}]
    own = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "own"},
        "data": {"own": "and its own"},
    }
    with scenario_runner as run:
        run.apply(own)
        create_workflow = run.workflow(
            workflow(
                template("all", "Serial", children=["rest", "look"]), suspend("rest", "3s"), look
            )
        )
        api = run.cluster.api("test")
        run.until(lambda: create_workflow.node("look"))
        run.advance("2s")
        run.call(
            api.patch(
                SHIPPED.workflows,
                "w",
                {"metadata": {"annotations": {"changed": "later"}}},
                "default",
            )
        )
        run.until(create_workflow.finished)
        name = create_workflow.node("look").name
        written = run.call(api.log(name, "default"))
        live = create_workflow.live
    snapshot, end = json.JSONDecoder().raw_decode(written)
    assert written[end:] == "and its own"
    assert (snapshot["kind"], snapshot["metadata"]["uid"], snapshot["spec"]) == (
        "Workflow",
        live["metadata"]["uid"],
        live["spec"],
    )
    assert (snapshot["status"]["phase"], snapshot["status"]["entryNode"]) == (
        "Running",
        create_workflow.node("all").name,
    )
    assert "annotations" not in snapshot["metadata"]
    assert create_workflow.phase == "Succeed"


def test_files_of_a_pod_are_deleted_with_it(scenario_runner):
    with scenario_runner as run:
        create_workflow = run.workflow(workflow(task("look")))
        run.until(create_workflow.finished)
        api = run.cluster.api("test")
        run.call(api.delete(SHIPPED.workflows, "w", "default", propagation="Background"))
        run.advance("10s")
        left = [
            obj["metadata"]["name"]
            for kind in (CONFIG_MAPS, PODS)
            for obj in run.call(api.list(kind, "default")).items
        ]
    assert [name for name in left if name.startswith("look")] == []


def test_hundred_megabytes_of_output_choose_no_branch(scenario_runner):
    async def talk(container):
        for _ in range(100):
            container.log.write(A_KIBIBYTE * 1024)
        return 0

    talker = template("talk", "Task", task={"container": {"name": "main", "image": "talker"}})
    talker["conditionalBranches"] = [{"target": "rest", "expression": "exitCode == 0"}]
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}}}
    with scenario_runner as run:
        run.cluster.site.images.register(talk, image="talker")
        run.apply(
            {**pod, "spec": {"containers": [{"name": "c", "image": "pause"}]}},
            available_within="1m",
        )
        both = template("both", "Parallel", children=["cut", "later"])
        later = template("later", "Serial", children=["rest", "talk"])
        create_workflow = run.workflow(workflow(both, cut, later, suspend("rest", "10s"), talker))
        run.until(create_workflow.finished)
        api = run.cluster.api("test")
        assert run.call(api.list(KINDS["NetworkChaos"].resource)).items == []
    words = "its output is longer than 1048576 bytes, the limit of expressions: write less output"
    assert (
        create_workflow.phase,
        create_workflow.node("talk").message,
        create_workflow.node("cut").phase,
    ) == (
        "Failed",
        words,
        "Failed",
    )
    assert "Holding" in create_workflow.node("cut").phases
