"""Equal YAML gives equal results from a test, from kubectl and from a Schedule."""

import pytest
from engine_env import EngineEnv, suspend

from pytest_kscen.objects.chaos_mesh import SHIPPED, phase_of
from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.workflow.engine.manager import WorkflowManager

LENGTH = {"name": "how-long", "value": "10s", "paths": ["templates[rest].deadline"]}
REST = {"entry": "rest", "templates": [suspend("rest", "1h")], "parameters": [LENGTH]}


def obj(kind, spec, name="w", api_version="chaos-mesh.org/v1alpha1"):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_parameters_are_substituted(scenario_runner):
    with scenario_runner as run:
        schedule = run.schedule(
            obj(
                "Schedule",
                {"schedule": "@every 1m", "type": "Workflow", "workflow": REST},
                name="tick",
            )
        )
        run.call(
            run.cluster.api("kubectl").create(SHIPPED.workflows, obj("Workflow", REST), "default")
        )
        create_workflow = run.workflow(obj("Workflow", REST, name="by-the-test"))
        run.advance("80s")
        (applied,) = [
            each
            for each in run.call(run.cluster.api("test").list(SHIPPED.workflows)).items
            if each["metadata"]["name"] == "w"
        ]
    assert (phase_of(applied), applied["spec"]["templates"][0]["deadline"]) == ("Succeed", "1h")
    assert [each.duration for each in (create_workflow, *schedule.workflows)] == [10, 10]


@pytest.fixture
def engine_env():
    engine_env = EngineEnv()
    yield engine_env
    engine_env.close()


def test_mismatched_value_fails_an_admitted_workflow(engine_env):
    engine_env.runner.start(WorkflowManager(engine_env.actor()).run(), "engine")
    engine_env.create_workflow("rest", suspend("rest"), parameters=[{**LENGTH, "value": 10}])
    engine_env.runner.advance(1)
    (workflow,) = engine_env.all(SHIPPED.workflows)
    why = (
        "spec.parameters[0]: parameter 'how-long': templates[rest].deadline: the field has "
        "a string ('10s'), and 10 is a number"
    )
    assert (phase_of(workflow), workflow["status"]["message"]) == ("Failed", why)


def ten_seconds_each(kind, name, api_version="chaos-mesh.org/v1alpha1"):
    type_ = {"type": "Workflow"} if kind == "Schedule" else {}
    rest = {"entry": "rest", "templates": [suspend("rest", "1s")]}
    return obj(kind, {"schedule": "@every 10s", **type_, "workflow": rest}, name, api_version)


@pytest.mark.parametrize(
    "both",
    [
        [
            ten_seconds_each("Schedule", "s" * 52 + "-a"),
            ten_seconds_each("Schedule", "s" * 52 + "-b"),
        ],
        [
            ten_seconds_each("Schedule", "tick"),
            ten_seconds_each("CronWorkflow", "tick", "workflow.kscen.io/v1alpha1"),
        ],
    ],
    ids=["they begin alike", "one name"],
)
def test_no_schedule_adopts_runs_of_another(scenario_runner, both):
    with scenario_runner as run:
        one, other = [run.schedule(each) for each in both]
        run.advance("45s")
        events = run.call(run.cluster.api("test").list(EVENTS, "default")).items
    assert [len(one.spawned), len(other.spawned)] == [4, 4]
    assert {*one.spawned}.isdisjoint(other.spawned)
    assert [each.phase for each in (*one.workflows, *other.workflows)] == ["Succeed"] * 8
    assert max(map(len, one.spawned)) <= 63
    assert {
        event["reason"]
        for event in events
        if event["involvedObject"]["kind"] in ("Schedule", "CronWorkflow")
    } == {"Spawned"}
