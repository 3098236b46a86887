"""Output and exit code of `python -m pytest_kscen validate` for all inputs."""

from __future__ import annotations

import io
import pathlib

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kscen.__main__ import main
from tests.scenario.objects import done, scenario
from tests.workflow.validation.drafts import suspend, workflow

SAMPLES = pathlib.Path(__file__).parents[2] / "scenarios" / "samples"
MISTAKEN = SAMPLES / "two-mistakes.scenario.yaml"
BROKEN = """\
apiVersion: chaos-mesh.org/v1alpha1
kind: Workflow
metadata: {name: broken}
spec:
  entry: all
  templates:
  - name: all
    templateType: Serial
    children:
    - pause
    - pauze
  - name: pause
    templateType: Suspend
    deadlin: 1s
"""


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    """Return the exit code and the printed lines, errors last."""
    monkeypatch.chdir(tmp_path)

    def call(*texts, flags=()):
        names = []
        for number, text in enumerate(texts):
            names.append(f"{number}.yaml")
            pathlib.Path(names[-1]).write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main(["validate", *flags, *names])
        message = capsys.readouterr()
        return code, [*message.out.splitlines(), *message.err.splitlines()]

    return call


def test_valid_file_is_accepted(validate):
    texts = [yaml.safe_dump(workflow(suspend())), yaml.safe_dump(scenario(done(1)))]
    assert validate(*texts) == (0, ["0 errors, 0 warnings"])


def test_errors_are_reported_with_file_line_and_template(validate):
    assert validate(BROKEN) == (
        1,
        [
            (
                "0.yaml:11: error: template 'all': there is no template 'pauze' (did you "
                "mean 'pause'?)"
            ),
            (
                "0.yaml:12: error: template 'pause': deadline is missing: without it a "
                "Suspend never ends"
            ),
            (
                "0.yaml:14: warning: template 'pause': unknown field 'deadlin' (did "
                "you mean 'deadline'?): it is ignored"
            ),
            "2 errors, 1 warning",
        ],
    )


def test_warnings_are_accepted_unless_strict(validate):
    text = yaml.safe_dump(workflow(suspend(), suspend("b")), sort_keys=False)
    code, (reported, counted_nodes) = validate(text)
    assert (code, counted_nodes) == (0, "0 errors, 1 warning")
    assert reported == (
        "0.yaml:12: warning: template 'b': it cannot be reached from the entry 'pause', "
        "so it never runs"
    )
    code, (reported, counted_nodes) = validate(text, flags=["--strict"])
    assert (code, counted_nodes) == (1, "1 error, 0 warnings")
    assert reported.startswith("0.yaml:12: error: template 'b': ")


def test_each_document_of_each_file_is_checked(validate):
    code, lines = validate(f"---\n{BROKEN}---\n{BROKEN}", yaml.safe_dump(workflow(suspend())))
    assert code == 1
    assert [line.partition(":")[0] for line in lines[:-1]] == ["0.yaml"] * 6
    assert [line.split(":")[1] for line in lines[:-1]] == ["12", "13", "15", "27", "28", "30"]
    assert lines[-1] == "4 errors, 2 warnings"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: v1\nkind: Pod\n",
            "0.yaml:1: skipped: v1 Pod: only Workflow, Schedule, CronWorkflow, Scenario are checked",
        ),
        (
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\n",
            "0.yaml:1: skipped: argoproj.io/v1alpha1 Workflow: only ",
        ),
        (
            "apiVersion: chaos-mesh.org/v1alpha1\nkind: WorkflowNode\n",
            "0.yaml:1: skipped: chaos-mesh.org/v1alpha1 WorkflowNode: only ",
        ),
        (
            "apiVersion: kscen.io/v1alpha1\nkind: Expectations\n",
            "0.yaml:1: skipped: expectations are checked together with their Scenario or Workflow",
        ),
        ("# nothing\n", "0.yaml: skipped: it is empty"),
    ],
)
def test_unknown_kinds_are_skipped(validate, text, message):
    code, lines = validate(text)
    assert code == 0
    assert lines[0].startswith(message)
    assert lines[1] == "0 errors, 0 warnings"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: chaos-mesh.org/v1alpha1\nkind: Workflo\n",
            "0.yaml:2: error: the kind is 'Workflo': it is none of Workflow,",
        ),
        (
            "kind: Workflow\n",
            "0.yaml:1: error: the apiVersion is nothing: it has to be chaos-mesh.org/v1alpha1 or",
        ),
        (
            "- 1\n",
            "0.yaml:1: error: not a Kubernetes object: add its apiVersion and kind",
        ),
        (
            BROKEN.replace("deadlin:", "deadline:") + "    deadline: 2s\n",
            "0.yaml:15: error: 'deadline' occurs twice",
        ),
        (
            yaml.safe_dump({**scenario(done(1)), "spek": {}}),
            "0.yaml:14: error: has the unknown field 'spek' (did you mean 's",
        ),
    ],
)
def test_values_of_wrong_types(validate, text, message):
    code, lines = validate(text)
    assert code == 1
    assert any(line.startswith(message) for line in lines), lines


@pytest.mark.parametrize("text", ["a: [", b"\xff\xff", "&a [*a]", "[" * 3000])
def test_unreadable_input_is_unusable(validate, text):
    code, lines = validate(text, BROKEN)
    assert code == 2
    assert lines[-1].startswith("0.yaml")
    assert lines[-2] == "2 errors, 1 warning"


