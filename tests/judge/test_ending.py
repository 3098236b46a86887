"""Verdicts about start and end of a run, from hand-written journals."""

from __future__ import annotations

import json
import pathlib

import pytest

from pytest_kscen.journal import Entry
from pytest_kscen.judge import start_and_end
from pytest_kscen.judge.outcome import Volumes, judge
from pytest_kscen.judge.start_and_end import CheckCrash
from pytest_kscen.judge.volumes import VolumeRecord

RVS, POLICIES = "replicatedvolumes.storage.deckhouse.io", "ciliumnetworkpolicies.cilium.io"


def entry(what, **data):
    return Entry(1, "run", what, data)


def created(resource, what="wrote", verb="create"):
    return entry(what, verb=verb, resource=resource)


FAULT = entry("incident-started", incident="vm-reboot-1")


def unseen(resource):
    return entry("not-listed", resource=resource, why="Forbidden()")


def updated(state, update, entries):
    for each in entries:
        update(state, each)
    return state


HURRIED, PARTS = (
    entry("volumes-abandoned"),
    ("replicatedvolumes/v", "replicatedvolumereplicas/v-0", "replicatedvolumeattachments/a"),
)
FINE = [entry("liveness", late=[]), entry("leftovers", objects=[])]


@pytest.mark.parametrize(
    ("entries", "verdicts"),
    [
        ([], {"journal": "unknown", "liveness": "unknown", "leftovers": "unknown"}),
        (FINE, {"liveness": "valid", "leftovers": "valid"}),
        (FINE[:1], {"liveness": "valid", "leftovers": "unknown"}),
        (FINE[1:], {"liveness": "unknown", "leftovers": "valid"}),
        ([entry("liveness", late=["v"]), FINE[1]], {"liveness": "invalid", "leftovers": "valid"}),
        (
            [FINE[0], entry("leftovers", objects=["rv/v"])],
            {"liveness": "valid", "leftovers": "invalid"},
        ),
        (
            [HURRIED, FINE[0], entry("leftovers", objects=[*PARTS])],
            {"liveness": "valid", "leftovers": "unknown"},
        ),
        (
            [HURRIED, FINE[0], entry("leftovers", objects=[*PARTS, "jobs/d/j"])],
            {"liveness": "valid", "leftovers": "invalid"},
        ),
        (
            [FINE[0], entry("leftovers", objects=[*PARTS])],
            {"liveness": "valid", "leftovers": "invalid"},
        ),
        ([HURRIED, *FINE], {"liveness": "valid", "leftovers": "valid"}),
        ([unseen("everything"), *FINE], {"liveness": "valid", "leftovers": "unknown"}),
        (
            [created(POLICIES), unseen(POLICIES), *FINE],
            {"liveness": "valid", "leftovers": "unknown"},
        ),
        (
            [created(POLICIES, "refused"), unseen(POLICIES), *FINE],
            {"liveness": "valid", "leftovers": "unknown"},
        ),
        (
            [created(POLICIES, verb="apply"), unseen(POLICIES), *FINE],
            {"liveness": "valid", "leftovers": "unknown"},
        ),
        (
            [created(POLICIES, verb="update"), unseen(POLICIES), *FINE],
            {"liveness": "valid", "leftovers": "valid"},
        ),
        ([created(RVS), unseen(POLICIES), *FINE], {"liveness": "valid", "leftovers": "valid"}),
        (
            [entry("observer-crashed", error="KeyError()"), *FINE],
            {"effects": "unknown", "liveness": "valid", "leftovers": "valid"},
        ),
        (
            [entry("not-swept", nodes=["node-1"], why="timed out"), *FINE],
            {"calm": "unknown", "liveness": "valid", "leftovers": "valid"},
        ),
        (
            [entry("crashed", component="a", error="KeyError()"), *FINE],
            {"actors": "unknown", "liveness": "valid", "leftovers": "valid"},
        ),
    ],
)
def test_run_ends_with_the_expected_outcome(entries, verdicts):
    assert {
        finding.check: finding.verdict
        for finding in start_and_end.judge_end(
            updated(start_and_end.RunEnd(), start_and_end.update_run_end, entries)
        )
    } == verdicts


def test_unchecked_namespaces_are_reported():
    findings = start_and_end.judge_end(
        updated(
            start_and_end.RunEnd(),
            start_and_end.update_run_end,
            [created(POLICIES), unseen(POLICIES), *FINE],
        )
    )
    assert [finding.why for finding in findings] == [
        "",
        f"these could not be listed: {POLICIES}: Forbidden()",
    ]


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (
            [FAULT, entry("ready", volume="v"), entry("ready", volume="w")],
            "not ready again although all faults were undone: v, w",
        ),
        ([FAULT], "never ready, although all faults were undone: v, w"),
        ([], "never ready, although there was no fault: v, w"),
        (
            [entry("ready", volume="w"), entry("incident-lasting", incident="vm-stop-1")],
            "not ready again while vm-stop-1 lasted: w; never ready, while vm-stop-1 lasted: v",
        ),
    ],
)
def test_late_volume_is_reported_with_its_state(entries, text):
    findings = start_and_end.judge_end(
        updated(
            start_and_end.RunEnd(),
            start_and_end.update_run_end,
            [*entries, entry("liveness", late=["v", "w"]), FINE[1]],
        )
    )
    assert [finding.why for finding in findings] == [text, ""]


