"""Judging a run again from its folder, without its cluster."""

from __future__ import annotations

import errno
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from pytest_kscen.__main__ import main as command_line
from pytest_kscen.chaos.profiles import PodDestroy
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.commands.judge import main
from pytest_kscen.commands.story import main as tell_story
from pytest_kscen.journal import Entry, Journal, read
from pytest_kscen.judge.outcome import judge
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.report.archive import begin, folder_name, write_results
from pytest_kscen.report.protocol import Report
from pytest_kscen.report.story import story
from pytest_kscen.report.summary import RunResult
from pytest_kscen.run.plan import Plan, PlanWarning
from pytest_kscen.run.runner import ScenarioRunner

CHURN = Churn(max_volumes=2)


class InFolder(Report):
    """Archive that keeps every run in one folder."""

    def __init__(self, folder, test="it"):
        self._folder, self._test = folder, test

    def start(self, run):
        begin(self._folder, {"test": self._test}, run.journal)


def keep(folder, plan, conduct):
    """Play a run; its cluster and journal are closed on return."""
    cluster = EmbeddedCluster("again")
    runner = ScenarioRunner(
        cluster,
        plan,
        parent=cluster.parent,
        reports=[InFolder(folder)],
    )
    conduct(runner)
    (run,) = runner.runs
    write_results(folder, RunResult(run.outcome, run.journal))
    runner.close()
    cluster.close()


@pytest.mark.filterwarnings("ignore:nothing is declared")
def test_folder_of_an_active_run_is_not_taken(tmp_path):
    cluster = EmbeddedCluster("twice")
    first, second = (
        ScenarioRunner(
            cluster,
            Plan(),
            reports=[InFolder(tmp_path, who)],
        )
        for who in ("first", "second")
    )
    with first as run:
        before = run.journal.content()
        with pytest.raises(
            ValueError,
            match=f"another run still writes to {tmp_path}. Wait for its end, or choose another",
        ):
            second.run("1s")
        assert (tmp_path / "journal.jsonl").read_bytes() == before
        assert json.loads((tmp_path / "run.json").read_bytes())["test"] == "first"
    assert run.outcome.verdict == "valid"
    first.close()
    assert second.run("1s").verdict == "valid"
    second.close()
    cluster.close()


def test_no_two_tests_share_a_folder():
    tests = (
        "d/test_a.py::test_q",
        "d-test_a.py::test_q",
        "d test_a.py::test_q",
        "test_a.py::test_q[a]",
        "test_a.py::test_q[b]",
    )
    assert len({folder_name(test, 1) for test in tests}) == len(tests)
    assert [folder_name(tests[0], number) for number in (1, 2)] == [
        "d-test_a.py-test_q",
        "d-test_a.py-test_q-2",
    ]


def taken(folder, test="test_q"):
    """Return the journal of an active run."""
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    runner.close()
    begin(folder, {"test": test}, journal)
    return journal


def kept(folder, test, number, **more):
    """Create the folder of an earlier session's run, with additional files."""
    place = folder / folder_name(test, number)
    taken(place, test).close()
    for name, text in {
        "outcome.json": "{}",
        "summary.txt": "",
        "stories/v.txt": "",
        **more,
    }.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    return place


OURS = ("journal.jsonl", "outcome.json", "summary.txt", "run.json", "stories/v.txt")


