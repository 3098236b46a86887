"""Workflows on the embedded cluster: phases of each node, to the second of simulated time."""

import asyncio

import pytest
from engine_env import partition

from pytest_kscen.objects.chaos_mesh import ALL_INJECTED, KINDS, SHIPPED, phase_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.run.workflows import family_on
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.files import WorkflowRefused, WorkflowWarning

NETWORK_CHAOS = KINDS["NetworkChaos"].resource


def workflow(entry, *templates, name="w"):
    spec = {"entry": entry, "templates": list(templates)}
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": spec,
    }


def template(name, kind, **fields):
    return {"name": name, "templateType": kind, **fields}


def suspend(name, deadline):
    return template(name, "Suspend", deadline=deadline)


@pytest.fixture
def play(scenario_runner):
    def play(obj):
        with scenario_runner as run:
            create_workflow = run.workflow(obj)
            run.until(create_workflow.finished, timeout="1h")
        assert run.outcome.leftovers == []
        return create_workflow

    return play


def test_children_run_serially_or_in_parallel(play):
    played = play(
        workflow(
            "entry",
            template("entry", "Serial", children=["both", "first"]),
            template("both", "Parallel", children=["first", "second"]),
            suspend("first", "10s"),
            suspend("second", "20s"),
        )
    )
    assert played.phase == "Succeed"
    assert played.duration == 30
    assert played.node("entry").phases == [
        *(
            "Init",
            "WaitingForSchedule",
            "WaitingForChild",
            "WaitingForSchedule",
            "WaitingForChild",
            "Succeed",
        )
    ]
    assert played.node("both").phases == [
        "Init",
        "WaitingForSchedule",
        "WaitingForChild",
        "WaitingForChild",
        "Succeed",
    ]
    assert [node.duration for node in played.nodes if node.template == "first"] == [10, 10]


def test_deadline_ends_descendants_without_a_failure(play):
    obj = workflow(
        "entry",
        template("entry", "Serial", children=["short", "after"]),
        template("short", "Parallel", children=["long"], deadline="5s"),
        suspend("long", "1h"),
        suspend("after", "1s"),
    )
    with pytest.warns(
        WorkflowWarning, match="template 'long': 1h is longer than its parent 'short' has: 5s"
    ):
        played = play(obj)
    assert played.phase == "Succeed"
    assert (played.node("short").duration, played.node("long").duration, played.duration) == (
        5,
        5,
        6,
    )


@pytest.mark.parametrize("above", ["Serial", "Parallel"])
def test_task_ended_by_its_parents_deadline_fails_without_failing_the_parent(play, above):
    sleeps = {"container": {"name": "c", "image": "busybox", "command": ["sleep", "600"]}}
    top = template("top", above, children=["short"], deadline="10s")
    played = play(
        workflow(
            "top",
            top,
            template("short", above, children=["task"]),
            template("task", "Task", task=sleeps),
        )
    )
    assert [played.node(name).phase for name in ("task", "short", "top")] == [
        "Failed",
        "Succeed",
        "Succeed",
    ]
    why = f"its parent's deadline is over; its pod {played.node('task').name} was still Running"
    assert (played.phase, played.duration, played.node("task").message) == ("Succeed", 10, why)


def test_unevaluable_branch_fails_the_workflow_with_its_reason(play):
    task = {"container": {"name": "main", "image": "busybox", "command": ["sh", "-c", "exit 3"]}}
    branches = [{"target": "next", "expression": "exitCode % 0 == 3"}]
    played = play(
        workflow(
            "entry",
            template("entry", "Parallel", children=["task", "long"]),
            template("task", "Task", task=task, conditionalBranches=branches),
            suspend("long", "1h"),
            suspend("next", "1s"),
        )
    )
    assert played.phase == "Failed"
    assert "exitCode % 0" in played.message
    assert played.node("long").phase == "Failed"
    assert played.node("next") is None


def map_expression(name, when, expression, **more):
    of = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "map",
        "namespace": "default",
        "expression": expression,
    }
    return {"name": name, "when": when, "kubernetes": of, **more}


def workflow_with_map(run, **data):
    run.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "map", "namespace": "default"},
            "data": data,
        }
    )


