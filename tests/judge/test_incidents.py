"""Verdicts about incidents, from hand-written journals."""

from __future__ import annotations

import json
from array import array

import pytest

from pytest_kscen.journal import Entry
from pytest_kscen.judge.incidents import IncidentRecord, is_tolerated, judge, update_incidents
from pytest_kscen.judge.volumes import VolumeRecord

STARTED = {
    "profile": "network-block",
    "variant": "split-brain",
    "targets": {"nodes": ["node-1", "node-2"]},
}


def incidents(journal):
    found = {}
    for entry in journal:
        update_incidents(found, entry)
    return list(found.values())


def reported(*lines):
    """Return entries of the incident `i`, which began after two seconds, from (at, what, data)."""
    first = (2, "incident-started", STARTED)
    return [
        Entry(at, "chaos", f"{what}", {"incident": "i", **data})
        for at, what, data in (first, *lines)
    ]


def test_complete_incident():
    effects = [
        (8, "incident-effect", {"effect": "a link is down"}),
        (9, "incident-effect", {"effect": "a volume is lame"}),
    ]
    (seen,) = incidents(
        reported(
            *effects,
            (32, "incident-ended", {"lasted": 30}),
            (80, "incident-recovered", {"took": 43}),
        )
    )

    assert json.loads(json.dumps(seen.as_json())) == {
        "id": "i",
        "profile": "network-block",
        "variant": "split-brain",
        "targets": {"nodes": ["node-1", "node-2"]},
        "started_at": 2,
        "removed_at": 32,
        "lasted": 30,
        "recovered_at": 75,
        "recovery": 43,
        "had_effect": True,
        "effects": ["a link is down", "a volume is lame"],
        "lasting": False,
        "failed": "",
        "not_undone": "",
        "unrecovered": [],
        "possible_effects": [],
        "overtaken": [],
        "deleted_before_recovery": [],
        "overlapping": [],
        "refused_nodes": [],
    }
    assert [finding.verdict for finding in judge(["network-block"], [seen])] == ["valid"]


def test_possible_effect_becomes_proved():
    maybe = [
        (8, "incident-possible-effect", {"effect": one})
        for one in ("a volume is lame", "a node is gone")
    ]
    (seen,) = incidents(reported(*maybe, (9, "incident-effect", {"effect": "a volume is lame"})))

    assert (seen.effects, seen.possible_effects) == (["a volume is lame"], ["a node is gone"])


def test_interrupted_incident_has_no_end():
    (seen,) = incidents(reported((8, "incident-effect", {"effect": "a link is down"})))

    assert (seen.removed_at, seen.recovered_at, seen.recovery, seen.had_effect) == (
        None,
        None,
        None,
        True,
    )


def test_timestamps_match_the_duration():
    """The difference of these two decimals is slightly below thirty."""
    began = Entry(5.071538, "chaos", "incident-started", {"incident": "i", **STARTED})
    (seen,) = incidents(
        [began, Entry(35.071538, "chaos", "incident-ended", {"incident": "i", "lasted": 30})]
    )

    assert seen.removed_at - seen.started_at >= 30
    assert (seen.lasted, seen.as_json()["removed_at"]) == (30, 35.071538)
    update_incidents(
        {"i": seen}, Entry(40, "chaos", "incident-recovered", {"incident": "i", "took": 0.0})
    )
    assert str(seen.recovery) == "0.0"


def test_missing_recovery_is_reported():
    left = {"waited": 300, "left": ["the node node-1 is not ready"]}
    (seen,) = incidents(reported((32, "incident-ended", {}), (332, "incident-unrecovered", left)))

    assert (seen.recovered_at, seen.unrecovered) == (None, ["the node node-1 is not ready"])


def test_volume_deleted_before_recovery_did_not_recover():
    went = (40, "incident-target-deleted", {"left": ["Quorum of the volume v is False"]})
    (seen,) = incidents(reported((32, "incident-ended", {"lasted": 30}), went))

    assert (seen.recovery, seen.deleted_before_recovery, seen.settled_at) == (
        None,
        ["Quorum of the volume v is False"],
        40,
    )


def test_inherited_effect_outlasts_the_incident():
    (seen,) = incidents(
        reported(
            (32, "incident-ended", {"lasted": 30}), (80, "incident-overlapping", {"others": ["j"]})
        )
    )

    assert (seen.recovery, seen.overlapping, seen.settled_at) == (None, ["j"], 80)


def test_ambiguous_effects_prove_nothing():
    perhaps = (8, "incident-possible-effect", {"effect": "a link is down"})
    overtaken = (40, "incident-overtaken", {"by": ["j"], "left": ["a link is down"]})
    (seen,) = incidents(reported(perhaps, (32, "incident-ended", {"lasted": 30}), overtaken))

    assert (seen.had_effect, seen.possible_effects, seen.overtaken, seen.recovery) == (
        False,
        ["a link is down"],
        ["j"],
        None,
    )
    assert [finding.verdict for finding in judge(["network-block"], [seen])] == ["unknown"]