def there_is(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_later_runs_of_an_earlier_session_are_deleted(tmp_path):
    for number in (1, 2, 3, 10):
        kept(tmp_path, "test_q", number)
    taken(tmp_path / "test_q-3").close()
    third = {"test_q-3/run.json", "test_q-3/journal.jsonl"}
    assert there_is(tmp_path) == {
        *(f"{run}/{name}" for run in ("test_q", "test_q-2") for name in OURS),
        *third,
    }
    taken(tmp_path / "test_q").close()
    assert there_is(tmp_path) == {"test_q/run.json", "test_q/journal.jsonl"}
    assert not (tmp_path / "test_q-2").exists()


def test_only_finished_runs_of_the_same_test_are_deleted(tmp_path):
    kept(tmp_path, "test_q::2", 1)  # another test, whose first run has the name of the second
    kept(tmp_path, "test_q", 3, **{"notes.txt": "mine"})
    shutil.copytree(kept(tmp_path, "test_q", 4), tmp_path / "test_q-05")
    (tmp_path / "test_q-4" / "run.json").write_text("[]")
    (tmp_path / "test_q-6").symlink_to(kept(tmp_path / "elsewhere", "test_q", 1))
    on = taken(tmp_path / "test_q-7")
    before = there_is(tmp_path)
    taken(tmp_path / "test_q").close()
    gone = {f"test_q-3/{name}" for name in OURS}
    assert there_is(tmp_path) == {*before, "test_q/run.json", "test_q/journal.jsonl"} - gone
    assert (tmp_path / "test_q-3" / "notes.txt").read_text() == "mine"
    on.close()
    taken(tmp_path / "test_q").close()
    assert not (tmp_path / "test_q-7").exists()


@pytest.mark.parametrize(
    "stuck",
    ["outcome.json", "summary.txt", "stories/v.txt", "run.json", "../test_q-2/outcome.json"],
)
def test_undeletable_file_leaves_no_outcome_of_another_run(tmp_path, stuck):
    """A folder in the place of a file cannot be deleted."""
    folder = kept(tmp_path, "test_q", 1)
    kept(tmp_path, "test_q", 2)
    (folder / "journal.jsonl").write_text("the earlier one's\n")
    (folder / "run.json").write_text("the earlier one's")
    (folder / stuck).unlink()
    (folder / stuck).mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        taken(folder)
    assert (folder / "journal.jsonl").read_text() == "the earlier one's\n"
    assert not (folder / "outcome.json").is_file()
    assert stuck == "run.json" or (folder / "run.json").read_text() == "the earlier one's"


def volumes(kind, count, changes):
    for name in [f"{kind}-{number:02}" for number in range(count)]:
        yield Entry(1.0, "volume-main", "volume", {"volume": name, "storage_class": "none"})
        yield Entry(
            2.0, "volume-checker", "checker-started", {"volume": name, "conditions": ["IOReady"]}
        )
        for observed in ("False", "True")[:changes]:
            reported = {
                "volume": name,
                "condition": "IOReady",
                "observed": observed,
                "expected": "True",
            }
            yield Entry(3.0, "volume-checker", "condition-changed", reported)


def with_ends(*found):
    ends = {"frozen": {}, "liveness": {"late": []}, "leftovers": {"objects": []}}
    return [*found, *(Entry(9.0, "run", what, data) for what, data in ends.items())]


def test_broken_volumes_have_their_story_despite_many_changes(tmp_path):
    journal = with_ends(*volumes("recovered", 60, 2), *volumes("broken", 2, 1))
    write_results(tmp_path, RunResult(judge(journal), journal))
    reported = {path.name for path in (tmp_path / "stories").iterdir()} - {"LEFT-OUT.txt"}
    assert reported == {
        *(f"recovered-{n:02}.txt" for n in range(48)),
        "broken-00.txt",
        "broken-01.txt",
    }
    assert (tmp_path / "stories" / "broken-01.txt").read_text().splitlines() == list(
        story(journal, "broken-01")
    )
    assert (tmp_path / "stories" / "LEFT-OUT.txt").read_text().splitlines() == [
        (
            "12 more volumes moved. Print the story of any: "
            "`python -m pytest_kscen story FOLDER VOLUME`"
        ),
        *(f"recovered   recovered-{n}" for n in range(48, 60)),
    ]


def test_all_broken_or_unknown_volumes_have_their_story(tmp_path):
    crashed = Entry(4.0, "c", "check-crashed", {"volume": "crashed-00", "error": "KeyError()"})
    journal = with_ends(
        *volumes("recovered", 1, 2), *volumes("crashed", 1, 0), crashed, *volumes("broken", 60, 1)
    )
    write_results(tmp_path, RunResult(judge(journal), journal))
    reported = {path.stem for path in (tmp_path / "stories").iterdir()}
    assert reported == {*(f"broken-{n:02}" for n in range(60)), "crashed-00", "LEFT-OUT"}


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
def test_repeated_judgement_gives_the_same_outcome(tmp_path, capsys, plan, conduct, verdict):
    keep(tmp_path, plan, conduct)
    again = judge(read(tmp_path / "journal.jsonl"))
    assert again.judged == verdict
    assert again.as_json() == (tmp_path / "outcome.json").read_bytes()
    assert main([str(tmp_path)]) == {"valid": 0, "invalid": 1, "unknown": 2}[verdict]
    assert capsys.readouterr().out == (tmp_path / "summary.txt").read_text()


def test_truncated_journal_is_unknown(tmp_path, capsys):
    keep(tmp_path, Plan(CHURN), six_minutes)
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]))
    last = in_words(read(tmp_path / "journal.jsonl")[-1].at)
    assert main([str(tmp_path)]) == 2
    reported = capsys.readouterr().out
    assert reported.startswith(f"unknown after {last} of cluster time; seed ")
    assert f"journal is unknown: it breaks off after {last}, before the run ended" in reported
    assert (
        "liveness is unknown: it was not observed whether the remaining volumes became ready again"
        in reported
    )
    assert "leftovers is unknown: the run ended before it listed them" in reported


