"""Invalid or untimely Scenarios are refused with a remedy before any change."""

from __future__ import annotations

import contextlib
import re

import pytest
import yaml

from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.run.plan import Plan, ScenarioSettings
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.files import ScenarioRefused
from pytest_kscen.scenario.models import ANNOTATION
from pytest_kscen.scenario.waiting import Waiter
from tests.scenario.objects import create, done, node, pod, scenario

CONFIGURED = {"metadata": {"annotations": {ANNOTATION: "kind: KubeSchedulerConfiguration"}}}
RECAST = {
    "spec": {"controllers": {"simulationControllers": {"enabled": [{"name": "job-controller"}]}}}
}
GOOD = yaml.safe_dump(scenario(create(1, node()), done(1)))


def on_terms(runner, terms):
    return contextlib.closing(ScenarioRunner(runner.cluster, Plan(), terms=terms))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "",
            (
                "is empty: a Scenario begins with apiVersion: "
                "simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1"
            ),
        ),
        ("a: [1", ":1 is not YAML: while parsing a flow sequence expected ',' or ']'"),
        ("a:\n\t- b", ":2 is not YAML: "),
        ("- a\n- b", ":1 is not a Scenario but a list"),
        ("just text", ":1 is not a Scenario but the str 'just text'"),
        (
            "kind: Scenario",
            (
                ":1 has no apiVersion: a Scenario has "
                "'simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1'"
            ),
        ),
        (
            GOOD.replace("kind: Scenario", "kind: Scenaria"),
            " has the kind 'Scenaria': a Scenario has 'Scenario'",
        ),
        (
            GOOD.replace("x-k8s.io/v1alpha1", "x-k8s.io/v1"),
            ":1 has the apiVersion 'simulation.kube-scheduler-simulator.x-k8s.io/v1'",
        ),
        (
            GOOD.replace("  name: test\n", "  labels: {}\n"),
            " has no metadata.name: give the Scenario a name",
        ),
        (GOOD[: GOOD.index("spec:")], " has no spec: it must contain operations and controllers"),
        (GOOD + "specs: {}\n", " has the unknown field 'specs' (did you mean 'spec'?)"),
        (
            f"{GOOD}---\n{GOOD}",
            " has 2 Scenarios, 'test', 'test': give one as an object, or each its own file",
        ),
    ],
)
def test_file_that_is_no_scenario(runner, tmp_path, text, complaint):
    path = tmp_path / "it.scenario.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*{re.escape(complaint)}"):
        runner.play(path)
    assert runner.cluster.scenario_player is None


def test_missing_file(runner, tmp_path):
    (tmp_path / "small.scenario.yaml").touch()
    with pytest.raises(
        ValueError,
        match=(
            r"^there is no file '.*/smal.scenario.yaml' \(did you mean "
            r"'small.scenario.yaml'\?\)$"
        ),
    ):
        runner.play(tmp_path / "smal.scenario.yaml")


def test_value_that_is_no_scenario(runner):
    with pytest.raises(
        ValueError, match=r"^3 is neither a Scenario nor the path of a file that has one$"
    ):
        runner.play(3)


def test_other_documents_beside_the_scenario_are_ignored(runner, tmp_path):
    path = tmp_path / "it.yaml"
    path.write_text(f"{GOOD}---\napiVersion: kscen.io/v1alpha1\nkind: Expectations\n---\n")
    assert runner.play(path).phase == "Succeeded"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"operation": []}, 'unknown field "spec.operation"'),
        (
            {"operations": [{"id": "a", "step": "one", "doneOperation": {}}]},
            "operation 'a'.step: Invalid value",
        ),
        ({"operations": [{"id": "a", "doneOperation": {}}]}, "operation 'a'.step: Required value"),
        (
            {"operations": [{"id": "a", "step": 1, "create": {}}]},
            "unknown field \"operation 'a'.create\"",
        ),
    ],
)
def test_schema_refuses_invalid_scenarios(runner, change, complaint):
    wrong = scenario(done(1))
    wrong["spec"] |= change
    with pytest.raises(
        ValueError, match=f"^the API server refuses the Scenario 'test': .*{re.escape(complaint)}"
    ):
        runner.play(wrong)
    assert runner.played == []


