"""Use of @pytest.mark.workflow(file) in a project."""

from __future__ import annotations

import pytest
import yaml

from tests.workflow.validation.drafts import serial, suspend, workflow

LENGTH = {"name": "length", "value": "5s", "paths": ["templates[pause].deadline"]}


@pytest.fixture
def project(pytester):
    """A workflow with a parameter, in a folder beside the tests."""
    (pytester.path / "flows").mkdir()
    text = yaml.safe_dump(workflow(suspend(), parameters=[LENGTH]))
    text += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: there, namespace: default}\n"
    (pytester.path / "flows" / "pause.yaml").write_text(text)
    (pytester.path / "flows" / "round.yaml").write_text(
        yaml.safe_dump(workflow(serial("a", "a")), sort_keys=False)
    )
    return pytester


def test_marked_test_plays_its_workflow(project):
    project.makepyfile("""
        import pytest

        @pytest.mark.workflow("flows/pause.yaml")
        def test_as_it_is(workflow):
            assert workflow.phase == "Succeed"
            assert workflow.node("pause").duration == 5

        @pytest.mark.workflow("flows/pause.yaml", parameters={"length": "7s"})
        def test_with_a_parameter(workflow, scenario_runner):
            assert workflow.node("pause").duration == 7
            assert workflow.live["spec"]["templates"][0]["deadline"] == "7s"
            assert scenario_runner.runs[-1].outcome.leftovers == []
    """)
    project.runpytest().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        (
            "'flows/round.yaml'",
            "flows/round.yaml:12: error: template 'a': a → a is an endless loop",
        ),
        ("'flows/paus.yaml'", "flows/paus.yaml'* (did you mean 'pause.yaml'?)"),
        (
            "'flows/pause.yaml', parameters={'lenght': 1}",
            "there is no parameter 'lenght' (did you mean 'length'?)",
        ),
        ("'flows/pause.yaml', within='soon'", "'soon' is not a duration"),
        (
            "file=1, to=2",
            "@pytest.mark.workflow takes a file, and the keywords parameters={...} and within='1h'",
        ),
    ],
)
def test_invalid_marker_is_refused_at_collection(project, mark, complaint):
    project.makepyfile(
        f"import pytest\n\n@pytest.mark.workflow({mark})\ndef test_it(workflow): pass\n"
    )
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    words = complaint.split("*")
    assert all(each in result.stderr.str() for each in words), result.stderr.str()


def test_unplayed_workflow_fails_the_test(project):
    project.makepyfile(
        "import pytest\n\n@pytest.mark.workflow('flows/pause.yaml')\ndef "
        "test_it(scenario_runner): pass\n"
    )
    result = project.runpytest()
    assert "the workflow is never played: request the fixture `workflow`" in result.stderr.str()


def test_marker_without_workflow_is_refused(project):
    project.makepyfile("def test_it(workflow): pass\n")
    result = project.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*the fixture workflow plays what the test's @pytest.mark.workflow(file) names*"]
    )