def test_missing_file(capsys):
    assert main(["validate", "nowhere.yaml"]) == 2
    assert "there is no file 'nowhere.yaml'" in capsys.readouterr().err


def test_folder_and_standard_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = pathlib.Path("folder")
    (folder / "deep").mkdir(parents=True)
    assert main(["validate", "folder"]) == 2
    assert capsys.readouterr() == ("", "folder has no *.yaml or *.yml files\n")
    for name in ("deep/a.yml", "b.yaml", "notes.txt"):
        (folder / name).write_text(BROKEN)
    monkeypatch.setattr("sys.stdin", io.StringIO(BROKEN))
    assert main(["validate", "folder", "-"]) == 1
    reported = capsys.readouterr().out.splitlines()
    assert list(dict.fromkeys(line.partition(":")[0] for line in reported)) == [
        "folder/b.yaml",
        "folder/deep/a.yml",
        "standard input",
        "6 errors, 3 warnings",
    ]


def test_kubectl_booleans_are_reported(validate):
    bare = BROKEN.replace("name: pause", "name: N").replace(
        "{name: broken}", "{name: broken, annotations: {y: 'n'}}"
    )
    message = (
        "warning: an unquoted y or n is text here, and a boolean for kubectl: put it in quotes"
    )
    assert [line for line in validate(bare)[1] if "unquoted" in line] == [
        f"0.yaml:3: {message}",
        f"0.yaml:12: {message}",
    ]
    _, lines = validate(
        bare.replace("name: N", "name: 'N'").replace("{y:", "{'y':"),
        bare.replace("name: N", "name: no"),
    )
    assert [line for line in lines if "unquoted" in line] == [f"1.yaml:3: {message}"]
    assert "1.yaml:12: error: False is not a string: put it in quotes" in lines


def test_our_samples_are_valid(capsys):
    samples = sorted(str(path) for path in SAMPLES.rglob("*.yaml") if path != MISTAKEN)
    assert main(["validate", "--strict", *samples]) == 0, capsys.readouterr().out


EXPECTED = "apiVersion: kscen.io/v1alpha1\nkind: Expectations\n"
RIGHT = yaml.safe_dump(workflow(suspend()), sort_keys=False)
MISTAKES = {
    "phase: Done\n": ":3: error: phase: 'Done' is not a phase: there are Succeed, Failed",
    "nodes:\n  pauze: {ran: true}\n": (
        ":4: error: nodes.pauze: there is no template 'pauze': there are pause (did"
    ),
    "workflow: other\n": ":3: error: there is no Workflow 'other'; there is",
    "nodes: {pause: {duration: {least: soon}}}\n": (
        ":3: error: nodes.pause.duration.least: 'soon' does not fit: give a duration"
    ),
    "phase: Failed\n": "",
}


@pytest.mark.parametrize("where", ["beside it", "in the file"])
@pytest.mark.parametrize("text", MISTAKES)
def test_expectations_of_a_workflow(text, where, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    beside = where == "beside it"
    pathlib.Path("it.workflow.yaml").write_text(
        RIGHT if beside else f"{EXPECTED}{text}---\n{RIGHT}"
    )
    name = "it.expect.yaml" if beside else "it.workflow.yaml"
    if beside:
        pathlib.Path(name).write_text(f"{EXPECTED}{text}")
    why = MISTAKES[text]
    assert main(["validate", name]) == bool(why)
    assert capsys.readouterr().out.startswith(f"{name}{why}" if why else "0 errors")


def test_expectation_names_one_of_two_workflows(validate):
    first, second = (
        yaml.safe_dump({**workflow(suspend()), "metadata": {"name": name}}) for name in "ab"
    )
    code, lines = validate(f"{EXPECTED}phase: Failed\n---\n{first}---\n{second}")
    assert (code, lines[0]) == (
        1,
        (
            "0.yaml:1: error: expectations need the name of their workflow: "
            "write workflow: NAME; there are a, b"
        ),
    )


def test_expectation_of_a_missing_workflow(validate):
    code, lines = validate(
        f"{EXPECTED}nodes: {{all: {{ran: "
        f"true}}}}\n---\n{BROKEN.replace('templates:', 'templatez:')}"
    )
    assert (
        code,
        lines[0].startswith("0.yaml:3: error: nodes.all: there is no template 'all'"),
    ) == (1, True)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.dates()
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)
keys = st.sampled_from(["apiVersion", "kind", "metadata", "spec"])
kinds = st.sampled_from(["Workflow", "Schedule", "Scenario", "Expectations"])
versions = st.sampled_from(
    [
        "chaos-mesh.org/v1alpha1",
        "kscen.io/v1alpha1",
        "simulation.kube-scheduler-simulator.sigs.k8s.io/v1alpha1",
    ]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=50,
)
@given(rest=st.dictionaries(keys | st.text(max_size=3), values), kind=kinds, version=versions)
def test_no_yaml_causes_a_traceback(validate, rest, kind, version):
    code, lines = validate(yaml.safe_dump({"apiVersion": version, "kind": kind, **rest}))
    assert code in {0, 1}
    assert lines


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=50,
)
@given(
    text=st.text(alphabet="akd:-[]{},&*!|>'\"? \n%1.", max_size=30), at=st.integers(0, len(BROKEN))
)
def test_no_text_causes_a_traceback(validate, text, at):
    code, _ = validate(BROKEN[:at] + text + BROKEN[at:])
    assert code in {0, 1, 2}