def test_finished_scenario_accepts_no_operations(runner):
    played = runner.play(scenario(done(1)))
    with pytest.raises(
        ValueError,
        match=(r"^the scenario 'test' is Succeeded: operation 'late' cannot be added$"),
    ):
        played.create(node(), step=2, id="late")
    failed = runner.play(scenario({"id": "none", "step": 1}, name="wrong"))
    with pytest.raises(
        ValueError,
        match=(
            r"^the scenario 'wrong' is Failed \(operation 'none' must have exactly one .*\): "
            r"an operation of step 2"
        ),
    ):
        failed.done(step=2)


@pytest.mark.parametrize(
    ("patch", "subresource", "words"),
    [
        (
            CONFIGURED,
            "",
            "kubectl changed the scheduler's configuration while the scenario was running",
        ),
        (RECAST, "", "kubectl changed the scenario's controllers while the scenario was running"),
        (
            {**CONFIGURED, **RECAST},
            "",
            "kubectl changed the scheduler's configuration and the scenario's controllers while",
        ),
        (
            {"status": {"message": "well done"}},
            "status",
            f"kubectl updated {SCENARIOS.qualified} test while the scenario was running",
        ),
    ],
)
def test_immutable_fields_of_an_active_scenario(runner, patch, subresource, words):
    played = runner.play(scenario(create(1, node())))
    runner.cluster.runner.call(
        runner.cluster.api("kubectl").patch(SCENARIOS, "test", patch, subresource=subresource)
    )
    played.until_over()

    assert (played.phase, played.message.startswith(f"step 1: {words}")) == ("Failed", True), (
        played.message
    )


def test_unchanged_fields_may_be_written_again(runner):
    played = runner.play(scenario(create(1, node())))
    same = {
        "metadata": {"annotations": {"note": "mine"}},
        "spec": {"controllers": {"presimulationControllers": None}},
    }
    runner.cluster.runner.call(runner.cluster.api("kubectl").patch(SCENARIOS, "test", same))
    played.done(step=2)
    played.until_over()

    assert played.phase == "Succeeded"


