"""Collection of `*.scenario.yaml`: tests, failures, messages and reports."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import yaml

from tests.scenario.objects import create, delete, done, node, pod, scenario

WAITS = scenario(
    create(1, node()),
    create(2, pod("fits", "1500m")),
    create(3, pod("waits", "1")),
    done(4),
    name="waits",
)
HEAD = "apiVersion: kscen.io/v1alpha1\nkind: Expectations\n"


def write(pytester, *documents, name="small.scenario.yaml"):
    """Write objects and texts as documents of one file; return the line of the last one."""
    texts = [each if isinstance(each, str) else yaml.safe_dump(each) for each in documents]
    (pytester.path / name).write_text("---\n".join(texts))
    return len("---\n".join([*texts[:-1], ""]).splitlines()) + 1


def test_each_scenario_is_a_test(pytester):
    write(pytester, WAITS, scenario(done(1), name="empty"))
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["small.scenario.yaml::waits PASSED*", "small.scenario.yaml::empty PASSED*"]
    )


def test_scenarios_are_selected_by_marker_and_name(pytester):
    write(pytester, WAITS, scenario(done(1), name="empty"))
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest("-m", "scenario").assert_outcomes(passed=2, deselected=1)
    pytester.runpytest("-k", "empty").assert_outcomes(passed=1, deselected=2)
    pytester.runpytest("small.scenario.yaml::waits").assert_outcomes(passed=1)


def test_expectations_that_hold(pytester):
    expected = (
        f"{HEAD}pods:\n  fits: {{node: node-1, step: [2, 1]}}\n  waits: {{pending: "
        "true}\nallocation: {cpu: {3: 0.75}}\n"
    )
    write(pytester, WAITS, f"{expected}events: {{podScheduled: 1, create: 3}}\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_expectations_in_a_separate_file(pytester):
    write(pytester, WAITS)
    (pytester.path / "small.expect.yaml").write_text(f"{HEAD}pods:\n  waits: {{pending: false}}\n")
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        ["*small.expect.yaml:4: pods.waits.pending: expected False, observed pending"]
    )


def test_failure_shows_expected_and_actual_values(pytester):
    begins = write(
        pytester,
        WAITS,
        f"{HEAD}phase: Failed\nmessage: nodes\npods:\n  fits: {{node: [node-2, node-3], "
        "step: 3, state: pending}\n"
        "  wait: {node: node-1}\n  'w*': {count: 2}\nallocation: {cpu: {3: "
        "0.5}}\nevents: {podScheduled: 2}\n",
    )
    result = pytester.runpytest("small.scenario.yaml")
    result.assert_outcomes(failed=1)
    reported = result.stdout.str()
    for line, what in (
        (begins + 2, "phase: expected Failed, observed Succeeded"),
        (begins + 3, "message: expected one with 'nodes', observed none"),
        (begins + 5, "pods.fits.node: expected one of node-2, node-3, observed node-1"),
        (begins + 5, "pods.fits.step: expected 3, observed 2.1"),
        (begins + 5, "pods.fits.state: expected pending, observed placed"),
        (
            begins + 6,
            "pods.wait: expected a pod, observed none of this name (did you mean 'waits'?)",
        ),
        (begins + 7, "pods.w*.count: expected 2, observed 1"),
        (begins + 8, "allocation.cpu.3: expected 0.5, observed 0.75"),
        (begins + 9, "events.podScheduled: expected 2, observed 1"),
    ):
        assert f"small.scenario.yaml:{line}: {what}\n" in reported
    again = next(line for line in reported.splitlines() if line.startswith("pytest small"))
    assert "--kscen-seed=" in again
    pytester.runpytest(*shlex.split(again)[1:]).assert_outcomes(failed=1)


def test_failed_scenario_prints_its_reason(pytester):
    write(pytester, scenario(delete(1, "Pod", "nobody"), name="wrong"))
    pytester.runpytest().stdout.fnmatch_lines(
        [
            (
                "  by default: phase: expected Succeeded, observed Failed (operation 'delete "
                "nobody' of step 1 failed: pods*not found)"
            )
        ]
    )


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        (["a: [1"], "small.scenario.yaml:1 is not YAML: "),
        (["a: 1"], "small.scenario.yaml:1 has no apiVersion: a Scenario has"),
        ([HEAD], "small.scenario.yaml has no Scenario: one begins with apiVersion"),
        ([WAITS, WAITS], ": there is a Scenario 'waits' before it"),
        ([WAITS, HEAD, HEAD], ": duplicate expectations of 'waits': "),
        (
            [WAITS, scenario(done(1), name="b"), HEAD],
            ": expectations need the name of their scenario: write scenario: NAME; ",
        ),
        (
            [WAITS, f"{HEAD}scenario: wait\n"],
            ": there is no Scenario 'wait' (did you mean 'waits'?); small.scenario.yaml has waits",
        ),
        (
            [WAITS, f"{HEAD}fase: Failed\n"],
            ": fase: nothing is called 'fase' here: there are apiVersion, kind, scenario, phase, ",
        ),
        ([WAITS, f"{HEAD}fase: Failed\n"], "events (did you mean 'phase'?)"),
        (
            [WAITS, f"{HEAD}phase: Suceeded\n"],
            (
                "phase: 'Suceeded' is not a phase: there are Succeeded, Failed, Paused (did you "
                "mean 'Succ"
            ),
        ),
        (
            [WAITS, f"{HEAD}pods: [a]\n"],
            "pods: ['a'] does not fit: give names of pods, or patterns as in web-*",
        ),
        (
            [WAITS, f"{HEAD}pods: {{a: {{nod: b}}}}\n"],
            "pods.a.nod: nothing is called 'nod' here: there are node, step, state, pending",
        ),
        (
            [WAITS, f"{HEAD}pods: {{a: {{step: 0}}}}\n"],
            "pods.a.step: 0 does not fit: give the step at which it got its node: a whole",
        ),
        (
            [WAITS, f"{HEAD}allocation: {{cpu: 1}}\n"],
            "allocation.cpu: 1 does not fit: give steps with the allocated share",
        ),
        ([WAITS, f"{HEAD}events: {{podSheduled: 1}}\n"], "(did you mean 'podScheduled'?)"),
        (
            [WAITS, f"{HEAD}message: 3\n"],
            "message: 3 is not a string: write a part of the expected message",
        ),
    ],
)
def test_invalid_file_is_a_collection_error(pytester, documents, complaint):
    write(pytester, *documents)
    result = pytester.runpytest("-W", "ignore")
    result.assert_outcomes(errors=1)
    assert complaint in result.stdout.str()


def test_scenario_is_reported_like_a_run(pytester):
    write(pytester, WAITS)
    result = pytester.runpytest(
        "--junitxml=junit.xml", "--kscen-archive=runs", "--alluredir=allure"
    )
    result.stdout.fnmatch_lines(
        [
            "*kscen runs*",
            (
                "small.scenario.yaml::waits: scenario waits: Succeeded after 4 steps, * of "
                "cluster time; seed *"
            ),
            "  pods: 1 scheduled, 1 on nodes at the end, 1 without a node: waits",
            "  cpu allocated by step: 1: 0%, 2: 75%, 3: 75%, 4: 75%",
        ]
    )
    reported = {
        one.get("name"): one.get("value")
        for one in ET.parse(pytester.path / "junit.xml").iter("property")
    }
    assert (
        reported["kscen.scenario"],
        reported["kscen.scenario.phase"],
        reported["kscen.scenario.pending"],
    ) == ("waits", "Succeeded", "1")
    (folder,) = (pytester.path / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "journal.jsonl",
        "changes.jsonl.gz",
        "run.json",
        "outcome.json",
        "summary.txt",
    }
    assert json.loads((folder / "outcome.json").read_text())["placed"] == {"fits": "node-1"}
    assert json.loads((folder / "run.json").read_text())["command"].startswith(
        "pytest small.scenario.yaml::waits --kscen-seed="
    )
    (shown,) = [
        json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")
    ]
    assert [step["name"] for step in shown["steps"]] == ["scenario waits: Succeeded"]


def test_xdist_worker_plays_scenarios(pytester):
    pytest.importorskip("xdist")
    write(pytester, WAITS)
    result = pytester.runpytest_subprocess("-n1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["small.scenario.yaml::waits: scenario waits: Succeeded *"])


def test_unchecked_failed_scenario_fails_its_test(pytester):
    pytester.makepyfile(f"""
        def test_it(scenario_runner):
            scenario_runner.play({scenario({"id": "none", "step": 1})!r})
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["the scenario 'test' has failed, and the test did not read its phase:"]
    )