def taken(at, volume="v", **more):
    return Entry(
        at,
        "d",
        "ended",
        {"action": "delete a replica", "volume": volume, "result": "done", "took": 0.0, **more},
    )


NO_FAULT_BUT = "there was no fault except for the replicas that the run deleted"


@pytest.mark.parametrize(
    ("entries", "verdict", "why"),
    [
        ([taken(10)], "invalid", f"never ready, although {NO_FAULT_BUT}: v, w"),
        ([taken(10, patience=390.0)], "invalid", f"never ready, although {NO_FAULT_BUT}: v, w"),
        ([taken(10, patience=391.0)], "invalid", f"never ready, although {NO_FAULT_BUT}: w"),
        (
            [taken(10, patience=391.0), taken(11, "w", patience=391.0)],
            "unknown",
            "not ready yet, and the time to replace the replicas that the run deleted is not over: v, w",
        ),
        (
            [
                taken(10, patience=600.0),
                Entry(369, "d", "replicas-restored", {"volume": "v"}),
                taken(9, "w", patience=600.0),
            ],
            "invalid",
            f"never ready, although {NO_FAULT_BUT}: v",
        ),
        ([FAULT, taken(10)], "invalid", "never ready, although all faults were undone: v, w"),
        (
            [
                taken(10, result="failed: Forbidden('no')"),
                Entry(20, "d", "replicas-restored", {"volume": "v"}),
            ],
            "invalid",
            "never ready, although there was no fault: v, w",
        ),
        (
            [taken(10, action="delete the volume")],
            "invalid",
            "never ready, although there was no fault: v, w",
        ),
    ],
)
def test_our_deletions_count_at_the_end(entries, verdict, why):
    late = Entry(400, "run", "liveness", {"late": ["v", "w"]})
    liveness, _ = start_and_end.judge_end(
        updated(start_and_end.RunEnd(), start_and_end.update_run_end, [*entries, late, FINE[1]])
    )
    assert (liveness.verdict, liveness.why) == (verdict, why)


def test_unobserved_kinds_are_reported_by_label():
    began = entry("run-started", label="kscen.io/run=r1")
    *_, leftovers = start_and_end.judge_end(
        updated(start_and_end.RunEnd(), start_and_end.update_run_end, [began, FINE[0]])
    )
    assert leftovers.why == (
        "the run ended before it listed them; find them by the label kscen.io/run=r1"
    )


def test_run_starts_with_the_expected_outcome():
    began = entry(
        "run-started",
        seed="7",
        duration=60.0,
        churn=True,
        chaos=["vm-reboot"],
        conditions=["IOReady"],
    )
    assert updated(
        start_and_end.RunStart(), start_and_end.update_run_start, [began]
    ) == start_and_end.RunStart("7", True, ["vm-reboot"], True, ("IOReady",))
    assert not updated(
        start_and_end.RunStart(), start_and_end.update_run_start, [began, entry("not-replayable")]
    ).replayable


def test_empty_journal_proves_nothing():
    outcome = judge([])
    assert outcome.verdict == "unknown"
    assert (
        "journal is unknown: it has no 'run-started', so the plan is unknown" in outcome.explain()
    )


def test_outcome_as_json_has_all_parts():
    outcome = judge(
        [
            entry(
                "run-started",
                seed="7",
                duration=60.0,
                churn=True,
                chaos=["vm-reboot"],
                conditions=["IOReady"],
            ),
            entry("volume", volume="v", storage_class="availability"),
            entry("volume-placed", volume="v", nodes=["node-2", "node-1"]),
            entry("volume-placed", volume="v", nodes=["node-3", "node-1"]),
            entry(
                "incident-started",
                incident="i",
                profile="vm-reboot",
                variant="vm-reboot",
                targets={"nodes": ["node-1"]},
            ),
            entry("ended", volume="v", action="attach", result="failed: TimeoutError()", took=2.0),
        ]
    )
    reported = json.loads(outcome.as_json())
    assert reported["findings"] == [
        {"check": one.check, "verdict": one.verdict, "why": one.why} for one in outcome.findings
    ]
    assert (reported["volumes"], reported["incidents"]) == (
        [outcome.volumes["v"].as_json()],
        [outcome.incidents[0].as_json()],
    )
    assert reported["actions"] == {"attach": outcome.actions["attach"].as_json()}
    assert reported["volumes"][0]["nodes"] == ["node-2", "node-1", "node-3"]
    assert (reported["incidents"][0]["had_effect"], reported["incidents"][0]["refused_nodes"]) == (
        False,
        [],
    )


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([], "<0 volumes>"),
        (["broken"], "<1 volume: 1 broken>"),
        (
            ["unknown", "broken", "stable", "interrupted", "recovered", "stable"],
            "<6 volumes: 2 stable, 1 recovered, 1 interrupted, 1 unknown, 1 broken>",
        ),
    ],
)
def test_volumes_are_counted_by_state(verdicts, text):
    assert repr(Volumes(VolumeRecord("v", "none", verdict=verdict) for verdict in verdicts)) == text


