"""Results of scenarios read from a run's folder or from the Scenario object."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
import yaml

from pytest_kscen.__main__ import main
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.analysis.timeline import NoScenario
from pytest_kscen.scenario.models import ScenarioResult, ScenarioStatus, written
from pytest_kscen.scenario.progress import by_major_step
from tests.scenario.analysis.test_result_tables import packed, spread


def lines(result, name, *, over="Succeeded"):
    yield {"what": "scenario-phase", "scenario": name, "phase": "Running"}
    yield from (
        {"what": "scenario-event", "scenario": name, "event": written(event)}
        for event in result.timeline
    )
    yield {"what": "scenario-phase", "scenario": name, "phase": over}


def keep(folder, *parts):
    folder.mkdir(exist_ok=True)
    entries = (
        {"at": 0.0, "who": "scenario-controller", **entry} for part in parts for entry in part
    )
    (folder / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def status(result, note=None):
    reported = ScenarioStatus(
        "Succeeded", result=ScenarioResult("test", by_major_step(result.timeline), note)
    )
    return {"kind": "Scenario", "metadata": {"name": "s"}, "status": written(reported)}


def report(*arguments):
    return main(["scenario-report", *map(str, arguments)])


def test_folder_and_status_give_the_same_report(tmp_path):
    assert (
        Result.of_folder(keep(tmp_path / "run", lines(spread(), "s"))).report() == spread().report()
    )
    assert Result.of_status(status(spread())).report() == spread().report()


def test_results_for_many_nodes_are_read_as_written(tmp_path):
    from tests.scenario.analysis.events import attempted, pod, result

    filters = {f"node-{number}": {"NodeName": "passed"} for number in range(100)}
    run = result(pod(1, "x"), attempted((1, 1), "x", filter_result=filters, selected_node="node-7"))
    (attempt,) = Result.of_folder(keep(tmp_path / "run", lines(run, "s"))).attempts("x")
    assert (attempt.filters, attempt.node, dict(attempt.results)) == (
        filters,
        "node-7",
        dict(run.attempts("x")[0].results),
    )


def test_two_scenarios_require_a_name(tmp_path):
    run = keep(tmp_path / "run", lines(spread(), "one"), lines(packed(), "two"))

    with pytest.raises(NoScenario, match=r"^the run has 2 scenarios: name one of them: one, two$"):
        Result.of_folder(run)
    assert Result.of_folder(run, "two").report() == packed().report()
    with pytest.raises(
        NoScenario, match=r"has no scenario 'tow' \(did you mean 'two'\?\); there are one, two$"
    ):
        Result.of_folder(run, "tow")


def test_repeated_scenario_uses_the_last_result(tmp_path):
    run = keep(tmp_path / "run", lines(spread(), "s", over="Failed"), lines(packed(), "s"))
    assert Result.of_folder(run).report() == packed().report()


def test_report_of_a_folder(tmp_path, capsys):
    assert report(keep(tmp_path / "run", lines(spread(), "s"))) == 0
    assert capsys.readouterr().out == spread().report()


def test_truncated_status_is_reported(tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(status(spread(), "the last 2 of 9 events do not fit")))
    assert report(file) == 0
    assert capsys.readouterr().out.startswith("the last 2 of 9 events do not fit\n\nFigures\n")


def test_two_folders_are_compared_under_their_names(tmp_path, capsys):
    one, other = (
        keep(tmp_path / "least", lines(spread(), "s")),
        keep(tmp_path / "most", lines(packed(), "s")),
    )
    picture = tmp_path / "picture.svg"

    assert report(one, other, "--picture", picture) == 0
    assert capsys.readouterr().out == spread().compare(packed(), names=("least", "most")).text()
    assert ET.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert report(one, other, "--markdown", "--names", "A,B") == 0
    assert capsys.readouterr().out.startswith("## A and B\n\n|  | A | B | difference |\n")


def test_one_table_as_rows(tmp_path, capsys):
    run = keep(tmp_path / "run", lines(spread(), "s"))
    assert report(run, "--table", "pods", "--format", "jsonl") == 0
    assert capsys.readouterr().out == spread().json_lines("pods")
    assert report(run, "--table", "steps") == 0
    assert capsys.readouterr().out == spread().csv("steps")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["run", "--table", "pod"], "'pod' is not a table of a result (did you mean 'pods'?)"),
        (["run", "run", "--names", "A"], "--names=A: two names with a comma between them"),
        (["run", "run"], "two runs need different names, and both are called"),
        (["run", "--scenario", "other"], "has no scenario 'other'; there are s"),
        (["empty"], "the run in empty has no scenario\n"),
        (["nowhere"], "nowhere does not exist"),
        (["text.yaml"], "text.yaml is not a Scenario: name the folder of a run"),
        (["broken.yaml"], "broken.yaml is not a Scenario: "),
        (["fresh.yaml"], "the Scenario in fresh.yaml has no result: it has not been played"),
    ],
)
def test_invalid_input_is_refused_with_the_reason(tmp_path, monkeypatch, capsys, arguments, why):
    monkeypatch.chdir(tmp_path)
    keep(tmp_path / "run", lines(spread(), "s"))
    keep(tmp_path / "empty")
    (tmp_path / "text.yaml").write_text("just text")
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "fresh.yaml").write_text("kind: Scenario")

    assert report(*arguments) == 1
    assert why in capsys.readouterr().err
