"""Collection of `*.workflow.yaml`: tests, failures and messages."""

from __future__ import annotations

import pathlib
import shutil

import pytest
import yaml

from tests.workflow.validation.drafts import serial, suspend, task, workflow

SAMPLE = (
    pathlib.Path(__file__).parents[2]
    / "scenarios"
    / "samples"
    / "workflows"
    / "cut-then-kill.workflow.yaml"
)
HEAD = "apiVersion: kscen.io/v1alpha1\nkind: Expectations\n"
ASKS = {"name": "main", "image": "busybox", "command": ["sh", "-c", "exit 3"]}
SHORT = workflow(
    serial("all", "pause", "ask"),
    suspend(deadline="5s"),
    task("ask", ("calm", "exitCode == 0")),
    suspend("calm"),
)
SHORT["spec"]["templates"][2]["task"]["container"] = ASKS


def write(pytester, *documents, name="small.workflow.yaml"):
    """Write the documents; return the line of the last one."""
    texts = [
        each if isinstance(each, str) else yaml.safe_dump(each, sort_keys=False)
        for each in documents
    ]
    (pytester.path / name).write_text("---\n".join(texts))
    return len("---\n".join([*texts[:-1], ""]).splitlines()) + 1


def test_each_workflow_is_a_test(pytester):
    other = {**workflow(suspend()), "metadata": {"generateName": "other-"}}
    write(pytester, SHORT, other)
    result = pytester.runpytest("-v", "-m", "workflow")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["small.workflow.yaml::w PASSED*", "small.workflow.yaml::other PASSED*"]
    )


def test_objects_beside_the_workflow_are_applied_first(pytester):
    shutil.copy(SAMPLE, pytester.path)
    pytester.runpytest("cut-then-kill.workflow.yaml::cut-then-kill").assert_outcomes(passed=1)


def test_failure_shows_expected_and_actual_values(pytester):
    write(pytester, SHORT)
    (pytester.path / "small.expect.yaml").write_text(
        f"{HEAD}workflow: w\nphase: Failed\nmessage: too late\nscore: 50\nduration: "
        "{least: 5s, most: 1s}\nnodes:\n"
        "  pause: {phase: Failed, phases: [Init], duration: {most: 4s}, count: 2}\n  "
        "calm: {phase: Succeed}\n  ask: {ran: false}\n"
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    reported = result.stdout.str()
    for line, what in (
        (4, "phase: expected Failed, observed Succeed"),
        (5, "message: expected one with 'too late', observed "),
        (6, "score: expected at least 50, observed no probe"),
        (7, "duration.most: expected at most 1s, observed "),
        (9, "nodes.pause.count: expected 2, observed 1"),
        (9, "nodes.pause.phase: expected Failed, observed Succeed"),
        (9, "nodes.pause.phases: expected Init, observed Init → Holding → Succeed"),
        (9, "nodes.pause.duration.most: expected at most 4s, observed 5s"),
        (10, "nodes.calm: expected a node, observed none"),
        (11, "nodes.ask.ran: expected no node, observed 1 of them"),
    ):
        assert f"small.expect.yaml:{line}: {what}" in reported, what
    assert "duration.least" not in reported


def test_slow_workflow_fails(pytester):
    write(pytester, workflow(suspend(deadline="2h")), f"{HEAD}within: 10m\n")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    late = r"not true within 10m of cluster time: the end of the workflow .*/w"
    stands = r"it is Running, and stands at pause-\w+ \(Suspend, Holding\)"
    result.stdout.re_match_lines(
        [
            (
                r".*small.workflow.yaml:\d+: within: expected an end within 10m, observed "
                rf"{late}: {stands}"
            )
        ]
    )


def test_missing_namespace_is_reported_in_words(pytester):
    obj = workflow(suspend())
    write(pytester, {**obj, "metadata": {"name": "w", "namespace": "nowhere"}})
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['namespaces "nowhere" not found'])
    assert "Generator" not in result.stdout.str()


ODD = workflow(suspend(deadline="1s", dedline="3s"), suspend("alone"))


def test_questionable_field_is_a_warning(pytester):
    write(pytester, ODD)
    result = pytester.runpytest("-W", "default")
    result.assert_outcomes(passed=1, warnings=2)
    result.stdout.fnmatch_lines(
        [
            (
                "*WorkflowWarning: *small.workflow.yaml:*: warning: template 'pause': "
                "unknown field 'dedline'*"
            ),
            "*WorkflowWarning: *small.workflow.yaml:*: warning: template 'alone': *",
        ]
    )


def test_strict_mode_turns_warnings_into_errors(pytester):
    write(pytester, ODD)
    result = pytester.runpytest("-W", "error")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*small.workflow.yaml:*: warning: template 'pause': unknown field 'dedline'*"]
    )


def test_questionable_object_is_a_warning(pytester):
    pytester.makepyfile(
        "def test_it(scenario_runner):\n    with scenario_runner as run:\n        "
        f"run.workflow({ODD!r})\n"
    )
    pytester.runpytest("-W", "default").assert_outcomes(passed=1, warnings=2)


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        (["a: [1"], "small.workflow.yaml:1 is not YAML: "),
        (
            [HEAD],
            (
                "small.workflow.yaml has no Workflow: one begins with apiVersion: "
                "chaos-mesh.org/v1alpha1 and kind: Workflow"
            ),
        ),
        ([SHORT, SHORT], ": there is a Workflow 'w' before it"),
        (
            [workflow(serial("a", "b"))],
            "small.workflow.yaml:12: error: template 'a': there is no template 'b'",
        ),
        (
            [SHORT, {"kind": "Pod"}],
            ": error: this is not a Kubernetes object: set apiVersion and kind",
        ),
        ([SHORT, f"{HEAD}workflow: v\n"], ": there is no Workflow 'v'; small.workflow.yaml has w"),
        (
            [SHORT, f"{HEAD}fase: Failed\n"],
            "nothing is called 'fase' here: there are apiVersion, kind, workflow, phase, message",
        ),
        (
            [SHORT, f"{HEAD}phase: Succeeded\n"],
            "'Succeeded' is not a phase: there are Succeed, Failed (did you mean 'Succeed'?)",
        ),
        (
            [SHORT, f"{HEAD}nodes: {{paus: {{}}}}\n"],
            "nodes.paus: there is no template 'paus': there are all, pause, ask, calm (did you",
        ),
        (
            [SHORT, f"{HEAD}nodes: {{pause: {{ran: 1}}}}\n"],
            "nodes.pause.ran: 1 does not fit: give true or false",
        ),
        (
            [SHORT, f"{HEAD}duration: 5s\n"],
            "duration: '5s' does not fit: give bounds, as in {least: 60s, most: 62s}",
        ),
        (
            [SHORT, f"{HEAD}duration: {{least: soon}}\n"],
            "duration.least: 'soon' does not fit: give a duration, as in 90s",
        ),
        (
            [SHORT, f"{HEAD}score: 101\n"],
            "score: 101 does not fit: give the least score, from 0 to 100",
        ),
    ],
)
def test_invalid_file_is_a_collection_error(pytester, documents, complaint):
    write(pytester, *documents)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert complaint in result.stdout.str().replace("\n", " ")