def test_crashed_check_receives_no_more_records():
    """Only the first crash is reported."""
    text = why_volumes_crashed(entry("ready", volume="v"), entry("ready", volume="w"))
    assert text == "KeyError('v') at line 1 of the journal: no earlier line defines the volume 'v'"


def why_volumes_crashed(*lines, path=None):
    (why,) = [finding.why for finding in judge(lines, path).findings if finding.check == "volumes"]
    return why.removeprefix("the check crashed: ")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            entry("ready", volume="w"),
            "KeyError('w') at j:3: no earlier line defines the volume 'w'",
        ),
        (
            entry("condition-changed", volume="v", condition="Fine"),
            "KeyError('Fine') at j:3: no earlier line defines the condition 'Fine'",
        ),
        (entry("volume-placed", volume="v"), "KeyError('nodes') at j:3: it has no 'nodes'"),
        (entry("volume-placed", volume="v", nodes=7), "TypeError("),
    ],
)
def test_crashed_check_names_its_line(line, text):
    before = [entry("frozen"), entry("volume", volume="v", storage_class="availability")]
    reported = why_volumes_crashed(
        *before, line, entry("leftovers", objects=[]), path=pathlib.Path("j")
    )
    assert reported.startswith(text)
    assert " at j:3" in reported


def test_findings_about_crashes_have_the_names_of_checks():
    def unreadable():
        raise OSError("broken disk")
        yield

    findings = judge(unreadable()).findings
    assert {finding.why for finding in findings} == {"the check crashed: OSError('broken disk')"}
    assert [finding.check for finding in findings] == [
        *("run_start", "actions", "incidents", "volumes", "guarantees", "run_end")
    ]


def test_record_with_the_missing_key_is_not_named():
    assert CheckCrash(KeyError("nodes"), 7, entry("volume-placed", nodes=[])).message(None) == (
        "the check crashed: KeyError('nodes') at line 7 of the journal"
    )


def test_check_crashed_after_the_last_line_names_no_line():
    lines = [
        entry("volume", volume="v", storage_class="availability"),
        entry("volume-placed", volume="v", nodes=["node-1"]),
        entry("ready", volume="v"),
        entry("checker-started", volume="v", conditions=["IOReady"]),
        entry("never-gone", volume="v", waited="long", why=""),
        entry("frozen"),
    ]
    assert why_volumes_crashed(*lines, path=pathlib.Path("j")).startswith("TypeError(")


@pytest.mark.parametrize(("actor", "verdict"), [("cluster", "unknown"), ("multivolume", "invalid")])
def test_cluster_crash_is_attributed_to_no_one(actor, verdict):
    declared = entry(
        "run-started", seed="7", duration=60.0, churn=False, chaos=[], conditions=["IOReady"]
    )
    crashed = entry("crashed", component=actor, error="KeyError()")
    outcome = judge(
        [declared, crashed, entry("liveness", late=["v"]), entry("leftovers", objects=["jobs/d/j"])]
    )
    assert {
        finding.check: finding.verdict for finding in outcome.findings if finding.verdict != "valid"
    } == {
        "actors": "unknown",
        "liveness": verdict,
        "leftovers": verdict,
    }


def test_observer_without_access_is_reported_once():
    ends = updated(
        start_and_end.RunEnd(),
        start_and_end.update_run_end,
        [entry("observer-crashed", error=f"{n}") for n in "ab"] + FINE,
    )
    assert (
        next(start_and_end.judge_end(ends)).why
        == "some may be missing, since their observer crashed (times: 2); its first error: a"
    )


def test_declared_plan_is_in_the_journal():
    declared = entry(
        "run-started",
        seed="7",
        duration=60.0,
        churn=True,
        chaos=["vm-reboot"],
        conditions=["IOReady"],
    )
    assert judge([declared, *FINE]).explain() == (
        "chaos:vm-reboot is unknown: no incident of vm-reboot in 1s: run longer, or set a "
        "shorter period=\n"
        "volumes is unknown: churn made no volume: run longer\n"
        "seed 7"
    )
