"""Guarantees of tests in whole runs: embedded and on the real control plane, and from archives."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys

import pytest

import pytest_kscen as kscen
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.journal import stored_changes
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.report.archive import ArchiveReport
from pytest_kscen.report.protocol import ReportedTest
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

FAILING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "default",
        "annotations": {"kscen.io/exit-code": "1", "kscen.io/exit-after": "3s"},
    },
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "pause"}]},
}
NONE_FAILS = kscen.always(
    "pods", "!has(object.status.phase) || object.status.phase != 'Failed'", name="none fails"
)
ONE_RUNS = kscen.sometimes("pods", "object.status.phase == 'Running'", name="one runs")


@kscen.eventually("pods/p", within="30s")
def ends(obj):
    return obj["status"].get("phase") in {"Succeeded", "Failed"}


def verdicts(outcome):
    return {result.name: result.verdict for result in outcome.guarantees}


def test_guarantees_of_the_plan_and_of_the_run_are_judged(runner_of):
    runner = runner_of(Plan(guarantees=(NONE_FAILS, ONE_RUNS)))
    with runner as run:
        run.apply(FAILING)
        run.guarantee(ends)
        run.advance("1m")

    assert verdicts(run.outcome) == {
        "none fails": "invalid",
        "one runs": "valid",
        "ends": "valid",
    }
    assert run.outcome.guarantees["none fails"].violations == ("pods default/p",)
    assert run.outcome.verdict == "invalid"
    assert "guarantee 'none fails' is invalid: not true of pods default/p from" in (
        run.outcome.explain()
    )


def test_deletion_by_the_run_itself_is_not_judged(runner_of):
    held = kscen.always("pods", "!has(object.metadata.deletionTimestamp)")
    sleeping = {**FAILING, "metadata": {"name": "p", "namespace": "default"}}
    with runner_of(Plan(guarantees=(held,))) as run:
        run.apply(sleeping)
        run.advance("1m")

    assert verdicts(run.outcome) == {held.name: "valid"}


def test_second_declaration_of_a_name_is_refused_and_the_run_continues(runner_of):
    with runner_of(Plan(guarantees=(ONE_RUNS,))) as run:
        with pytest.raises(ValueError, match="two are named 'one runs'"):
            run.guarantee(ONE_RUNS)
        run.apply(FAILING)
        run.advance("1m")

    assert verdicts(run.outcome) == {"one runs": "valid"}


def test_record_that_breaks_makes_the_result_unknown_and_blames_the_harness(runner_of):
    with runner_of(Plan(guarantees=(NONE_FAILS,))) as run:
        run.changes.follow(lambda change: change.no_such_field)
        run.apply(FAILING)
        run.advance("1m")

    assert verdicts(run.outcome) == {"none fails": "unknown"}
    assert "harness: the record of changes is incomplete" in run.outcome.guarantees[0].why


@pytest.fixture
def archived(runner_of, tmp_path):
    test = ReportedTest("test_x", "1", {}, "", "")
    plan = Plan(guarantees=(NONE_FAILS, ONE_RUNS))
    runner = runner_of(plan, test=test, reports=[ArchiveReport(tmp_path)])
    with runner as run:
        run.apply(FAILING)
        run.guarantee(ends)
        run.advance("1m")
    return tmp_path / "test_x"


def judged_again(folder):
    command = [sys.executable, "-m", "pytest_kscen", "judge", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_archive_is_judged_again_with_its_record(archived):
    written = json.loads((archived / "outcome.json").read_bytes())
    again = judged_again(archived)

    assert [one["verdict"] for one in written["guarantees"]] == ["invalid", "valid", "valid"]
    assert again.returncode == 1
    assert "guarantee 'none fails' is invalid: not true of pods default/p from" in again.stdout
    assert "'ends' is unknown: its predicate is a function, which the archive" in again.stdout


def test_archive_without_its_record_is_unknown(archived):
    (archived / "changes.jsonl.gz").unlink()

    again = judged_again(archived)

    assert again.returncode == 2
    assert "changes.jsonl.gz is missing: restore it" in again.stdout


def test_damaged_record_makes_the_guarantees_unknown(archived):
    (archived / "changes.jsonl.gz").write_bytes(gzip.compress(b"{}\nno JSON\n"))

    again = judged_again(archived)

    assert again.returncode == 2
    assert "guarantees is unknown: the check crashed: RecordDamaged" in again.stdout
    assert "cannot be read near line 2" in again.stdout


def test_record_has_every_resource_and_its_writers(archived):
    changes = list(stored_changes(archived / "changes.jsonl.gz"))

    resources = {change.resource for change in changes}
    assert {"pods", "nodes", "leases.coordination.k8s.io", "events", "namespaces"} <= resources
    of_pod = [one for one in changes if (one.resource, one.name) == ("pods", "p")]
    assert [one.writer for one in of_pod if one.writer][:2] == ["pytest-kscen", "kubelet"]
    assert of_pod[-1].new is None
    assert [one.at for one in changes] == sorted(one.at for one in changes)


def ended(run):
    pods = run.cluster.runner.call(run.cluster.api("test").list(PODS)).items
    return any(one["status"].get("phase") == "Failed" for one in pods)


def scenario(*names):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    steps = [{"step": 1, "createOperation": {"object": node}}, {"step": 2, "doneOperation": {}}]
    return {
        "apiVersion": SCENARIOS.api_version,
        "kind": SCENARIOS.kind,
        "metadata": {"name": names[0]},
        "spec": {
            "controllers": {"simulationControllers": {"enabled": [{"name": "kube-scheduler"}]}},
            "operations": steps,
        },
    }


def test_guarantees_are_judged_in_each_played_scenario(runner_of):
    one_node = kscen.sometimes("nodes/n", "true", name="the node exists")
    other = kscen.sometimes("nodes/m", "true", name="another exists")
    runner = runner_of(Plan(guarantees=(one_node, other)))

    first, second = runner.play(scenario("first")), runner.play(scenario("second"))
    runner.finish_scenarios()

    results = {"the node exists": "valid", "another exists": "unknown"}
    unseen = runner.explain_unseen_failure()
    for played in (first, second):
        assert {one.name: one.verdict for one in played.guarantees} == results
    assert unseen == (
        "the scenario 'first' does not keep a guarantee: 'another exists' is unknown: "
        "no object of 'nodes/m' was seen"
    )
    assert runner.explain_unseen_failure() == ""


def test_guarantees_are_judged_while_a_workflow_runs(runner_of):
    pause = {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "entry": "rest",
            "templates": [{"name": "rest", "templateType": "Suspend", "deadline": "30s"}],
        },
    }
    ends = kscen.eventually(
        "workflows/w",
        "has(object.status.conditions) && object.status.conditions.exists(c, "
        "c.type == 'Accomplished' && c.status == 'True')",
        within="1m",
        name="the workflow ends",
    )
    with runner_of(Plan(guarantees=(ends,))) as run:
        run.until(run.workflow(pause).finished)
        run.advance("1s")

    assert verdicts(run.outcome) == {"the workflow ends": "valid"}


@pytest.mark.controlplane
def test_guarantees_on_the_real_control_plane():
    with (
        contextlib.closing(ControlPlaneCluster("guarantees", nodes=2)) as cluster,
        contextlib.closing(ScenarioRunner(cluster, Plan())) as runner,
        runner as run,
    ):
        run.guarantee(NONE_FAILS, ONE_RUNS, ends)
        run.apply(FAILING)
        run.until(lambda: ended(run), timeout="1m")
        run.advance("1s")

    assert verdicts(run.outcome) == {"none fails": "invalid", "one runs": "valid", "ends": "valid"}
    assert run.outcome.guarantees["none fails"].violations == ("pods default/p",)
    assert run.changes.count > 100


def test_only_declared_kinds_are_recorded_on_a_cluster_of_others():
    seen = set()
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"level": "7"},
    }
    low = kscen.always("configmaps/settings", "int(object.data.level) < 5", name="low")
    with (
        contextlib.closing(EmbeddedCluster("port", nodes=0)) as cluster,
        contextlib.closing(KubeconfigCluster(cluster.kubeconfig)) as theirs,
        contextlib.closing(ScenarioRunner(theirs, Plan())) as runner,
        runner as run,
    ):
        run.changes.follow(lambda change: seen.add(change.resource))
        run.guarantee(low)
        run.apply(config_map)
        run.until(lambda: seen, timeout="1m")

    assert seen == {"configmaps"}
    assert verdicts(run.outcome) == {"low": "invalid"}