@pytest.mark.parametrize(
    ("nodes", "perhaps"), [(["node-1"], ["a link is down"]), (["node-1", "node-2"], [])]
)
def test_incident_without_effect_has_no_possible_effect(nodes, perhaps):
    (seen,) = incidents(
        reported(
            (8, "incident-possible-effect", {"effect": "a link is down"}),
            (9, "incident-refused", {"nodes": nodes}),
        )
    )

    assert (seen.possible_effects, seen.refused_nodes, seen.as_json()["refused_nodes"]) == (
        perhaps,
        nodes,
        nodes,
    )


def test_overlapping_incidents_are_kept_apart():
    other = [
        Entry(3, "chaos", "incident-started", {"incident": "j", **STARTED}),
        Entry(4, "chaos", "incident-ended", {"incident": "j"}),
    ]
    first, second = incidents(reported() + other)

    assert (first.removed_at, second.removed_at) == (None, 4)


def test_possible_effect_is_reported_for_its_incident_only():
    other = Entry(3, "chaos", "incident-started", {"incident": "j", **STARTED})
    first, second = incidents(
        [
            *reported(),
            other,
            *reported((8, "incident-possible-effect", {"effect": "a link is down"}))[1:],
        ]
    )

    assert (first.possible_effects, second.possible_effects, second.overtaken) == (
        ["a link is down"],
        [],
        [],
    )


def test_one_effect_suffices_for_a_profile():
    idle = incidents(reported((3, "incident-ended", {})))
    busy = incidents(reported((3, "incident-effect", {"effect": "a link is down"})))

    assert [finding.verdict for finding in judge(["network-block"], idle + busy)] == ["valid"]
    (finding,) = judge(["network-block", "network-block"], idle)
    assert (finding.verdict, finding.why) == (
        "unknown",
        "1 incident of network-block, none with an effect: run longer",
    )
    (finding,) = judge(["vm-reboot"], busy)
    assert (finding.check, finding.verdict) == ("chaos:vm-reboot", "unknown")


def test_failed_fault_reports_its_reason():
    seen = incidents(
        reported((3, "incident-failed", {"error": "Forbidden('no')"}), (4, "incident-ended", {}))
    )
    (finding,) = judge(["network-block"], seen)

    assert finding.why == (
        "1 incident of network-block, none with an effect, and 1 could not be "
        "caused: Forbidden('no')"
    )


def test_fault_that_may_still_be_active_makes_the_outcome_unknown():
    lines = [
        (3, "incident-effect", {"effect": "a link is down"}),
        (903, "incident-not-undone", {"error": "TimeoutError()"}),
    ]
    seen = incidents(reported(*lines))

    assert [(finding.check, finding.verdict) for finding in judge(["network-block"], seen)] == [
        ("chaos:network-block", "valid"),
        ("chaos", "unknown"),
    ]


@pytest.mark.parametrize(
    ("profile", "has_volumes", "advice"),
    [
        ("network-block", True, ": run longer"),
        (
            "network-block",
            False,
            (
                ", since there was no volume to show one: declare volume_churn, or create "
                "volumes in the test"
            ),
        ),
        ("vm-reboot", False, ": run longer"),
    ],
)
def test_remedy_for_incidents_without_effect(profile, has_volumes, advice):
    (seen,) = incidents(
        [Entry(2, "chaos", "incident-started", {"incident": "i", **STARTED, "profile": profile})]
    )
    (finding,) = judge([profile], [seen], link_profiles=["network-block"], has_volumes=has_volumes)
    assert finding.why == f"1 incident of {profile}, none with an effect{advice}"


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (0, "no incident of vm-reboot in 2m: run longer, or set a shorter period="),
        (1, "1 incident of vm-reboot, none with an effect: run longer"),
        (3, "3 incidents of vm-reboot, none with an effect: run longer"),
    ],
)
def test_absent_incidents_differ_from_incidents_without_effect(count, why):
    facts = {**STARTED, "profile": "vm-reboot"}
    seen = incidents(
        [
            Entry(number, "chaos", "incident-started", {"incident": f"i{number}", **facts})
            for number in range(count)
        ]
    )
    (finding,) = judge(["vm-reboot"], seen, lasted=120.0)
    assert (finding.verdict, finding.why) == ("unknown", why)


@pytest.mark.parametrize(("started", "tolerated"), [(10.0, True), (10.5, False)])
def test_incident_that_starts_at_the_instant_of_a_failure_tolerates_it(started, tolerated):
    volume = VolumeRecord("v", "none", placed_at=array("d", [0.0]), placed_on=(("node-1",),))
    incident = IncidentRecord("i", "vm-reboot", "vm-reboot", {"nodes": ["node-1"]}, started, 20.0)
    assert is_tolerated(volume, 10.0, 10.0, [incident]) is tolerated