def test_invalid_operation_is_refused_when_added(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        with pytest.raises(
            ValueError,
            match=(
                r"^the scenario 'scenario' cannot have this operation: "
                r".*spec.operations\[0\].step"
            ),
        ):
            played.done(step="one")
        played.done(step=1)
    assert played.phase == "Succeeded"


def test_operations_added_together_start_together(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node(), step=1)
        played.until_paused()
        played.create(pod("a"), step=2)
        played.done(step=2)
    assert played.phase == "Succeeded"


def test_scenario_is_played_again(runner):
    first = runner.play(scenario(create(1, node("a")), done(1)))
    second = runner.play(scenario(create(1, node("b")), done(1)))

    assert [each.timeline.of("create")[0].id for each in (first, second)] == ["a", "b"]
    assert first.live["metadata"]["uid"] != second.live["metadata"]["uid"]
    assert runner.play(scenario(done(1)), name="another").live["metadata"]["name"] == "another"


def test_scenario_without_done_ends_when_the_next_starts(runner):
    with runner.scenario(["kube-scheduler"], name="left") as left:
        left.create(node(), step=1)
    assert left.phase == "Paused"
    assert runner.play(scenario(done(1))).phase == "Succeeded"

    assert left.phase == "Failed"
    assert left.message == "step 1: the scenario 'test' began before its operation `done`"


def test_unfinished_scenario_ends_with_the_test(runner):
    left = runner.play(scenario(create(1, node())))
    runner.finish_scenarios()

    assert left.was_ended
    assert runner.explain_unseen_failure() == ""
    assert (left.phase, left.message) == (
        "Failed",
        "step 1: the test ended before its operation `done`",
    )


def test_scenario_not_started_leaves_nothing(runner):
    runner.scenario(["kube-scheduler"])
    runner.finish_scenarios()
    assert runner.play(scenario(done(1), name="scenario")).phase == "Succeeded"


def test_unchecked_failure_fails_the_test(runner):
    played = runner.play(scenario({"id": "none", "step": 1}))
    assert runner.explain_unseen_failure().startswith(
        "the scenario 'test' has failed, and the test did not read its phase:\noperation 'none'"
    )
    assert played.phase == "Failed"
    assert runner.explain_unseen_failure() == ""


def test_given_cluster_is_not_emptied(runner, monkeypatch):
    monkeypatch.setattr(type(runner.cluster), "owned", False)
    with pytest.raises(
        PreflightRefused,
        match="was not created by this session: allow it with --kscen-disposable",
    ):
        runner.play(scenario(done(1)))
    with on_terms(runner, ScenarioSettings(disposable=True)) as reported:
        assert reported.play(scenario(done(1))).phase == "Succeeded"


def test_results_are_written_according_to_the_settings(runner):
    with on_terms(runner, ScenarioSettings(results="OnDone")) as reported:
        played = reported.play(scenario(create(1, node())))
        assert "scenarioResult" not in played.live["status"]
        played.done(step=2)
        played.until_over()
    assert list(played.live["status"]["scenarioResult"]["timeline"]) == ["1", "2"]


def test_variable_of_the_simulator_applies(runner, monkeypatch):
    monkeypatch.setenv("UPDATE_SCENARIO_RESULTS_STRATEGY", "OnDune")
    with pytest.raises(
        ValueError,
        match=(
            r"^UPDATE_SCENARIO_RESULTS_STRATEGY='OnDune': unknown strategy; there "
            r"are AtMoving"
        ),
    ):
        runner.play(scenario(done(1)))


def test_missing_done_ends_the_scenario(runner):
    with on_terms(runner, ScenarioSettings(patience=30)) as reported:
        reported.controllers.add(Waiter("slow-controller", {NODES: lambda _: "is not painted"}))
        played = reported.play(scenario(create(1, node()), create(1, pod("a")), done(1)))
    assert played.phase == "Failed"
    assert (
        played.message
        == "step 1: not finished within 30 s: slow-controller: Node node-1 is not painted"
    )


def test_schema_refusal_names_the_operation(runner):
    with pytest.raises(ScenarioRefused, match=r"operation 'late'\.step: Invalid value"):
        runner.play(scenario(create(1, node()), {"id": "late", "step": "two", "doneOperation": {}}))


def test_model_of_the_official_client_is_an_object(runner):
    client = pytest.importorskip("kubernetes.client")
    metadata = client.V1ObjectMeta(name="settings", namespace="default")
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(
            client.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata), step=1
        )
        with pytest.raises(
            ScenarioRefused,
            match=r"operation 'nameless'\.createOperation\.object\.kind: Required value",
        ):
            played.create(client.V1ConfigMap(metadata=metadata), step=2, id="nameless")
        played.done(step=2)

    assert (played.phase, played.message) == ("Succeeded", "")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("batch/v1", "a CronJob acts by the clock"),
        ("example.com/v1", 'no matches for kind "CronJob"'),
    ],
)
def test_cron_job_belongs_to_batch(runner, version, words):
    own = {
        "apiVersion": version,
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {},
    }
    assert words in runner.play(scenario(create(1, own), done(1))).message


def test_operations_behind_the_end_are_reported(runner):
    played = runner.play(
        scenario(create(1, node()), done(2), create(3, pod("late")), create(4, pod("later")))
    )
    assert (played.phase, played.message) == (
        "Succeeded",
        "not performed, because doneOperation ended it: late, later",
    )


def test_end_of_a_paused_scenario_is_not_awaited(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node(), step=1)
        before = runner.cluster.now
        with pytest.raises(
            ValueError,
            match=(
                r"^the scenario 'scenario' is Paused: all operations are done, .*Add "
                r"done\(step=...\)"
            ),
        ):
            played.until_over()
        assert runner.cluster.now - before < 60
        played.done(step=2)
        played.until_over()
    assert played.phase == "Succeeded"


def test_other_controllers_can_be_disabled(runner):
    with runner.scenario(["kube-scheduler"], disabled=["kubelet"]) as played:
        played.create(node(), step=1)
        played.create(pod("a"), step=1)
        played.done(step=2)
    assert played.live["spec"]["controllers"]["presimulationControllers"] == {
        "disabled": [{"name": "kubelet"}]
    }
    assert played.phase == "Succeeded"
