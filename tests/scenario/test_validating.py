"""`python -m pytest_kscen validate` reports what the scenario controller would report."""

import pytest
import yaml

from pytest_kscen.__main__ import main
from tests.scenario.objects import create, done, node, pod, scenario

EXPECTATIONS = "apiVersion: kscen.io/v1alpha1\nkind: Expectations\n"
PATCH = {
    "typeMeta": {"apiVersion": "v1", "kind": "Node"},
    "objectMeta": {"name": "n"},
    "patch": "spec: {}",
}


def patched(**changes):
    return {"id": "p", "step": 1, "patchOperation": {**PATCH, **changes}}


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*texts, name="it.yaml", flags=()):
        (tmp_path / name).write_text(
            "---\n".join(each if isinstance(each, str) else yaml.safe_dump(each) for each in texts)
        )
        return main(["validate", *flags, name]), capsys.readouterr().out.splitlines()

    return call


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"id": "a", "step": 1}, "operation 'a' must have exactly one of createOperation, "),
        (
            {**create(1, node(), id="a"), "doneOperation": {}},
            "operation 'a' must have exactly one of createOperation, ",
        ),
        (
            {"id": "a", "step": 0, "doneOperation": {}},
            "operation 'a' has the step 0: steps begin with 1",
        ),
        (
            create(1, {"kind": "Pod", "metadata": {}}, id="a"),
            "operation 'a' creates an object without apiVersion, metadata.name",
        ),
        (
            create(1, {"kind": ["Pod"], "metadata": "x"}, id="a"),
            "operation 'a' creates an object without apiVersion, kind, ",
        ),
        (
            create(1, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}}),
            "operation 'c' cannot be part of a scenario: a CronJob acts by the clock",
        ),
        (
            create(
                1,
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
                },
            ),
            (
                "operation 'kube-scheduler' cannot be part of a scenario: the scheduler's "
                "configuration applies to"
            ),
        ),
        (
            patched(patchOptions={"dryRun": ["All"]}),
            "operation 'p' would change nothing: remove its option dryRun",
        ),
        (patched(patch="{"), "operation 'p' has a patch that cannot be read: "),
        (
            patched(patchType="application/json-pach+json"),
            (
                "operation 'p' has the patchType 'application/json-pach+json': there are "
                "application/strategic-merge-patch+json, "
            ),
        ),
        (create(1, node(), id="end"), "an earlier one has the same id, 'end'"),
    ],
)
def test_operations(validate, operation, why):
    text = yaml.safe_dump(scenario(done(1), operation))
    line = [number for number, each in enumerate(text.splitlines(), 1) if each.startswith("  - ")][
        1
    ]
    code, lines = validate(text)
    assert (code, lines[0].startswith(f"it.yaml:{line}: error: {why}"), lines[-1]) == (
        1,
        True,
        "1 error, 0 warnings",
    ), lines


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (
            {"controllers": ["kubelet"], "disabled": ["kubelet"]},
            "error: kubelet: a simulated controller cannot also be ",
        ),
        ({"disabled": ["*", "kubelet"]}, 'error: "*" disables all, and must be the only entry'),
        (
            {"controllers": ["cronjob-controller"]},
            "error: the controller 'cronjob-controller' cannot be part of a scenario",
        ),
        (
            {"controllers": ["kube-shceduler"]},
            "warning: there is no controller 'kube-shceduler' (did you mean 'kube-scheduler'?): ",
        ),
        (
            {"controllers": ["mine"]},
            "warning: there is no controller 'mine': register a waiter",
        ),
    ],
)
def test_controllers(validate, chosen, why):
    severity = why.partition(":")[0]
    code, lines = validate(scenario(done(1), **chosen))
    assert (code, lines[0].startswith(f"it.yaml:6: {why}"), len(lines)) == (
        int(severity == "error"),
        True,
        2,
    ), lines
    assert validate(scenario(done(1), **chosen), flags=["--strict"])[0] == 1


def test_available_controllers_are_listed(validate):
    assert (
        validate(
            scenario(
                create(1, pod("a")),
                done(1),
                disabled=["replicated-volumes", "disruption-controller"],
            )
        )[0]
        == 0
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("podz: {}\n", "3: error: podz: nothing is called 'podz' here: there are "),
        ("phase: Suceeded\n", "3: error: phase: "),
        (
            "scenario: tset\n",
            "3: error: there is no Scenario 'tset' (did you mean 'test'?); there is test",
        ),
    ],
)
def test_expectations(validate, text, why):
    wanted = scenario(done(1))
    above = len(yaml.safe_dump(wanted).splitlines()) + 1
    number, _, message = why.partition(":")
    code, lines = validate(wanted, EXPECTATIONS + text)
    assert (code, lines[0].startswith(f"it.yaml:{above + int(number)}:{message}")) == (1, True), (
        lines
    )

    validate(wanted, name="it.scenario.yaml")
    code, lines = validate(EXPECTATIONS + text, name="it.expect.yaml")
    assert (code, lines[0].startswith(f"it.expect.yaml:{why}")) == (1, True), lines


def test_operations_behind_the_end(validate):
    code, lines = validate(scenario(done(1), create(2, pod("late"))))
    assert (code, lines[1]) == (0, "0 errors, 1 warning")
    assert lines[0].endswith(": warning: operation 'late' is never performed: step 1 is the last")
