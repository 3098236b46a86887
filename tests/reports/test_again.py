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
from pytest_kscen.reports.again import main
from pytest_kscen.reports.archive import begin, finish
from pytest_kscen.runs.plan import Plan
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


def six_minutes(runner):
    runner.run("6m")


def ten_seconds(runner):
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
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr().out
    assert "liveness is unknown: the run ended before the volumes that were left could be judged" in told
    assert "leftovers is unknown: the run ended before anybody looked for them" in told


def test_whoever_reads_may_have_had_enough(tmp_path):
    (tmp_path / "journal.jsonl").write_text("")
    command = [sys.executable, "-m", "pytest_kscen", "judge", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as judging:
        judging.stdout.close()
        assert (judging.wait(), judging.stderr.read()) == (2, b"")


def test_what_is_no_folder_of_a_run_is_not_judged(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "is no folder of a run, for it has no journal.jsonl" in capsys.readouterr().err
