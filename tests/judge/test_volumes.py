"""Verdicts about volumes, from hand-written journals."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import astuple

import pytest

from pytest_kscen.journal import Entry
from pytest_kscen.judge import incidents, operations, volumes
from pytest_kscen.judge.outcome import Volumes
from pytest_kscen.judge.start_and_end import RunStart
from pytest_kscen.judge.verdict import Finding, merged

CONDITIONS = ("IOReady", "Quorum")
BIRTH = (0, "volume", {"storage_class": "availability"})
STARTED = (10, "checker-started", {"conditions": ["IOReady", "Quorum"]})
STOPPED = (300, "checker-stopped", {})
PLACED = (1, "volume-placed", {"nodes": ["node-1", "node-2"]})
WENT = (50, "volume-disappeared", {})
DELETED = (50, "began", {"action": "delete the volume"})
CRASHED = (300, "check-crashed", {"error": "KeyError('x')"})
NEVER_READY = (600, "never-ready", {})
FROZEN, LIVENESS = (300, "frozen", {}), (350, "liveness", {"late": []})
LATE_ITSELF = (600, "liveness", {"late": ["v"]})


def journal(*lines, volume="v"):
    """Return entries of one volume from (at, what, data)."""
    return [
        Entry(at, "actor", what, {"volume": volume, **data}) for at, what, data in (BIRTH, *lines)
    ]


def read(lines, incidents_of_run=()):
    stories = volumes.VolumeHistories(RunStart(conditions=CONDITIONS))
    for line in lines:
        stories.update(line)
    return stories.judged(incidents_of_run)


def judged(seen, **more):
    return {
        finding.check: finding
        for finding in operations.judge(seen, **{"churn": True, "refusal": "", **more})
    }


def change(at, condition="IOReady"):
    return (at, "condition-changed", {"condition": condition})


def sides_of(targets):
    if "group_a" in targets:
        return (targets["group_a"], targets["group_b"])
    return [[node] for node in targets["nodes"]]


def incident(started, ended, *nodes, **more):
    where = {"nodes": list(nodes or ("node-1",))}
    return incidents.IncidentRecord("i", "vm-reboot", "vm-reboot", where, started, ended, **more)


def destruction(started, ended, **more):
    return incidents.IncidentRecord(
        "i",
        "pod-destroy",
        "pod-destroy",
        {"pods": ["a"], "nodes": ["node-1"]},
        started,
        ended,
        **more,
    )


def block(started, ended, *nodes, **groups):
    where = {"nodes": list(nodes), **groups}
    return incidents.IncidentRecord(
        "i",
        "network-block",
        "blocking-everything",
        where,
        started,
        ended,
        sides=sides_of(where),
    )


@pytest.mark.parametrize(
    ("lines", "verdict", "transitions"),
    [
        ([STARTED, STOPPED], "stable", {"IOReady": 0, "Quorum": 0}),
        ([STARTED, change(20), change(30), STOPPED], "recovered", {"IOReady": 2, "Quorum": 0}),
        ([STARTED, change(20), STOPPED], "broken", {"IOReady": 1, "Quorum": 0}),
        (
            [STARTED, change(20), change(21, "Quorum"), STOPPED],
            "broken",
            {"IOReady": 1, "Quorum": 1},
        ),
        ([NEVER_READY], "broken", {"IOReady": 0, "Quorum": 0}),
        ([FROZEN, LIVENESS], "stable", {"IOReady": 0, "Quorum": 0}),
        ([FROZEN, LATE_ITSELF], "broken", {"IOReady": 0, "Quorum": 0}),
        ([FROZEN, (301, "ready", {}), LIVENESS], "stable", {"IOReady": 0, "Quorum": 0}),
        ([STARTED, WENT], "broken", {"IOReady": 0, "Quorum": 0}),
        ([STARTED, change(20), change(30), WENT, FROZEN], "broken", {"IOReady": 2, "Quorum": 0}),
        (
            [STARTED, (49, "checker-stopped", {}), DELETED, WENT],
            "stable",
            {"IOReady": 0, "Quorum": 0},
        ),
    ],
)
def test_volume_verdict(lines, verdict, transitions):
    (volume,) = seen = read(journal(*lines))
    assert (volume.verdict, volume.transitions) == (verdict, transitions)
    finding = judged(seen)["volumes"]
    assert finding.verdict == ("invalid" if verdict == "broken" else "valid")
    assert ("v" in finding.why) == (verdict == "broken")


@pytest.mark.parametrize("lines", [[NEVER_READY], [FROZEN, LATE_ITSELF]])
def test_broken_volume_that_was_never_ready_is_reported_as_such(lines):
    why = "1 of 1 volumes did not keep their guaranteed state: v (never ready)"
    assert judged(read(journal(*lines))) == {"volumes": Finding("volumes", "invalid", why)}


def test_volume_deleted_by_others_is_reported():
    why = "1 of 1 volumes did not keep their guaranteed state: v (gone at 50 s, not deleted by the run)"
    assert judged(read(journal(STARTED, WENT))) == {"volumes": Finding("volumes", "invalid", why)}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "it was not ready, and the run did not wait for it"),
        ([FROZEN], "it was not ready, and the run did not wait for it"),
        ([STARTED], "it was not checked to the end"),
        ([STARTED, change(20)], "it was not checked to the end"),
        ([STARTED, CRASHED, STOPPED], "the checker crashed: KeyError('x')"),
        ([STARTED, change(20), CRASHED, STOPPED], "the checker crashed: KeyError('x')"),
    ],
)
def test_unobserved_volume_is_unknown(lines, why):
    (volume,) = seen = read(journal(*lines))
    assert volume.verdict == "unknown"
    assert judged(seen) == {
        "volumes": Finding("volumes", "unknown", f"1 of 1 volumes could not be judged: v ({why})")
    }


def test_broken_volume_does_not_hide_an_unknown_one():
    finding = judged(read([*journal(STARTED, change(20), STOPPED), *journal(volume="w")]))[
        "volumes"
    ]
    assert finding.verdict == "invalid"
    assert finding.why == (
        "1 of 2 volumes did not keep their guaranteed state: v; "
        "1 of 2 volumes could not be judged: w (it was not ready, and the run did not wait for it)"
    )


MOVED = (250, "volume-placed", {"nodes": ["node-2", "node-3"]})
ODD = [PLACED, STARTED, change(190), STOPPED]
LATE = [PLACED, STARTED, change(290), STOPPED]


@pytest.mark.parametrize(
    ("lines", "incidents_of_run", "verdict"),
    [
        (LATE, [incident(280, None)], "interrupted"),
        (ODD, [incident(180, 181)], "interrupted"),
        (ODD, [incident(170, 180)], "broken"),  # it had its two minutes
        (LATE, [incident(310, 320)], "broken"),
        (LATE, [incident(280, None, "node-9")], "broken"),
        (ODD, [incident(190, None)], "interrupted"),
        (ODD, [incident(191, None)], "broken"),  # no cause comes after its effect
        (
            ODD,
            [incident(100, 150), incident(240, None)],
            "interrupted",
        ),  # the second before it could recover from the first
        (
            ODD,
            [incident(100, 110), incident(240, None)],
            "broken",
        ),  # left in peace from 230 to 240 s
        (
            [PLACED, STARTED, change(20, "Quorum"), *LATE[2:]],
            [incident(280, None)],
            "broken",
        ),  # nothing excuses the other
        (
            [PLACED, STARTED, change(20), change(25), *LATE[2:]],
            [incident(280, None)],
            "interrupted",
        ),
        (LATE, [incident(280, None, failed="Forbidden()")], "broken"),
        (
            LATE,
            [incident(280, None, failed="TimeoutError()", effects=["a link is down"])],
            "interrupted",
        ),
        (
            LATE,
            [incident(280, None, failed="TimeoutError()", possible_effects=["a link is down"])],
            "interrupted",
        ),
        (
            LATE,
            [incident(280, None, failed="InternalError()", not_undone="InternalError()")],
            "interrupted",
        ),
        (
            LATE,
            [
                incident(
                    280,
                    None,
                    "node-1",
                    "node-3",
                    refused_nodes=["node-1"],
                    effects=["a pod is gone"],
                )
            ],
            "broken",
        ),
        (
            LATE,
            [
                incident(
                    280,
                    None,
                    "node-1",
                    "node-3",
                    refused_nodes=["node-3"],
                    effects=["a pod is gone"],
                )
            ],
            "interrupted",
        ),
        (LATE, [incident(280, None, lasting=True)], "broken"),
        (
            [PLACED, STARTED, MOVED, *LATE[2:]],
            [incident(280, None)],
            "broken",
        ),  # it has long left that node
        ([PLACED, STARTED, MOVED, *LATE[2:]], [incident(280, None, "node-3")], "interrupted"),
        ([PLACED, STARTED, change(240), MOVED, STOPPED], [incident(230, None)], "interrupted"),
        ([STARTED, change(290), STOPPED], [incident(280, None)], "broken"),  # it was nowhere
        ([PLACED, NEVER_READY], [incident(0, None)], "interrupted"),
        ([PLACED, NEVER_READY], [incident(0, 300), incident(400, None)], "interrupted"),
        ([PLACED, NEVER_READY], [incident(3, None)], "interrupted"),  # no storage forms in 2 s
        ([PLACED, NEVER_READY], [incident(61, None)], "broken"),  # it was in peace for a minute
        ([PLACED, NEVER_READY], [incident(60.5, None)], "interrupted"),
        ([PLACED, NEVER_READY], [incident(0, 420)], "broken"),
        ([PLACED, NEVER_READY], [incident(0, 421)], "interrupted"),
        (
            [PLACED, NEVER_READY],
            [incident(31, 390), incident(540, None)],
            "broken",
        ),  # for half a minute twice
        ([PLACED, NEVER_READY], [incident(30, 390), incident(540, None)], "interrupted"),
        ([(595, *PLACED[1:]), NEVER_READY], [], "broken"),  # it came late by itself
        ([(595, *PLACED[1:]), NEVER_READY], [incident(598, None)], "interrupted"),
        ([NEVER_READY], [incident(500, None)], "broken"),
        ([PLACED, STARTED, WENT], [incident(30, None)], "broken"),
    ],
)
def test_incident_opens_a_tolerance_window(lines, incidents_of_run, verdict):
    (volume,) = read(journal(*lines), incidents_of_run)
    assert volume.verdict == verdict


FELT = {"affected_volumes": {"v"}}


@pytest.mark.parametrize(
    ("changed", "incidents_of_run", "verdict"),
    [
        (290, [destruction(280, None)], "interrupted"),
        (250, [destruction(249, 271)], "interrupted"),
        (250, [destruction(249, 270)], "broken"),  # others were in their place for half a minute
        (190, [destruction(180, 181, **FELT)], "interrupted"),
        (
            190,
            [destruction(180, 181, possibly_affected_volumes=("v",), settled_at=186)],
            "interrupted",
        ),
        (
            190,
            [destruction(180, 181, **FELT, settled_at=186)],
            "broken",
        ),  # it was well again after that
        (190, [destruction(180, 181, affected_volumes=("w",))], "broken"),
        (190, [block(180, 189, "node-1", "node-2")], "interrupted"),
        (
            190,
            [block(180, 189, "node-1", "node-2", settled_at=189.5)],
            "interrupted",
        ),  # a cut keeps its two minutes
        (
            190,
            [block(180, 189, "node-1", "node-9")],
            "broken",
        ),  # one end of a link that it does not have
        (295, [block(180, 290, "node-1", "node-9")], "interrupted"),
        (
            190,
            [block(180, 189, "node-1", "node-2", group_a=["node-1", "node-2"], group_b=["node-3"])],
            "broken",
        ),
        (
            190,
            [block(180, 189, "node-1", "node-2", group_a=["node-1"], group_b=["node-2"])],
            "interrupted",
        ),
    ],
)
def test_incident_tolerance_window_ends(changed, incidents_of_run, verdict):
    (volume,) = read(journal(PLACED, STARTED, change(changed), STOPPED), incidents_of_run)
    assert volume.verdict == verdict


HEALED = Entry(400, "run", "liveness", {"late": ["v0"]})


def deletion(number):
    return Entry(310, "actor", "began", {"action": "delete the volume", "volume": f"v{number}"})


def test_return_of_another_condition_proves_nothing():
    lost = (PLACED, STARTED, change(290), *(change(at, "Quorum") for at in (291, 292)), STOPPED)
    seen = read(
        [entry for number in range(5) for entry in journal(*lost, volume=f"v{number}")],
        [incident(280, None)],
    )
    why = "5 of 5 volumes were interrupted, and no volume regained IOReady: run longer"
    assert judged(seen)["volumes"] == Finding("volumes", "unknown", why)


@pytest.mark.parametrize(("at", "verdict"), [(5, "unknown"), (310, "broken")])
def test_crash_while_not_ready_ends_the_wait(at, verdict):
    crashed = Entry(at, "run", "crashed", {"component": "multivolume", "error": "RuntimeError()"})
    (volume,) = read(sorted([*journal(FROZEN, LATE_ITSELF), crashed], key=lambda entry: entry.at))
    assert volume.verdict == verdict


@pytest.mark.parametrize(
    ("interrupted", "more", "verdict"),
    [
        (5, [], "unknown"),
        (4, [], "valid"),  # they may have had no time
        (5, journal(PLACED, STARTED, change(20), change(25), STOPPED, volume="w"), "valid"),
        (5, [HEALED], "valid"),
        (5, [*map(deletion, range(4)), HEALED], "valid"),
        (5, [*map(deletion, range(5)), HEALED], "unknown"),
        (
            5,
            [*journal((270, *PLACED[1:]), FROZEN, volume="w"), HEALED],
            "valid",
        ),  # it became ready when all was healed
    ],
)
def test_interruptions_without_recovery_prove_nothing(interrupted, more, verdict):
    late = [entry for number in range(interrupted) for entry in journal(*LATE, volume=f"v{number}")]
    finding = judged(read([*late, *more], [incident(280, None)]))["volumes"]
    why = "5 of 5 volumes were interrupted, and no volume regained IOReady: run longer"
    words = why if verdict == "unknown" else ""
    assert finding == Finding("volumes", verdict, words)


def off(*nodes, started=20):
    stop = incidents.IncidentRecord(
        "i",
        "vm-stop",
        "vm-stop",
        {"nodes": list(nodes)},
        started,
        350,
        powers_off=True,
        effects=["off"],
        lasting=True,
    )
    return [stop]


@pytest.mark.parametrize(
    ("lines", "incidents_of_run", "verdict"),
    [
        ([STARTED, STOPPED], off("node-1", "node-2"), "unknown"),
        ([STARTED, STOPPED], off("node-1") + off("node-2"), "unknown"),
        ([STARTED, STOPPED], off("node-1"), "stable"),
        ([STARTED, STOPPED], off("node-1", "node-2", started=301), "stable"),
        ([STARTED, change(30), STOPPED], off("node-1", "node-2"), "broken"),
        ([STARTED, change(30), change(40), STOPPED], off("node-1", "node-2"), "unknown"),
        ([NEVER_READY], off("node-1", "node-2"), "broken"),
    ],
)
def test_volume_is_unknown_while_all_machines_are_off(lines, incidents_of_run, verdict):
    gone = (900, "volume-placed", {"nodes": []})
    (volume,) = read(journal(PLACED, *lines, gone), incidents_of_run)
    assert volume.verdict == verdict
    assert volume.unjudged == (
        "all machines with its replicas are off, so its conditions are out of date"
        if volume.off
        else ""
    )


@pytest.mark.parametrize(
    ("changed", "stopped", "settled", "verdict"),
    [
        (20, 30, 25, "interrupted"),  # in the very moment of its end: it may be the pod's doing
        (21, 30, 25, "broken"),
        (21, 24, 25, "interrupted"),
        (21, 139, 200, "interrupted"),
        (21, 140, 200, "broken"),
    ],
)
def test_destroyed_pods_tolerate_later_conditions_until_recovery(
    changed, stopped, settled, verdict
):
    incidents_of_run = [destruction(15, 20, settled_at=settled, affected_volumes=("v",))]
    (volume,) = read(
        journal(PLACED, STARTED, change(changed), (stopped, "checker-stopped", {})),
        incidents_of_run,
    )
    assert volume.verdict == verdict


@pytest.mark.parametrize(
    ("result", "changed", "stopped", "verdict"),
    [
        ("done", 20, 49, "interrupted"),
        ("done", 20, 50, "broken"),
        ("done", 15, 49, "interrupted"),  # it may have been taken with its first attempt
        ("done", 14, 49, "broken"),
        ("done", 50, 60, "broken"),
        ("stopped", 20, 49, "interrupted"),
        ("failed: ConnectionResetError()", 20, 49, "interrupted"),
        ("failed: Forbidden('it is not yours')", 20, 49, "broken"),
    ],
)
def test_replica_we_deleted_opens_a_tolerance_window(result, changed, stopped, verdict):
    began = (15, "began", {"action": "delete a replica", "replica": "v-0"})
    ended = (
        20,
        "ended",
        {"action": "delete a replica", "replica": "v-0", "result": result, "took": 5.0},
    )
    ended[2].update({"possibly_done": True} if "Reset" in result else {})
    story = journal(
        PLACED, STARTED, began, ended, change(changed), (stopped, "checker-stopped", {})
    )
    (volume,) = read(sorted(story, key=lambda entry: entry.at))
    assert volume.verdict == verdict


def took(at, **more):
    """Deletion of a replica by us; it is a disk if a replacement timeout is given."""
    return (
        at,
        "ended",
        {"action": "delete a replica", "replica": "v-0", "result": "done", "took": 0.0, **more},
    )


def whole(at):
    return (at, "replicas-restored", {})


def checked(*lines, until=300):
    return [PLACED, STARTED, *lines, (until, "checker-stopped", {})]


DISK = {"patience": 600.0}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (checked(took(20, **DISK), change(30)), "interrupted"),
        (checked(took(20, **DISK), change(19)), "broken"),
        (checked(took(20, **DISK), change(30), until=619), "interrupted"),
        (checked(took(20, **DISK), change(30), until=620), "broken"),  # nobody replaces it
        (checked(took(20, **DISK), change(30), took(320, **DISK), until=919), "interrupted"),
        (checked(took(20, **DISK), change(30), whole(271)), "interrupted"),
        (checked(took(20, **DISK), change(30), whole(270)), "broken"),  # it had half a minute
        (checked(took(20, **DISK), change(30), whole(200), took(229, **DISK)), "interrupted"),
        (checked(took(20, **DISK), change(30), whole(200), took(231, **DISK)), "broken"),
        (checked(took(20), change(30), until=49), "interrupted"),
        (checked(took(20), change(30), until=50), "broken"),
        (
            checked(took(20, result="failed: Forbidden('no')", **DISK), change(30), until=31),
            "broken",
        ),
        ([PLACED, took(300, **DISK), NEVER_READY], "unknown"),  # it began anew
        ([PLACED, took(300), NEVER_READY], "broken"),
        ([PLACED, took(300, **DISK), whole(511), NEVER_READY], "unknown"),
        ([PLACED, took(300, **DISK), FROZEN, LIVENESS], "stable"),  # it is ready when all is healed
        ([PLACED, took(300, **DISK), whole(510), NEVER_READY], "broken"),
    ],
)
def test_our_deletions_tolerate_the_volume_until_replacement(lines, verdict):
    (volume,) = read(journal(*lines))
    assert volume.verdict == verdict


@pytest.mark.parametrize(("took_at", "excused"), [(400, False), (460, False), (950, False)])
def test_volume_being_deleted_lacks_nothing(took_at, excused):
    """Its deletion starts at 400 s."""
    lines = [
        PLACED,
        STARTED,
        took(300, **DISK),
        (400, *DELETED[1:]),
        took(took_at, **DISK),
        (1000, "never-gone", {"waited": 600.0, "why": ""}),
    ]
    (volume,) = read(journal(*lines))
    assert volume.overdue_deletions[0].excused is excused


@pytest.mark.parametrize(("replaced", "is_failure"), [(140, True), (141, False)])
def test_our_deletions_tolerate_concurrent_requests(replaced, is_failure):
    """The request starts at 20 s and is given up at 200 s."""
    (volume,) = read(journal(*checked(took(50, **DISK), whole(replaced), attach(200, TOO_LONG))))
    assert volume.unattached[0].is_failure is is_failure


def test_event_after_recovery_tolerates_nothing_earlier():
    """The volume was not attached while it was observed."""
    healed = (320, "volume-placed", {"nodes": ["node-1"]})
    (volume,) = read(journal(FROZEN, healed, LATE_ITSELF), [incident(310, 360)])
    assert volume.verdict == "broken"


def test_volumes_of_the_same_name_are_distinct():
    again = [
        Entry(at + 400, who, what, data)
        for at, who, what, data in map(astuple, journal(STARTED, STOPPED))
    ]
    seen = Volumes(read([*journal(STARTED, change(20), STOPPED), *again]))
    assert [volume.verdict for volume in seen] == ["broken", "stable"]
    assert seen["v"] is seen[1]


def test_churn_without_a_volume_proves_nothing():
    refused = judged([], refusal="failed: Forbidden('no more')")
    assert refused == {
        "volumes": Finding(
            "volumes", "unknown", "churn made no volume: failed: Forbidden('no more')"
        )
    }
    assert judged([])["volumes"].why == "churn made no volume: run longer"
    assert judged([], churn=False) == {"volumes": Finding("volumes", "valid")}


def attach(at, result, action="attach"):
    took = 180.0 if "TimeoutError" in result else 0.0
    return (at, "ended", {"action": action, "node": "node-1", "result": result, "took": took})


def cut(at, took, action="attach", why=""):
    return (
        at,
        "ended",
        {"action": action, "node": "node-1", "result": f"stopped{why}", "took": took},
    )


TOO_LONG = "failed: TimeoutError('v was not attached to node-1 within 300 s')"
HINDERED = (
    "failed: HinderedError('v was not attached to node-1 within 300 s: v-0 is being deleted')"
)
REFUSED = "failed: Forbidden('no')"
BLAMED = "1 of 2 that failed had at least 60 s undisturbed"


@pytest.mark.parametrize(
    ("lines", "incidents_of_run", "verdict"),
    [
        ([], [], None),
        ([attach(20, "done")], [], None),
        ([attach(20, REFUSED), attach(30, "done")], [], None),
        ([attach(200, TOO_LONG), attach(210, "done")], [], "invalid"),  # one is enough
        ([attach(200, TOO_LONG), attach(210, "done")], [incident(15, 190)], None),
        ([attach(200, TOO_LONG), attach(210, "done")], [incident(79, 190)], None),
        (
            [attach(200, TOO_LONG), attach(210, "done")],
            [incident(80, 190)],
            "invalid",
        ),  # it had a minute in peace
        (
            [attach(200, TOO_LONG), attach(210, "done")],
            [incident(30, 30)],
            "invalid",
        ),  # in two parts
        ([attach(200, TOO_LONG), attach(210, "done")], [incident(30, 31)], None),
        ([attach(200, HINDERED), attach(210, "done")], [], None),
        ([cut(70, 59)], [], None),
        ([cut(70, 60)], [], "unknown"),
        ([cut(69, 60)], [], None),  # it was asked for before the volume was ready
        ([cut(70, 60), attach(210, "done")], [], "unknown"),
        ([cut(70, 60, why=": v-0 is being deleted")], [], None),
        ([cut(70, 60)], [incident(69, 90)], None),
        ([cut(70, 60), attach(200, TOO_LONG)], [], "invalid"),
        ([attach(1, "done", "attach at first")], [], "unknown"),
        ([attach(1, "done", "attach at first")], [incident(69, 299)], None),
        (
            [
                attach(1, "done", "attach at first"),
                (60, "began", {"action": "detach", "node": "node-1"}),
            ],
            [],
            None,
        ),
        ([attach(1, "done", "attach at first"), (250, "attached", {"node": "node-1"})], [], None),
        ([attach(1, "done", "attach at first"), attach(210, "done")], [], None),
        ([attach(20, REFUSED, "attach at first"), attach(25, REFUSED)], [], "unknown"),
        ([attach(200, TOO_LONG)], [], "invalid"),
        ([attach(200, TOO_LONG), attach(210, REFUSED)], [], "invalid"),
        ([attach(200, TOO_LONG)], [incident(15, 190)], "unknown"),
        (
            [attach(200, TOO_LONG)],
            [incident(180, 190)],
            "invalid",
        ),  # it was in peace from 20 to 180 s
        ([attach(200, TOO_LONG)], [incident(15, 190, "node-9")], "invalid"),
    ],
)
def test_failed_attachments(lines, incidents_of_run, verdict):
    finding = judged(read(journal(PLACED, STARTED, *lines, STOPPED), incidents_of_run)).get(
        "attachments"
    )
    assert (finding and finding.verdict) == verdict


def test_attachments_count_when_established():
    """Initial attachments count by observation, later ones by their waiting actor."""
    at_first = [attach(1, "done", "attach at first"), (4, "attached", {"node": "node-1"})]
    (volume,) = seen = read(
        journal(PLACED, STARTED, *at_first, attach(9, "done"), attach(200, REFUSED), STOPPED)
    )
    assert volume.attached == 2
    assert "attachments" not in judged(seen)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        (
            [REFUSED, REFUSED],
            "none of the 2 requested attachments succeeded: Forbidden('no')",
        ),
        (
            [REFUSED, TOO_LONG],
            (
                "none of the 2 requested attachments succeeded: "
                f"{BLAMED}: {TOO_LONG.removeprefix('failed: ')}"
            ),
        ),
    ],
)
def test_failed_attachments_report_reasons(results, why):
    findings = judged(
        read(journal(PLACED, STARTED, *(attach(200, result) for result in results), STOPPED))
    )
    assert findings["attachments"].why == why


@pytest.mark.parametrize(
    ("action", "check"),
    [
        ("detach", "detachments"),
        ("detach everywhere", "detachments"),
        ("resize the volume", "resizes"),
    ],
)
@pytest.mark.parametrize(
    ("lines", "incidents_of_run", "blamed"),
    [
        ([TOO_LONG, "done"], [], True),
        ([REFUSED], [], False),
        (["stopped"], [], False),
        ([TOO_LONG], [incident(15, 190)], False),
        ([TOO_LONG], [incident(180, 190)], True),
    ],
)
def test_single_detachment_or_resize_not_done_by_the_storage(
    action, check, lines, incidents_of_run, blamed
):
    findings = judged(
        read(
            journal(PLACED, STARTED, *(attach(200, result, action) for result in lines), STOPPED),
            incidents_of_run,
        )
    )
    assert (check in findings and findings[check].verdict == "invalid") is blamed


@pytest.mark.parametrize(
    ("action", "check", "name"),
    [("detach", "detachments", "undetached"), ("resize the volume", "resizes", "unresized")],
)
def test_completed_request_is_not_reported_as_failed(action, check, name):
    ends = [
        attach(150, "done", action),
        attach(200, TOO_LONG, action),
        attach(250, REFUSED, action),
        attach(260, "done", action),
    ]
    (volume,) = seen = read(journal(PLACED, STARTED, *ends, STOPPED))
    late, refused = (result.removeprefix("failed: ") for result in (TOO_LONG, REFUSED))
    assert getattr(volume, name) == (
        volumes.FailedOperation(200, 180.0, late, refused=False),
        volumes.FailedOperation(250, 0.0, refused, refused=True, excused=True),
    )
    why = f"1 of 2 that failed had at least 60 s undisturbed: {late}"
    assert judged(seen)[check] == Finding(check, "invalid", why)


def test_failed_request_reports_its_end():
    def why(*lines):
        return judged(read(journal(PLACED, STARTED, *lines, STOPPED)))["attachments"].why

    none, cut_short = (
        "none of the {} requested attachments succeeded: ",
        "cut short after at least 60 s undisturbed",
    )
    ends = [cut(70, 60), cut(270, 60)]
    assert why(*ends) == f"{none.format(2)}2 were {cut_short}: let volumes live longer"
    assert why(attach(20, "done"), *ends) == f"2 were {cut_short}: let volumes live longer"
    assert why(attach(1, "done", "attach at first")) == f"{none.format(1)}each had enough time"


@pytest.mark.parametrize(("asked", "reported"), [(130, "unknown"), (131, None), (191, None)])
def test_resize_is_interrupted_by_the_deletion(asked, reported):
    lines = [
        PLACED,
        STARTED,
        STOPPED,
        (190, *DELETED[1:]),
        cut(400, 400 - asked, "resize the volume"),
    ]
    finding = judged(read(journal(*lines))).get("resizes")
    assert (finding and finding.verdict) == reported


@pytest.mark.parametrize(("ready_at", "verdict"), [(20, "invalid"), (21, "unknown")])
def test_request_on_an_unready_volume_is_tolerated(ready_at, verdict):
    """The request starts at 20 s."""
    findings = judged(
        read(journal(PLACED, (ready_at, *STARTED[1:]), attach(200, TOO_LONG), STOPPED))
    )
    assert findings["attachments"].verdict == verdict


@pytest.mark.parametrize(("deleted", "reported"), [(279, None), (280, "unknown"), (500, "invalid")])
def test_volume_being_deleted_need_not_grow(deleted, reported):
    """The request starts at 220 s."""
    lines = [
        PLACED,
        STARTED,
        STOPPED,
        (deleted, *DELETED[1:]),
        attach(400, TOO_LONG, "resize the volume"),
    ]
    finding = judged(read(journal(*sorted(lines, key=lambda line: line[0])))).get("resizes")
    assert (finding and finding.verdict) == reported


@pytest.mark.parametrize(("had", "reported"), [(59, None), (60, "unknown")])
def test_storage_timeout_starts_when_the_api_accepts_the_request(had, reported):
    at, what, data = cut(270, 200)
    finding = judged(
        read(journal(PLACED, STARTED, (at, what, data | {"available": had}), STOPPED))
    ).get("attachments")
    assert (finding and finding.verdict) == reported


def test_incidents_are_read_with_effect_and_end():
    start = {
        "incident": "i",
        "profile": "pod-destroy",
        "variant": "pod-destroy",
        "targets": {"pods": ["a"]},
    }
    entries = [
        Entry(5, "x", "incident-started", start),
        Entry(6, "x", "incident-effect", {"incident": "i", "effect": "gone"}),
        Entry(7, "x", "incident-effect", {"incident": "i", "effect": "not ready", "volume": "v"}),
        Entry(
            8,
            "x",
            "incident-possible-effect",
            {"incident": "i", "effect": "not ready", "volume": "w"},
        ),
        Entry(9, "x", "incident-ended", {"incident": "i"}),
        Entry(16, "x", "incident-recovered", {"incident": "i", "took": 2.0}),
    ]
    found = {}
    for entry in entries:
        incidents.update_incidents(found, entry)
    (seen,) = found.values()
    assert (seen.started_at, seen.removed_at, seen.effects, seen.had_effect) == (
        5,
        9,
        ["gone", "not ready"],
        True,
    )
    assert (
        seen.affected_volumes,
        seen.possibly_affected_volumes,
        seen.recovered_at,
        seen.settled_at,
    ) == (
        ("v",),
        ("w",),
        11,
        16,
    )
    assert [finding.verdict for finding in incidents.judge(["pod-destroy"], [seen])] == ["valid"]


def test_profile_without_any_effect_proves_nothing():
    (finding,) = incidents.judge(["pod-destroy"], [destruction(1, 2)])
    assert (finding.verdict, finding.why) == (
        "unknown",
        "1 incident of pod-destroy, none with an effect: run longer",
    )


WHY = "Forbidden: no"
NEVER_GONE = (1000, "never-gone", {"waited": 600.0, "why": WHY})


@pytest.mark.parametrize(
    ("incidents_of_run", "verdict", "why"),
    [
        ([], "invalid", f"v was not deleted 600 s after its deletion began: {WHY}"),
        (
            [incident(390, 800, "node-1")],
            "invalid",
            f"v was not deleted 600 s after its deletion began: {WHY}",
        ),
        (
            [incident(460, None, "node-1")],
            "invalid",
            f"v was not deleted 600 s after its deletion began: {WHY}",
        ),
        (
            [incident(390, None, "node-9")],
            "invalid",
            f"v was not deleted 600 s after its deletion began: {WHY}",
        ),
        (
            [incident(390, 900, "node-1")],
            "valid",
            (
                f"v was not deleted 600 s after its deletion began: {WHY}; tolerated, because of "
                "incidents on their nodes"
            ),
        ),
    ],
)
def test_volume_that_cannot_be_deleted(incidents_of_run, verdict, why):
    seen = read(journal(PLACED, STARTED, STOPPED, NEVER_GONE), incidents_of_run)
    assert judged(seen)["deletion"] == Finding("deletion", verdict, why)
    assert seen[0].as_json()["overdue_deletions"] == [
        {"at": 1000, "waited": 600.0, "why": WHY, "excused": verdict == "valid"}
    ]


def test_one_untolerated_stuck_deletion_is_enough():
    later = (1700, "never-gone", {"waited": 1300.0, "why": WHY})
    seen = read(
        journal(PLACED, STARTED, STOPPED, NEVER_GONE, later), [incident(390, 990, "node-1")]
    )
    assert judged(seen)["deletion"].why.startswith("v was not deleted 1300 s")


def test_accepted_deletion_that_is_slow_is_only_late():
    seen = read(
        journal(PLACED, STARTED, STOPPED, (1000, "never-gone", {"waited": 600.0, "why": ""}))
    )
    assert judged(seen)["deletion"].why == "v was not deleted 600 s after its deletion began"


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([], "valid"),
        (["valid"], "valid"),
        (["valid", "unknown"], "unknown"),
        (["unknown", "invalid", "valid"], "invalid"),
    ],
)
def test_worst_verdict_wins(verdicts, whole):
    assert merged(Finding("c", verdict) for verdict in verdicts) == whole


def test_volumes_on_the_same_nodes_share_one_node_list():
    others = [
        Entry(at, "actor", what, {"volume": "w", **data})
        for at, what, data in (BIRTH, (7, "volume-placed", PLACED[2]))
    ]
    seen, other = read([*journal(PLACED, (9, "volume-placed", {"nodes": ["node-3"]})), *others])
    assert seen.nodes == ["node-1", "node-2", "node-3"]
    assert other.placed_on == (("node-1", "node-2"),)
    assert other.placed_on[0] is seen.placed_on[0]
    assert [seen.nodes_between(*span) for span in ((0, 0.5), (1, 2), (2, 9), (10, 11))] == [
        set(),
        {"node-1", "node-2"},
        {"node-1", "node-2", "node-3"},
        {"node-3"},
    ]


def test_records_are_plain_data():
    (seen,) = read(
        [
            *journal(STARTED, change(20)),
            Entry(21, "actor", "attached", {"volume": "v", "node": "node-1"}),
        ]
    )
    assert copy.deepcopy(seen) == seen == pickle.loads(pickle.dumps(seen))
    assert json.loads(json.dumps(seen.transitions)) == {"IOReady": 1, "Quorum": 0}


def test_repeated_check_changes_nothing():
    (seen,) = read(
        journal(STARTED, change(20), (30, "checker-started", {"conditions": ["IOReady"]}))
    )
    assert (seen.transitions, seen.odd_since) == ({"IOReady": 0}, ())