def test_probes_determine_the_result_of_a_workflow(scenario_runner):
    obj = workflow("entry", suspend("entry", "25s"))
    obj["spec"]["probes"] = [
        map_expression("steady", "Edges", "object.data.word == 'good'"),
        map_expression(
            "always",
            "Continuous",
            "object.data.word == 'good'",
            interval="10s",
            stopOnFailure=False,
            weight=3,
        ),
    ]
    with scenario_runner as run:
        workflow_with_map(run, word="good")
        create_workflow = run.workflow(obj)
        run.advance("15s")
        workflow_with_map(run, word="bad")
        run.until(create_workflow.finished)
        status = create_workflow.live["status"]
    assert create_workflow.phase == "Failed"
    assert "steady" in create_workflow.message
    assert status["resilienceScore"] == 0
    assert [(probe["name"], probe["verdict"], probe["count"]) for probe in status["probes"]] == [
        ("steady", "Failed", 2),
        ("always", "Failed", 3),
    ]


@pytest.mark.parametrize(
    ("when", "phases"), [("Start", ["Init", "Failed"]), ("End", ["Init", "Holding", "Failed"])]
)
def test_failed_edge_probe_fails_its_node(scenario_runner, when, phases):
    probes = [map_expression("steady", when, "object.data.word == 'good'")]
    with scenario_runner as run:
        workflow_with_map(run, word="bad")
        create_workflow = run.workflow(
            workflow("entry", template("entry", "Suspend", deadline="5s", probes=probes))
        )
        run.until(create_workflow.finished)
    assert create_workflow.phase == "Failed"
    assert create_workflow.node("entry").phases == phases


def test_node_is_retried_after_its_backoff(scenario_runner):
    probes = [map_expression("steady", "Start", "object.data.word == 'good'")]
    retry = {"limit": 3, "backoff": {"duration": "10s", "factor": 2}}
    with scenario_runner as run:
        workflow_with_map(run, word="bad")
        create_workflow = run.workflow(
            workflow(
                "entry", template("entry", "Suspend", deadline="5s", probes=probes, retry=retry)
            )
        )
        run.advance("15s")
        workflow_with_map(run, word="good")
        run.until(create_workflow.finished)
    assert create_workflow.phase == "Succeed"
    assert [at for phase, at in create_workflow.node("entry").history if phase == "Init"] == [
        0,
        0,
        10,
    ]
    assert create_workflow.node("entry").ended == 35
    assert create_workflow.score == 100


def test_workflow_that_can_only_hang_is_refused_first(scenario_runner):
    with (
        scenario_runner as run,
        pytest.raises(ValueError, match="template 'entry': there is no template 'nex'"),
    ):
        run.workflow(workflow("entry", template("entry", "Serial", children=["nex"])))


def test_events_have_the_documented_reasons(scenario_runner):
    task = {"container": {"name": "main", "image": "busybox", "command": ["true"]}}
    branches = [{"target": "next", "expression": "exitCode == 0"}]
    with scenario_runner as run:
        obj = workflow(
            "entry",
            template("entry", "Task", task=task, conditionalBranches=branches),
            suspend("next", "1s"),
        )
        create_workflow = run.workflow(obj)
        run.until(create_workflow.finished)
        run.advance("1s")
        events = run.cluster.runner.call(run.cluster.api("test").list(EVENTS, "default")).items
    reported = [
        (event["involvedObject"]["kind"], event["reason"])
        for event in events
        if event["involvedObject"]["kind"].startswith("Work")
    ]
    assert sorted(reported) == sorted(
        [
            ("Workflow", "EntryCreated"),
            ("WorkflowNode", "TaskPodSpawned"),
            ("WorkflowNode", "TaskPodPodCompleted"),
            ("WorkflowNode", "ConditionalBranchesSelected"),
            ("WorkflowNode", "NodesCreated"),
            ("WorkflowNode", "NodeAccomplished"),
            ("WorkflowNode", "NodeAccomplished"),
            ("Workflow", "WorkflowAccomplished"),
        ]
    )


def test_standalone_schedule_is_kept_for_the_run(scenario_runner):
    body = {
        "schedule": "@every 10s",
        "historyLimit": 5,
        "workflow": workflow("entry", suspend("entry", "1s"))["spec"],
    }
    of_both = {
        "apiVersion": "workflow.kscen.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "tick"},
    }
    with scenario_runner as run:
        tick = run.schedule({**of_both, "spec": {**body, "type": "Workflow"}})
        run.advance("35s")
        assert (tick.name, tick.live["spec"]["schedule"]) == ("tick", "@every 10s")
        spawned = run.cluster.runner.call(
            run.cluster.api("test").list(SHIPPED.workflows, "default")
        ).items
    assert [phase_of(each) for each in spawned] == ["Succeed"] * 3
    assert [(each.name, each.phase, each.duration) for each in tick.workflows] == [
        (name, "Succeed", 1) for name in tick.spawned
    ]
    assert (len(tick.spawned), tick.failed) == (3, [])
    assert run.outcome.leftovers == []