def test_closed_output_ends_the_report_quietly(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"at":0.0,"who":"run","what":"healed"}\n')
    command = [sys.executable, "-m", "pytest_kscen", "judge", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as judging:
        judging.stdout.close()
        assert (judging.wait(), judging.stderr.read()) == (2, b"")


def test_unknown_command_is_named(capsys):
    assert command_line(["jugde"]) == 2
    first, usage, *_ = capsys.readouterr().err.splitlines()
    assert first == "unknown command 'jugde' (did you mean 'judge'?)"
    assert usage.startswith("usage: ")


def test_folder_without_a_run_is_not_judged(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "is not the folder of a run: it has no journal.jsonl" in capsys.readouterr().err
    assert main([str(tmp_path / "nope")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'nope'} does not exist\n"


@pytest.mark.parametrize("command", [(main, 2), (tell_story, 1)])
def test_unreadable_journal_is_reported(tmp_path, capsys, monkeypatch, command):
    journal = tmp_path / "journal.jsonl"
    run_command, code = command

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied", str(journal))

    journal.touch()
    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "open", refused)  # root may read everything
        assert run_command([str(tmp_path)]) == code
    journal.unlink()
    journal.mkdir()
    assert run_command([str(tmp_path)]) == code
    assert capsys.readouterr() == (
        "",
        f"{journal} cannot be read: Permission denied\n{journal} cannot be read: it is a folder\n",
    )


def test_judge_crash_is_no_verdict(tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_text('{"at":1e400,"who":"run","what":"frozen"}\n')
    assert main([str(tmp_path)]) == 2
    message = capsys.readouterr()
    assert (
        message.out,
        message.err.startswith(f"{tmp_path} cannot be judged: OverflowError("),
    ) == (
        "",
        True,
    )


def test_empty_journal_is_not_judged(tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    journal.write_text("")
    assert main([str(tmp_path)]) == 2
    why = "the run was killed before anything happened in it, and there is nothing to judge"
    assert capsys.readouterr() == ("", f"{journal} is empty: {why}\n")


def test_journal_without_a_start_has_no_seed(tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_text('{"at":0.0,"who":"run","what":"healed"}\n')
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().out.splitlines()[0] == "unknown after 0s of cluster time"


@pytest.mark.parametrize("command", [(main, 2), (tell_story, 1)])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"at":1.0,"wh', "not JSON: column 14: Invalid control character"),
        (b"\xff\xfe", "not UTF-8: invalid start byte at byte 1"),
        (b"[1, 2]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'{"at":1.0,"who":"run"}', "it has no 'what'"),
        (
            b'{"at":"1","who":"run","what":"frozen"}',
            "'at' has to be a number, 'actor' and 'what' have to be strings",
        ),
        (
            b'{"at":1.0,"who":"run","what":"leftovers","objects":true}',
            "'objects' has to be a list of strings",
        ),
        (
            b'{"at":1.0,"who":"run","what":"leftovers","objects":[1]}',
            "'objects' has to be a list of strings",
        ),
        (
            b'{"at":1.0,"who":"run","what":"liveness","late":[1]}',
            "'late' has to be a list of strings",
        ),
        (
            b"[" * 100_000,
            (
                "not readable as JSON: maximum recursion depth exceeded while decoding a "
                "JSON array from a unicode string"
            ),
        ),
    ],
)
def test_damaged_line_is_reported(tmp_path, capsys, command, line, message):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b'{"at":0.0,"who":"run","what":"healed"}\n' + line + b"\n")
    run_command, code = command
    assert run_command([str(tmp_path)]) == code
    assert capsys.readouterr().err == f"{journal}:2: {message}\n"


CHECKED = {"at": 1.0, "what": "checker-started", "volume": "v", "conditions": ["IOReady", "Quorum"]}
LOST = {
    "at": 2.0,
    "what": "condition-changed",
    "volume": "v",
    "condition": "Quorum",
    "expected": "True",
    "observed": "False",
}
BACK = {**LOST, "at": 3.0, "expected": "Unknown", "observed": "True"}
STOPPED = {"at": 4.0, "what": "checker-stopped", "volume": "v", "conditions": {"Quorum": "Unknown"}}
STARTED, ENDED = {"at": 0.0, "what": "run-started"}, {"at": 9.5, "what": "run-ended"}
AS_IT_WAS = "restore the file as the run has written it"
CUT = f"the line is incomplete, although the run had ended by line 2: {AS_IT_WAS}"


def written(*entries):
    return b"".join(json.dumps({"who": "run", **entry}).encode() + b"\n" for entry in entries)


@pytest.mark.parametrize("command", [(main, 2), (tell_story, 1)])
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (written(STARTED, ENDED) + b"trash", f"3: {CUT}"),
        (written(STARTED, ENDED, {"at": 9.5, "what": "not-replayable"}) + b'{"at":', f"4: {CUT}"),
        (
            written(STARTED, ENDED) * 2,
            f"3: 'run-started' cannot come after 'run-ended' on line 2, in one run: {AS_IT_WAS}",
        ),
        (
            written(STARTED, {"at": 9.5, "what": "volume"}, {**STARTED, "at": 9.5}),
            f"3: 'run-started' cannot come after 'run-started' on line 1, in one run: {AS_IT_WAS}",
        ),
        (
            written(STARTED, ENDED, {"at": 9.5, "what": "frozen"}),
            f"3: 'frozen' cannot come after 'run-ended' on line 2, in one run: {AS_IT_WAS}",
        ),
        (
            written(STARTED, {"at": 9.5, "what": "volume"}, {"at": 9.499999, "what": "ready"}),
            f"3: 9.499999 s is before the 9.5 s of line 2, and time does not go back: {AS_IT_WAS}",
        ),
        (
            written(CHECKED, LOST, LOST),
            f"3: Quorum of v was False, and cannot change from True to False: {AS_IT_WAS}",
        ),
        (
            written(CHECKED, BACK),
            f"2: Quorum of v was True, and cannot change from Unknown to True: {AS_IT_WAS}",
        ),
        (
            written(CHECKED, {**LOST, "observed": "True"}),
            f"2: Quorum of v was True, and cannot change from True to True: {AS_IT_WAS}",
        ),
        (
            written(CHECKED, STOPPED),
            f"2: Quorum of v was True by the lines before, and is Unknown here: {AS_IT_WAS}",
        ),
        (
            written({"at": -1, "what": "ready"}),
            f"1: -1 s is before the run's beginning, and time does not go back: {AS_IT_WAS}",
        ),
    ],
)
def test_impossible_line_is_reported(tmp_path, capsys, command, lines, message):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(lines)
    run_command, code = command
    assert run_command([str(tmp_path)]) == code
    assert capsys.readouterr() == ("", f"{journal}:{message}\n")


def test_change_and_its_reversal_are_possible(tmp_path):
    (tmp_path / "journal.jsonl").write_bytes(
        written(CHECKED, LOST, BACK, {**LOST, "at": 3.5}, STOPPED, {**CHECKED, "at": 5.0})
    )
    assert len(read(tmp_path / "journal.jsonl")) == 6


def test_records_after_the_end_or_at_the_same_instant_are_possible(tmp_path):
    late = [
        {"at": 9.5, "what": what}
        for what in ("stopped-early", "crashed", "not-replayable", "not-replayable")
    ]
    (tmp_path / "journal.jsonl").write_bytes(written(STARTED, ENDED, *late))
    assert len(read(tmp_path / "journal.jsonl")) == 6


def test_line_about_an_undeclared_object_is_reported(tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(written(STARTED, {"at": 1.0, "what": "incident-ended", "incident": "i"}))
    assert main([str(tmp_path)]) == 2
    why = (
        f"the check crashed: KeyError('i') at {journal}:2: no earlier line defines the incident 'i'"
    )
    assert f"  incidents is unknown: {why}\n" in capsys.readouterr().out
