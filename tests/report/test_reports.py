"""One small run in every report format."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_kscen.chaos.cleanup import BEFORE
from pytest_kscen.commands.story import main
from pytest_kscen.journal import Entry
from pytest_kscen.judge.outcome import judge
from pytest_kscen.report.allure import incident_in_words
from pytest_kscen.report.story import stories, story
from pytest_kscen.report.summary import brief, properties, summary

BLOCK = {"profile": "network-block", "variant": "split-brain"}
MOVED = {"volume": "v1", "condition": "IOReady", "expected": "True", "observed": "False"}
DECLARED = {"churn": True, "chaos": ["network-block"], "conditions": ["IOReady", "Quorum"]}
LINES = [
    (0.0, "run", "run-started", {"seed": "7", "duration": 600.0, **DECLARED}),
    (1.0, "volume-main/v1", "volume", {"volume": "v1", "storage_class": "availability", "size": "1Gi", "lifetime": 300.0}),
    (1.0, "volume-main/v1", "ended", {"action": "create the volume", "volume": "v1", "result": "done", "took": 0.0}),
    (1.5, "volume-main/v1", "volume-placed", {"volume": "v1", "nodes": ["node-1", "node-2"]}),
    (4.0, "volume-main/v1", "ended", {"action": "wait until the volume is ready", "volume": "v1", "result": "done", "took": 3.0}),
    (4.0, "volume-main/v1", "ready", {"volume": "v1"}),
    (4.0, "volume-checker/v1", "checker-started", {"volume": "v1", "conditions": ["IOReady", "Quorum"]}),
    (60.0, "network-blocker", "incident-started", {"incident": "i1", **BLOCK, "targets": {"nodes": ["node-1", "node-9"]}, "sides": [["node-1"], ["node-9"]]}),
    (61.0, "network-blocker", "incident-started", {"incident": "i2", **BLOCK, "targets": {"nodes": ["node-8"]}}),
    (70.0, "volume-checker/v1", "condition-changed", {**MOVED, "reason": "NoIOReadyReplicas", "details": "0 of 2"}),
    (71.0, "network-blocker", "incident-effect", {"incident": "i1", "effect": (
"v1: node-1 and node-2 have "
"lost each other"
)}),
    (90.0, "network-blocker", "incident-ended", {"incident": "i1", "lasted": 30.0}),
    (90.0, "network-blocker", "incident-ended", {"incident": "i2", "lasted": 29.0}),
    (135.0, "network-blocker", "incident-recovered", {"incident": "i1", "took": 45.0}),
    (600.0, "run", "frozen", {}),
    (600.0, "volume-checker/v1", "checker-stopped", {"volume": "v1", "conditions": {"IOReady": "False", "Quorum": "True"}}),
    (600.0, "run", "liveness", {"late": ["v1"]}),
    (601.0, "run", "leftovers", {"objects": []}),
]  # fmt: skip
JOURNAL = [Entry(*line) for line in LINES]


@pytest.fixture
def outcome():
    return judge(JOURNAL)


def test_the_summary(outcome):
    assert summary(outcome) == [
        "invalid after 10m of cluster time; seed 7",
        "  volumes is invalid: 1 of 1 volumes did not keep their guaranteed state: v1",
        "  liveness is invalid: not ready again although all faults were undone: v1",
        "  volumes: 1 created, 0 errors: 0 stable, 0 recovered, 0 interrupted, 1 broken",
        (
            "  times: create 0.0 s on average (0.0 s at most, 0.0 s in all); ready 3.0 s on "
            "average (3.0 s at most, 3.0 s in all)"
        ),
        (
            "  network-block split-brain: 2 incidents, 1 with an effect; 1 recovered in 45.0 "
            "s on average, 45.0 s at most"
        ),
        "  broken      v1 (availability): IOReady 1, Quorum 0",
    ]


def test_summary_in_brief(outcome):
    reported = summary(outcome)
    shaken = "  network-block: 2 incidents, 1 with an effect; 1 recovered in 45.0 s at most"
    assert brief(outcome) == [*reported[:4], shaken, reported[-1]]


def volumes_that_moved(count, changes):
    for name in [f"v{number:02}" for number in range(count)]:
        yield Entry(
            1.0, "volume-main", "volume", {"volume": name, "storage_class": "none", "size": "1Gi"}
        )
        yield Entry(
            2.0, "volume-checker", "checker-started", {"volume": name, "conditions": ["IOReady"]}
        )
        for at in range(changes):
            yield Entry(
                3.0 + at,
                "volume-checker",
                "condition-changed",
                {"volume": name, "condition": "IOReady"},
            )
    yield Entry(9.0, "run", "frozen", {})
    yield Entry(9.0, "run", "liveness", {"late": []})
    yield Entry(9.0, "run", "leftovers", {"objects": []})


def test_healthy_volumes_are_counted():
    outcome = judge([JOURNAL[0], *volumes_that_moved(30, changes=2)])
    assert (
        brief(outcome)[-1]
        == "  volumes: 0 created, 0 errors: 0 stable, 30 recovered, 0 interrupted, 0 broken"
    )
    assert summary(outcome)[-30:] == [
        f"  recovered   v{number:02} (none): IOReady 2" for number in range(30)
    ]


def test_first_error_of_each_kind_is_shown():
    failed = {"action": "cause losses", "took": 30.0}
    errors = [
        Entry(1.0, "network-degrader", "ended", {**failed, "result": f"failed: {why}"})
        for why in ("late", "later")
    ]
    assert "  2 errors: cause losses failed: late" in brief(judge([*JOURNAL[:1], *errors]))


def test_leftovers_deleted_before_a_run_are_counted():
    cleared = Entry(
        1.0, "chaos-cleaner", "ended", {"action": BEFORE, "took": 0.1, "result": "done"}
    )
    for reported in (summary, brief):
        assert "  cleared away before the run: 2 objects" in reported(
            judge([JOURNAL[0], cleared, cleared])
        )


def test_unhealthy_volumes_are_reported_in_detail():
    reported = brief(judge([JOURNAL[0], *volumes_that_moved(30, changes=1)]))
    assert reported[-21] == "  broken      v00 (none): IOReady 1"
    assert (
        reported[-1]
        == "  and 10 more; -v shows all, and so does the run's summary.txt (--kscen-archive DIR)"
    )


def test_properties(outcome):
    reported = dict(properties(outcome))
    assert reported["kscen.verdict"] == "invalid"
    assert (
        reported["kscen.volumes.broken"]
        == reported["kscen.transitions"]
        == reported["kscen.incidents.effective"]
        == 1
    )
    assert reported["kscen.recovery.longest"] == 45.0


def test_property_reports_that_a_run_was_stopped_early():
    early = judge([*JOURNAL, Entry(601.0, "run", "stopped-early", {})])
    assert [dict(properties(one))["kscen.stopped_early"] for one in (judge(JOURNAL), early)] == [
        "false",
        "true",
    ]


def incidents_that_ended(*endings):
    for number, ending in enumerate(endings):
        reported = {"incident": f"i{number}", **BLOCK, "targets": {"nodes": []}}
        yield Entry(1.0, "b", "incident-started", reported)
        yield Entry(2.0, "b", "incident-effect", {**reported, "effect": "shakes"})
        yield Entry(3.0, "b", "incident-ended", {**reported, "lasted": 2.0})
        if ending:
            yield Entry(
                9.0,
                "b",
                f"incident-{ending}",
                {
                    **reported,
                    "took": 6.0,
                    "by": ["i9"],
                    "others": ["i9"],
                    "waited": 300.0,
                    "left": ["v"],
                },
            )


def test_recovery_time_states_its_sample_size():
    outcome = judge(
        incidents_that_ended(
            "recovered",
            "overtaken",
            "overtaken",
            "unrecovered",
            "target-deleted",
            "overlapping",
            "",
        )
    )
    lacking = (
        "2 overtaken; 1 not recovered; 1 affected an object that was deleted before it recovered; "
        "1 overlapped with another incident; 1 not waited for"
    )
    shaken = "7 incidents, 7 with an effect; 1 recovered in"
    assert (
        f"  network-block split-brain: {shaken} 6.0 s on average, 6.0 s at most; {lacking}"
        in summary(outcome)
    )
    assert f"  network-block: {shaken} 6.0 s at most; {lacking}" in brief(outcome)
    reported = dict(properties(outcome))
    kinds = (
        "effective",
        "recovered",
        "overtaken",
        "unrecovered",
        "deleted_before_recovery",
        "overlapping",
    )
    assert [reported[f"kscen.incidents.{kind}"] for kind in kinds] == [7, 1, 2, 1, 1, 1]
    assert "kscen.recovery.longest" not in dict(
        properties(judge(incidents_that_ended("overtaken")))
    )


def test_broken_volume_story():
    assert list(story(JOURNAL, "v1")) == [
        (
            "        1s  volume-main               requested (storage_class availability, size "
            "1Gi, lifetime 5m)"
        ),
        "        1s  volume-main               create the volume: done after 0 s",
        "        2s  volume-main               has replicas on node-1, node-2",
        "        4s  volume-main               wait until the volume is ready: done after 3 s",
        "        4s  volume-main               is ready",
        "        4s  volume-checker            check started: IOReady, Quorum",
        (
            "        1m  network-blocker           network-block split-brain begins between "
            "node-1 and node-9"
        ),
        (
            "     1m10s  volume-checker            IOReady is False, expected True: "
            "NoIOReadyReplicas: 0 of 2"
        ),
        (
            "     1m11s  network-blocker           split-brain (i1) has an effect: v1: "
            "node-1 and node-2 have lost each other"
        ),
        "     1m30s  network-blocker           split-brain (i1) ends after 30 s",
        "     2m15s  network-blocker           split-brain (i1) recovered 45 s after its end",
        "       10m  volume-checker            check ended: IOReady False, Quorum True",
    ]


def test_story_has_only_the_effects_on_its_own_volume():
    at = 100.0

    def message(what, **data):
        return Entry(at, "network-blocker", what, {"incident": "i1", **data})

    journal = [
        Entry(
            1.0, "volume-main/v", "volume-placed", {"volume": "v", "nodes": ["node-1", "node-2"]}
        ),
        Entry(
            1.0, "volume-main/w", "volume-placed", {"volume": "w", "nodes": ["node-2", "node-3"]}
        ),
        message(
            "incident-started",
            **BLOCK,
            targets={"nodes": ["node-2", "node-3"]},
            sides=[["node-2"], ["node-3"]],
        ),
        message("incident-effect", effect="v shakes", volume="v"),
        message("incident-effect", effect="w shakes", volume="w"),
        message("incident-effect", effect="node-3 is not ready"),
        Entry(at, "volume-main/late", "volume-placed", {"volume": "late", "nodes": ["node-3"]}),
        message("incident-ended", lasted=0.0),
        Entry(at, "volume-main/later", "volume-placed", {"volume": "later", "nodes": ["node-3"]}),
    ]

    def reported(volume):
        return [line.split(maxsplit=2)[2] for line in story(journal, volume)][1:]

    assert reported("v") == [
        "network-block split-brain begins between node-2 and node-3",
        "split-brain (i1) has an effect: v shakes",
        "split-brain (i1) has an effect: node-3 is not ready",
        "split-brain (i1) ends after 0 s",
    ]
    assert [line for line in reported("w") if "shakes" in line] == [
        "split-brain (i1) has an effect: w shakes"
    ]
    assert reported("late") == [
        "network-block split-brain is already active between node-2 and node-3",
        "split-brain (i1) ends after 0 s",
    ]
    assert reported("later") == []


def test_fault_is_named_once():
    stop = {
        "incident": "i",
        "profile": "vm-stop",
        "variant": "vm-stop",
        "targets": {"nodes": ["node-1"]},
    }
    journal = [
        Entry(1.0, "m", "volume-placed", {"volume": "v", "nodes": ["node-1"]}),
        Entry(2.0, "by-hand", "incident-started", stop),
    ]
    *_, reported = story(journal, "v")
    assert reported.endswith("  vm-stop begins on node-1")
    outcome = judge(journal[1:])
    assert (
        incident_in_words(outcome.incidents[0])
        == "2s to the end: vm-stop on node-1, without an effect"
    )
    assert summary(outcome)[-1].startswith("  vm-stop: 1 incident")


def test_story_names_both_ends_of_a_network_fault():
    def reported(profile, *sides, **targets):
        fault = {"incident": "i", "profile": profile, "variant": "it", "targets": targets}
        fault["sides"] = sides
        journal = [
            Entry(1.0, "m", "volume-placed", {"volume": "v", "nodes": ["node-1"]}),
            Entry(2.0, "by-hand", "incident-started", fault),
        ]
        return [line.split(maxsplit=2)[2] for line in story(journal, "v")][1:]

    assert reported("network-block", ["node-2"], ["node-1"], nodes=["node-2", "node-1"]) == [
        "network-block it begins between node-2 and node-1"
    ]
    assert reported("network-degrade", ["node-1"], ["node-3"], nodes=["node-1", "node-3"]) == [
        "network-degrade it begins between node-1 and node-3"
    ]
    groups = ["node-1", "node-2"], ["node-3"]
    parted = "network-block it begins between node-1, node-2 and node-3"
    assert reported("network-block", *groups, nodes=["node-1", "node-2", "node-3"]) == [parted]
    assert reported("pod-destroy", ["node-1", "node-2"], nodes=["node-1", "node-2"]) == [
        "pod-destroy it begins on node-1"
    ]
    assert reported("network-block", ["node-2"], ["node-3"], nodes=["node-2", "node-3"]) == []


def test_story_ends_with_its_volume():
    def message(at, what, **data):
        return Entry(at, "volume-main/v", what, {"volume": "v", **data})

    def fault(at, what, **data):
        return Entry(
            at,
            "network-blocker",
            what,
            {"incident": f"i{at:g}", **BLOCK, "targets": {"nodes": ["node-1"]}, **data},
        )

    placed = message(1.0, "volume-placed", nodes=["node-1"])
    gone = message(9.0, "ended", action="delete the volume", result="done", took=1.0)
    ends = fault(5.0, "incident-ended", lasted=0.0)
    journal = [placed, fault(5.0, "incident-started"), gone, ends, fault(10.0, "incident-started")]
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v")] == [
        "has replicas on node-1",
        "network-block split-brain begins on node-1",
        "delete the volume: done after 1 s",
    ]


def test_story_distinguishes_a_deletion_by_the_run_from_a_disappearance():
    def message(what, **data):
        return Entry(9.0, "volume-main/v", what, {"volume": "v", **data})

    created = message("volume", storage_class="none")
    began, gone = message("began", action="delete the volume"), message("volume-disappeared")

    def reported(*journal):
        return [line.split(maxsplit=2)[2] for line in story(journal, "v")][-1]

    assert reported(created, gone) == "disappeared"
    assert reported(created, began, gone) == "deleted by the run"
    assert reported(created, began, gone, created, gone) == "disappeared"


def test_volume_that_was_never_ready_is_summarized_as_such():
    journal = [
        Entry(0.0, "run", "run-started", {"seed": "7", "duration": 600.0, **DECLARED}),
        Entry(1.0, "volume-main/v", "volume", {"volume": "v", "storage_class": "none"}),
        Entry(601.0, "volume-main/v", "never-ready", {"volume": "v", "waited": 600.0}),
        Entry(602.0, "run", "frozen", {}),
    ]
    lines = summary(judge(journal))
    assert "  broken      v (none): never ready" in lines
    assert (
        "  volumes is invalid: 1 of 1 volumes did not keep their guaranteed state: "
        "v (never ready)" in lines
    )


def test_story_contains_our_deletions():
    def message(what, **data):
        return Entry(9.0, "volume-replica-destroyer/v", what, {"volume": "v", **data})

    journal = [
        message("began", action="delete a replica", replica="v-0", type="Diskful", patience=600.0),
        message("replicas-restored"),
    ]
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v")] == [
        "delete a replica begins (replica v-0, type Diskful)",
        "all disks are replaced and up to date",
    ]


def test_story_states_where_its_volume_is_now():
    def fault(number, node):
        return Entry(
            number,
            "b",
            "incident-started",
            {"incident": f"i{number}", **BLOCK, "targets": {"nodes": [node]}},
        )

    def placed(*nodes):
        return Entry(1.0, "volume-main/v", "volume-placed", {"volume": "v", "nodes": nodes})

    journal = [
        placed("node-1", "node-2"),
        placed("node-1"),
        fault(2, "node-2"),
        fault(3, "node-1"),
        placed("node-2"),
    ]
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v")][2:] == [
        "network-block split-brain begins on node-1",
        "has replicas on node-2",
        "network-block split-brain is already active on node-2",
    ]


def test_story_shortens_uuids():
    own, other = (f"mgt-{digit * 8}-0000-4000-8000-000000000000" for digit in "ab")
    effect = {"incident": "i1", "effect": f"{own}-1 lost {other}", "volume": own}
    journal = [
        Entry(1.0, "m", "volume-placed", {"volume": own, "nodes": ["node-1"]}),
        Entry(
            2.0,
            "b",
            "incident-started",
            {"incident": "i1", **BLOCK, "targets": {"nodes": ["node-1"]}},
        ),
        Entry(3.0, "b", "incident-effect", effect),
    ]
    line = list(story(journal, own))[-1]
    assert line.endswith("has an effect: mgt-aaaa…-1 lost mgt-bbbb…")


def test_story_contains_a_return_to_health():
    back = {
        **MOVED,
        "expected": "False",
        "observed": "True",
        "reason": "IOReady",
        "details": "2 of 2",
    }
    none = {"volume": "v1", "replicas": {}}
    journal = [Entry(1.0, "c", "condition-changed", back), Entry(1.0, "c", "replicas-false", none)]
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v1")] == [
        "IOReady is True again: IOReady: 2 of 2",
        "no condition of its replicas is False",
    ]


def test_story_states_why_its_volume_is_not_ready():
    no = {"status": "False", "reason": "NoDisk", "message": "1 of 2"}
    absent = {"status": "absent", "reason": "", "message": ""}
    lacks = {
        "volume": "v",
        "conditions": {"IOReady": no, "Quorum": absent},
        "replicas": {"v-1": ["Scheduled (NoNodeFree)"]},
    }
    (line,) = story([Entry(10.0, "volume-main/v", "not-ready", lacks)], "v")
    assert line.split(maxsplit=2)[2] == (
        "IOReady is False: NoDisk: 1 of 2; Quorum is absent; replicas' conditions that "
        "are False: v-1: Scheduled (NoNodeFree)"
    )


def test_volumes_without_a_verdict_are_counted():
    crash = Entry(500.0, "volume-main/v1", "check-crashed", {"volume": "v1", "error": "KeyError()"})
    lines = summary(judge([*JOURNAL, crash]))
    assert (
        "  volumes is unknown: 1 of 1 volumes could not be judged: v1 (the checker "
        "crashed: KeyError())"
    ) in lines
    assert (
        "  volumes: 1 created, 0 errors: 0 stable, 0 recovered, 0 interrupted, 1 unknown, 0 broken"
        in lines
    )


def test_incomplete_line_does_not_end_a_story():
    journal = [
        Entry(1.0, "volume-main/v", "began", {"volume": "v"}),
        Entry(2.0, "volume-main/v", "ready", {"volume": "v"}),
    ]
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v")] == [
        "began: incomplete journal entry: KeyError('action')",
        "is ready",
    ]


def test_line_with_text_for_a_number_does_not_end_a_story():
    where = {"targets": {"nodes": ["node-1"]}}
    journal = [
        Entry(1.0, "m", "volume-placed", {"volume": "v", "nodes": ["node-1"]}),
        Entry(2.0, "b", "incident-started", {"incident": "i", **BLOCK, **where}),
        Entry(3.0, "b", "incident-ended", {"incident": "i", "lasted": "long"}),
        Entry(
            4.0, "m", "ended", {"volume": "v", "action": "attach", "result": "done", "took": "long"}
        ),
    ]
    lacks = (
        "incomplete journal entry: ValueError(\"Unknown format code 'g' for object of type 'str'\")"
    )
    assert [line.split(maxsplit=2)[2] for line in story(journal, "v")][2:] == [
        f"incident-ended: {lacks}",
        f"ended: {lacks}",
    ]


@pytest.fixture
def three_volumes():
    """One volume deleted after its incident ended, one that remains, and one unaffected."""
    end = {"action": "delete the volume", "result": "done", "took": 1.0}
    return [
        *(
            Entry(1.0, "m", "volume-placed", {"volume": name, "nodes": ["node-1"]})
            for name in ("gone", "there")
        ),
        Entry(1.0, "m", "volume-placed", {"volume": "elsewhere", "nodes": ["node-2"]}),
        Entry(
            2.0,
            "b",
            "incident-started",
            {"incident": "i", **BLOCK, "targets": {"nodes": ["node-1"]}},
        ),
        Entry(3.0, "b", "incident-ended", {"incident": "i", "lasted": 1.0}),
        Entry(4.0, "m", "ended", {"volume": "gone", **end}),
    ]


@pytest.mark.parametrize(
    ("what", "data", "recipient", "message"),
    [
        (
            "target-deleted",
            {"left": ["a", "b"], "volumes": ["gone"]},
            ["gone"],
            "has no recovery time, an object in trouble was deleted: a; b",
        ),
        (
            "target-deleted",
            {"left": ["a"], "volumes": []},
            ["there"],
            "has no recovery time, an object in trouble was deleted: a",
        ),
        (
            "overlapping",
            {"others": ["j", "k"]},
            ["there"],
            "recovered together with j, k: its own recovery time is unknown",
        ),
    ],
)
def test_end_without_a_time_is_reported_for_its_volume(
    three_volumes, what, data, recipient, message
):
    journal = [*three_volumes, Entry(9.0, "b", f"incident-{what}", {"incident": "i", **data})]
    line = f"        9s  b                         split-brain (i) {message}"
    assert [
        name for name in ("gone", "there", "elsewhere") if line in story(journal, name)
    ] == recipient


def test_several_stories_equal_the_single_ones(three_volumes):
    names = ["gone", "there", "elsewhere"]
    assert stories(three_volumes, names) == {
        name: list(story(three_volumes, name)) for name in names
    }


def test_story_of_a_name_used_by_two_volumes(folder, capsys):
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write(
            json.dumps(
                {"at": 700, "who": "x", "what": "volume", "volume": "v1", "storage_class": "none"}
            )
            + "\n"
        )
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out.split()[1::2] == ["v1", "v2", "v1"]
    assert main([str(folder), "v1"]) == 0


@pytest.fixture
def folder(tmp_path):
    """Folder of a run with two volumes, in an archive of one run."""
    other = (
        2.0,
        "volume-main/v2",
        "volume",
        {"volume": "v2", "storage_class": "none", "size": "1Gi", "lifetime": 300.0},
    )
    lines = [
        json.dumps({"at": at, "who": who, "what": what, **data})
        for at, who, what, data in (*LINES[:4], other, *LINES[4:])
    ]
    kept = tmp_path / "kept" / "test_a.py-test_it"
    kept.mkdir(parents=True)
    (kept / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return kept


def test_story_from_a_folder(folder, capsys):
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == "broken      v1\nstable      v2\n"
    assert main([str(folder), "v1"]) == 0
    assert capsys.readouterr().out.splitlines() == list(story(JOURNAL, "v1"))


@pytest.mark.parametrize("lines", [0, 1])
def test_run_without_volumes_is_reported_as_such(folder, capsys, lines):
    (folder / "journal.jsonl").write_text('{"at":0.0,"who":"run","what":"healed"}\n' * lines)
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"the run has no volume; lines in its journal: {lines}\n"


@pytest.mark.parametrize("volume", [[], ["v1"]])
def test_unknown_volumes_report_reasons(folder, capsys, volume):
    journal = folder / "journal.jsonl"
    unheard = {
        "at": 700,
        "who": "x",
        "what": "condition-changed",
        "volume": "v1",
        "condition": "Fine",
    }
    with journal.open("a") as lines:
        lines.write(json.dumps(unheard) + "\n")
    assert main([str(folder), *volume]) == 1
    why = (
        f"the check crashed: KeyError('Fine') at {journal}:20: no earlier line defines the "
        "condition 'Fine'"
    )
    assert capsys.readouterr() == ("", f"{why}\n")


def test_missing_story_is_reported(folder, capsys):
    kept = folder.parent
    volumes = "\n  broken      v1\n  stable      v2"
    for arguments, message in (
        ([folder, "v"], f"2 volumes begin with 'v':{volumes}"),
        (
            [folder, "v21"],
            f"the run has no volume 'v21' (did you mean 'v2'?); its volumes:{volumes}",
        ),
        ([folder, "mgt"], f"the run has no volume 'mgt'; its volumes:{volumes}"),
        ([kept], f"{kept} is a folder with folders of runs: name one of them: {folder.name}"),
        ([f"{folder}s"], f"{folder}s does not exist (did you mean {folder.name!r}?)"),
        ([kept / "xyz"], f"{kept}/xyz does not exist; folders of runs in {kept}: {folder.name}"),
        ([kept / "no" / "where"], f"{kept}/no/where does not exist"),
    ):
        assert main([str(argument) for argument in arguments]) == 1
        assert capsys.readouterr().err == f"{message}\n"


def test_unknown_volume_lists_ten_volumes(folder, capsys):
    with (folder / "journal.jsonl").open("a") as journal:
        for number in range(20):
            volume = {"volume": f"w{number}", "storage_class": "none", "size": "1Gi", "lifetime": 1}
            line = {"at": 700, "who": f"volume-main/w{number}", "what": "volume", **volume}
            journal.write(json.dumps(line) + "\n")
    assert main([str(folder), "nope"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "the run has no volume 'nope'; its volumes:"
    assert (len(lines), lines[-1]) == (12, "  and 12 more")


def test_closed_output_ends_the_story_quietly(folder):
    with (folder / "journal.jsonl").open("a") as journal:
        for number in range(3000):
            journal.write(
                json.dumps(
                    {
                        "at": 700,
                        "who": "volume-main/v1",
                        "what": "never-gone",
                        "volume": "v1",
                        "waited": number,
                        "why": "",
                    }
                )
                + "\n"
            )
    command = [sys.executable, "-m", "pytest_kscen", "story", str(folder), "v1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as telling:
        assert telling.stdout.readline().startswith(b"        1s  volume-main")
        telling.stdout.close()
        assert (telling.wait(), telling.stderr.read()) == (0, b"")
