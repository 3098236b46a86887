"""A run that is judged again from its folder, when its cluster is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_kscen.chaos.pods import PodDestroy
from pytest_kscen.checks.outcome import judge
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import read
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.durations import in_words
from pytest_kscen.reports.again import main
from pytest_kscen.reports.archive import begin, finish
from pytest_kscen.reports.command import main as tell_story
from pytest_kscen.runs.plan import Plan, PlanWarning
from pytest_kscen.runs.runner import ScenarioRunner

CHURN = Churn(max_volumes=2)


def keep(folder, plan, conduct):
    """Play it; its cluster and its journal are closed when this returns."""
    cluster = EmbeddedCluster("again")
    runner = ScenarioRunner(cluster, plan, parent=cluster.parent, keep=lambda _: begin(folder, {"test": "it"}))
    conduct(runner)
    (run,) = runner.runs
    finish(folder, run.journal, run.outcome)
    runner.close()
    cluster.close()


def test_a_folder_to_which_a_run_that_is_on_writes_is_not_taken_from_it(tmp_path):
    cluster = EmbeddedCluster("twice")
    first, second = (ScenarioRunner(cluster, Plan(), keep=lambda _: begin(tmp_path, {"test": "it"})) for _ in range(2))
    with first as run:
        before = run.journal.content()
        with pytest.raises(ValueError, match=f"a run that is still on writes to {tmp_path}: wait for its end, or give another"):
            second.run("1s")
        assert (tmp_path / "journal.jsonl").read_bytes() == before
    assert run.outcome.verdict == "valid"
    first.close()
    assert second.run("1s").verdict == "valid"
    second.close()
    cluster.close()


def six_minutes(runner):
    runner.run("6m")


def ten_seconds(runner):
    with pytest.warns(PlanWarning):
        runner.run("10s")


def two_of_three_machines_are_off(runner):
    with runner as run:
        volume = run.volumes.create("consistency-and-availability")
        run.until(volume.ready)
        for node in volume.nodes[:2]:
            run.chaos.vm_stop(node)
        run.advance("2m")


@pytest.mark.parametrize(
    ("plan", "conduct", "verdict"),
    [
        (Plan(CHURN, (PodDestroy(),)), six_minutes, "valid"),
        (Plan(), two_of_three_machines_are_off, "invalid"),
        (Plan(CHURN, (PodDestroy(),)), ten_seconds, "unknown"),
    ],
)
def test_the_outcome_is_the_same(tmp_path, capsys, plan, conduct, verdict):
    keep(tmp_path, plan, conduct)
    again = judge(read(tmp_path / "journal.jsonl"))
    assert again.judged == verdict
    assert again.as_json() == (tmp_path / "outcome.json").read_bytes()
    assert main([str(tmp_path)]) == {"valid": 0, "invalid": 1, "unknown": 2}[verdict]
    assert capsys.readouterr().out == (tmp_path / "summary.txt").read_text()


def test_a_journal_that_breaks_off_is_unknown(tmp_path, capsys):
    keep(tmp_path, Plan(CHURN), six_minutes)
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]))
    last = in_words(read(tmp_path / "journal.jsonl")[-1].at)
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr().out
    assert told.startswith(f"unknown after {last} of cluster time; seed ")
    assert f"journal is unknown: it breaks off after {last}, while the run was on" in told
    assert "liveness is unknown: nobody saw whether the volumes that were left became ready again" in told
    assert "leftovers is unknown: the run ended before anybody looked for them" in told


def test_whoever_reads_may_have_had_enough(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"at":0.0,"who":"run","what":"healed"}\n')
    command = [sys.executable, "-m", "pytest_kscen", "judge", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as judging:
        judging.stdout.close()
        assert (judging.wait(), judging.stderr.read()) == (2, b"")


def test_what_is_no_folder_of_a_run_is_not_judged(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "is no folder of a run, for it has no journal.jsonl" in capsys.readouterr().err


def test_an_empty_journal_is_not_judged(tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    journal.write_text("")
    assert main([str(tmp_path)]) == 2
    why = "the run was killed before anything happened in it, and there is nothing to judge"
    assert capsys.readouterr() == ("", f"{journal} is empty: {why}\n")


def test_a_journal_without_a_beginning_has_no_seed(tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_text('{"at":0.0,"who":"run","what":"healed"}\n')
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().out.splitlines()[0] == "unknown after 0s of cluster time"


@pytest.mark.parametrize("command", [(main, 2), (tell_story, 1)])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"at":1.0,"wh', "no JSON: column 14: Invalid control character"),
        (b"\xff\xfe", "no UTF-8: invalid start byte at byte 1"),
        (b"[1, 2]", "no JSON object"),
        (b"7", "no JSON object"),
        (b'{"at":1.0,"who":"run"}', "it has no 'what'"),
        (b'{"at":"1","who":"run","what":"frozen"}', "'at' has to be a number, 'who' and 'what' have to be strings"),
    ],
)
def test_a_damaged_line_is_told(tmp_path, capsys, command, line, said):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b'{"at":0.0,"who":"run","what":"healed"}\n' + line + b"\n")
    tells, code = command
    assert tells([str(tmp_path)]) == code
    assert capsys.readouterr().err == f"{journal}:2: {said}\n"