def test_workflow_applied_another_way_is_driven(scenario_runner):
    with scenario_runner as run:
        run.workflows.drive()
        run.call(
            run.cluster.api("kubectl").create(
                SHIPPED.workflows, workflow("entry", suspend("entry", "10s")), "default"
            )
        )
        run.advance("11s")
        (there,) = run.call(run.cluster.api("test").list(SHIPPED.workflows, "default")).items
    assert phase_of(there) == "Succeed"


def test_active_workflow_applied_another_way_is_ended_with_the_run(scenario_runner):
    cut = partition("entry", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    pod = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "pause"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": pod}
    with scenario_runner as run:
        run.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a"},
                "spec": spec,
            },
            available_within="1m",
        )
        run.workflows.drive()
        kubectl, call = run.cluster.api("kubectl"), run.cluster.runner.call
        call(kubectl.create(SHIPPED.workflows, workflow("entry", cut), "default"))
        run.advance("11s")
        (chaos,) = call(kubectl.list(NETWORK_CHAOS)).items
        assert is_true(chaos, ALL_INJECTED)
    left = [
        call(kubectl.list(resource)).items
        for resource in (NETWORK_CHAOS, SHIPPED.workflows, SHIPPED.nodes)
    ]
    assert (left, run.outcome.leftovers, run.outcome.verdict) == ([[], [], []], [], "valid")


def test_workflow_of_an_earlier_engine_is_ended(scenario_runner):
    async def begin():
        return asyncio.get_running_loop().create_task(
            WorkflowManager(run.context.actor("another")).run()
        )

    with scenario_runner as run:
        family, kubectl = family_on(run.cluster), run.cluster.api("kubectl")
        another = run.call(begin())
        run.call(
            kubectl.create(family.workflows, workflow("entry", suspend("entry", "10h")), "default")
        )
        run.advance("3s")
        another.cancel()
        run.call(asyncio.wait([another]))
        run.workflows.drive()
        run.advance("3s")
    assert run.cluster.runner.call(kubectl.list(SHIPPED.workflows)).items == []


def test_duplicate_names_are_refused(scenario_runner):
    with scenario_runner as run:
        run.workflow(workflow("entry", suspend("entry", "1s")))
        with pytest.raises(WorkflowRefused, match="start it by another name"):
            run.workflow(workflow("entry", suspend("entry", "1s")))


def test_unchecked_failed_workflow_fails_its_test(pytester):
    broken = template(
        "entry", "Suspend", deadline="1s", probes=[map_expression("steady", "Start", "false")]
    )
    pytester.makepyfile(f"""
        def test_it(scenario_runner):
            with scenario_runner as run:
                put_on = run.workflow({workflow("entry", broken)!r})
                run.until(put_on.finished)
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*the workflow 'w' has failed, and the test did not read its phase:*"]
    )


FAILING = """
def test_it(scenario_runner):
    fails = {"name": "a", "templateType": "Task", "deadline": "1s", "task": {"container": {"name": "c", "image": "x"}}}
    spec = {"schedule": "@every 10s", "type": "Workflow", "historyLimit": 1, "workflow": {"entry": "a", "templates": [fails]}}
    schedule = {"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "Schedule", "metadata": {"name": "tick"}, "spec": spec}
    with scenario_runner as run:
        tick = run.schedule(schedule)
        run.advance("%s")
    %s
"""


@pytest.mark.parametrize(
    ("lasts", "looks", "outcome"),
    [
        ("35s", "pass", {"passed": 1, "errors": 1}),
        ("35s", "assert len(tick.failed) == 3", {"passed": 1}),
        ("10s", "pass", {"passed": 1}),
    ],
    ids=["nobody looks", "somebody does", "it was still on"],
)
def test_unchecked_failed_run_of_a_schedule_fails_its_test(pytester, lasts, looks, outcome):
    pytester.makepyfile(FAILING % (lasts, looks))
    result = pytester.runpytest()
    result.assert_outcomes(**outcome)
    if "errors" in outcome:
        result.stdout.fnmatch_lines(
            ["*the workflow 'tick-*' has failed, and the test did not read its phase:*"]
        )


def test_workflow_deleted_by_others_is_not_awaited(scenario_runner):
    with scenario_runner as run:
        create_workflow = run.workflow(workflow("entry", suspend("entry", "1h")))
        run.advance("5s")
        run.cluster.runner.call(
            run.cluster.api("somebody").delete(SHIPPED.workflows, "w", "default")
        )
        run.until(create_workflow.finished, timeout="1m")
    assert (create_workflow.phase, create_workflow.message) == (
        "Running",
        "it was deleted before it ended",
    )
