"""Hand-written journals, good and bad: what each says of its volumes."""

from __future__ import annotations

import pytest

from pytest_kscen.checks import ending, incidents, volumes
from pytest_kscen.checks.verdict import Finding, merged
from pytest_kscen.journal import Entry


def journal(*lines):
    """(at, what, particulars) as entries of one volume `v`."""
    birth = (0, "volume", {"storage_class": "availability"})
    return [Entry(at, "actor", what, {"volume": "v", **data}) for at, what, data in (birth, *lines)]


STARTED = (10, "checker-started", {"conditions": ["IOReady", "Quorum"]})
STOPPED = (300, "checker-stopped", {})
PLACED = (300, "volume-placed", {"nodes": ["node-1", "node-2"]})


def change(at, condition="IOReady"):
    return (at, "condition-changed", {"condition": condition})


def incident(started, ended, *nodes):
    return incidents.IncidentRecord("i", "pod-destroy", "pod-destroy", {"nodes": list(nodes)}, started, ended)


@pytest.mark.parametrize(
    ("lines", "shaken", "verdict", "transitions"),
    [
        ([STARTED, STOPPED], [], "stable", {"IOReady": 0, "Quorum": 0}),
        ([STARTED, change(20), change(30), STOPPED], [], "recovered", {"IOReady": 2, "Quorum": 0}),
        ([STARTED, change(20), STOPPED], [], "broken", {"IOReady": 1, "Quorum": 0}),
        ([STARTED, change(20), change(21, "Quorum"), STOPPED], [], "broken", {"IOReady": 1, "Quorum": 1}),
        ([STARTED, change(290), STOPPED], [incident(280, None)], "interrupted", {"IOReady": 1, "Quorum": 0}),
        ([STARTED, change(190), STOPPED], [incident(180, 181)], "interrupted", {"IOReady": 1, "Quorum": 0}),
        ([STARTED, change(190), STOPPED], [incident(170, 180)], "broken", {"IOReady": 1, "Quorum": 0}),
        ([STARTED, change(290), STOPPED], [incident(310, 320)], "broken", {"IOReady": 1, "Quorum": 0}),
        ([(600, "never-ready", {})], [], "broken", {}),
        ([], [], "broken", {}),
        ([STARTED, change(290), STOPPED, PLACED], [incident(280, None, "node-1")], "interrupted", {"IOReady": 1, "Quorum": 0}),
        ([STARTED, change(290), STOPPED, PLACED], [incident(280, None, "node-9")], "broken", {"IOReady": 1, "Quorum": 0}),
        ([(600, "never-ready", {})], [incident(500, None)], "interrupted", {}),
    ],
)
def test_a_volumes_verdict(lines, shaken, verdict, transitions):
    (volume,) = volumes.volumes(journal(*lines), shaken)
    assert (volume.verdict, volume.transitions) == (verdict, transitions)
    (finding,) = volumes.judge([volume])
    assert finding.verdict == ("invalid" if verdict == "broken" else "valid")
    assert ("v" in finding.why) == (verdict == "broken")


def test_incidents_are_read_with_their_effect_and_their_end():
    start = {"incident": "i", "profile": "pod-destroy", "variant": "pod-destroy", "targets": {"pods": ["a"]}}
    entries = [
        Entry(5, "x", "incident-started", start),
        Entry(6, "x", "incident-effect", {"incident": "i", "effect": "gone"}),
        Entry(9, "x", "incident-ended", {"incident": "i"}),
    ]
    (seen,) = incidents.incidents(entries)
    assert (seen.started_at, seen.removed_at, seen.effects, seen.had_effect) == (5, 9, ["gone"], True)
    assert [finding.verdict for finding in incidents.judge(["pod-destroy"], [seen])] == ["valid"]


def test_a_profile_without_any_effect_proves_nothing():
    (finding,) = incidents.judge(["pod-destroy"], [incident(1, 2)])
    assert (finding.verdict, finding.why) == (
        "unknown",
        "none of the 1 incidents of pod-destroy had an effect: run longer",
    )


@pytest.mark.parametrize(
    ("entries", "verdicts"),
    [
        ([], {"liveness": "unknown", "leftovers": "valid"}),
        ([Entry(1, "run", "liveness", {"late": []})], {"liveness": "valid", "leftovers": "valid"}),
        ([Entry(1, "run", "liveness", {"late": ["v"]})], {"liveness": "invalid", "leftovers": "valid"}),
        (
            [Entry(1, "run", "liveness", {"late": []}), Entry(2, "run", "leftovers", {"objects": ["rv/v"]})],
            {"liveness": "valid", "leftovers": "invalid"},
        ),
    ],
)
def test_how_a_run_ends(entries, verdicts):
    assert {finding.check: finding.verdict for finding in ending.judge(ending.read(entries))} == verdicts


WHY = "v was not gone within 600 s"
NEVER_GONE = (1000, "never-gone", {"waited": 600.0, "why": WHY})


@pytest.mark.parametrize(
    ("shaken", "verdict", "why"),
    [
        ([], "invalid", f"v was not gone 600 s after its deletion began: {WHY}"),
        ([incident(500, 800, "node-1")], "invalid", f"v was not gone 600 s after its deletion began: {WHY}"),
        ([incident(990, None, "node-9")], "invalid", f"v was not gone 600 s after its deletion began: {WHY}"),
        (
            [incident(500, 900, "node-1")],
            "valid",
            f"v was not gone 600 s after its deletion began: {WHY}; incidents on their nodes excuse it",
        ),
    ],
)
def test_a_volume_that_cannot_be_deleted(shaken, verdict, why):
    seen = volumes.volumes(journal(PLACED, STARTED, STOPPED, NEVER_GONE), shaken)
    findings = {finding.check: finding for finding in volumes.judge(seen)}
    assert findings["deletion"] == Finding("deletion", verdict, why)
    assert seen[0].as_json()["stuck"] == [{"at": 1000, "waited": 600.0, "why": WHY, "excused": verdict == "valid"}]


def test_one_stuck_deletion_that_nothing_excuses_is_enough():
    later = (1700, "never-gone", {"waited": 1300.0, "why": WHY})
    seen = volumes.volumes(journal(PLACED, STARTED, STOPPED, NEVER_GONE, later), [incident(500, 990, "node-1")])
    assert {finding.check: finding.why for finding in volumes.judge(seen)}["deletion"].startswith("v was not gone 1300 s")


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [([], "valid"), (["valid"], "valid"), (["valid", "unknown"], "unknown"), (["unknown", "invalid", "valid"], "invalid")],
)
def test_the_worst_verdict_wins(verdicts, whole):
    assert merged(Finding("c", verdict) for verdict in verdicts) == whole


def test_a_checker_that_crashed_has_not_judged():
    (volume,) = volumes.volumes(journal(STARTED, STOPPED, (300, "check-crashed", {"error": "KeyError('x')"})), [])
    findings = {finding.check: (finding.verdict, finding.why) for finding in volumes.judge([volume])}
    assert findings["volume-checker:v"] == ("unknown", "the checker crashed: KeyError('x')")