def test_scenarios_of_one_test_each_have_a_folder(pytester):
    pytester.makepyfile(f"""
        def test_it(scenario_runner):
            small = {scenario(done(1))!r}
            assert scenario_runner.play(small).phase == scenario_runner.play(small, name="again").phase == "Succeeded"
    """)
    pytester.runpytest("--kscen-archive=runs").assert_outcomes(passed=1)
    outcomes = [
        json.loads((folder / "outcome.json").read_text())
        for folder in sorted((pytester.path / "runs").iterdir())
    ]
    assert [one["scenario"] for one in outcomes] == ["test", "again"]


def test_shared_cluster_plays_for_one_test_after_another(pytester):
    pytester.makepyfile(f"""
        import pytest

        pytestmark = pytest.mark.cluster(scope="module", nodes=0)
        NODE = {node()!r}

        def test_left(scenario_runner):
            with scenario_runner.scenario(["kube-scheduler"]) as left:
                left.create(NODE, step=1)

        def test_next(scenario_runner):
            with scenario_runner.scenario(["kube-scheduler"]) as played:
                played.done(step=1)
            assert played.phase == "Succeeded"
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["  step 1: the test ended before its operation `done`"])


MISSPELT = """\
apiVersion: simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1
kind: Scenario
metadata: {name: misspelt}
spec:
  controllers: {simulationControllers: {enabled: [{name: kube-scheduler}]}}
  operations:
  - step: one
    doneOpration: {}
  - step: 2
    patchOperation:
      typeMeta: {apiVersion: v1, kind: Node}
      objectMeta: {name: n}
      patch: {spec: {}}
  - {id: end, step: 3, doneOperation: {}}
  - {id: end, step: 4, doneOperation: {}}
"""


def test_mismatch_is_reported_at_collection_with_lines(pytester):
    (pytester.path / "misspelt.scenario.yaml").write_text(MISSPELT)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*misspelt.scenario.yaml:7 step is 'one': it has to be a whole number",
            (
                "*misspelt.scenario.yaml:8 unknown field 'doneOpration' (did you "
                "mean 'doneOperation'?)"
            ),
            "*misspelt.scenario.yaml:13 patch is {'spec': {}}: it has to be a text",
            "*misspelt.scenario.yaml:15 an earlier one has the same id, 'end'",
        ]
    )


def test_nothing_is_imported_for_a_project_without_scenarios(pytester):
    pytester.makepyfile("def test_it(): pass")
    program = (
        "import sys, pytest; pytest.main(['-q']); print(sorted(m for m in sys.modules if "
        "m.startswith('pytest_kscen.scenario')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_plugin_file_is_found_beside_the_scenario_file(pytester):
    folder = pytester.mkdir("here")
    enabled = {"multiPoint": {"enabled": [{"name": "plugins_beside:Never"}]}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": enabled}],
    }
    (folder / "plugins_beside.py").write_text(
        "from pytest_kscen.scheduler import Plugin, unschedulable\n"
        "class Never(Plugin):\n"
        "    def filter(self, state, pod, node):\n"
        "        return unschedulable('never')\n"
    )
    played = scenario(create(1, node()), create(2, pod("a")), done(3), name="never")
    write(
        pytester,
        played,
        configuration,
        f"{HEAD}pods: {{a: {{state: pending}}}}\n",
        name="here/never.scenario.yaml",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_expectation_about_missing_steps_and_resources_fails(pytester):
    begins = write(pytester, WAITS, f"{HEAD}allocation:\n  cpu: {{99: 0.75}}\n  gpu: {{3: 0}}\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            (
                f"*small.scenario.yaml:{begins + 3}: allocation.cpu.99: expected 0.75, "
                "observed no such step: the last is 4"
            ),
            (
                f"*small.scenario.yaml:{begins + 4}: allocation.gpu.3: expected 0, observed "
                "no node has 'gpu'*"
            ),
        ]
    )
