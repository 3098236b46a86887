"""Attribution of effects to incidents, rule by rule."""

from __future__ import annotations

from pytest_kscen.chaos.troubles import (
    DETECTION_TIME,
    LINK,
    MACHINE,
    NODE,
    NOWHERE,
    SETTLED,
    VOLUME,
    ExplanatoryPower,
    ObservedState,
    Reach,
    SuspectedIncident,
    attribute_trouble,
)

ON_LINKS = (LINK, VOLUME)
EVERYTHING = (LINK, VOLUME, NODE, MACHINE)
LOST = ObservedState(
    (LINK, "v-0", "v-1"), healthy=False, state="Connecting", nodes=("a", "b"), volume="v"
)
UNMADE = LOST._replace(due=10.0)
STUCK = ObservedState(
    (VOLUME, "v", "IOReady"), healthy=False, state="False", nodes=("a", "b", "c"), volume="v"
)
NOT_READY = ObservedState((NODE, "a"), healthy=False, state="Unknown", nodes=("a",))
STOPPING = ObservedState((MACHINE, "a"), healthy=False, state="Stopping", nodes=("a",))


def cut(since, until=None, **more):
    return SuspectedIncident(Reach(ON_LINKS, ("a",), ("b",), **more), since, until)


def degradation(since, until=None):
    return cut(since, until, power=ExplanatoryPower.DEGRADES)


def pods(since, node="a"):
    return SuspectedIncident(Reach((VOLUME,), (node,)), since)


def machine(since, seen=None, until=None):
    found = SuspectedIncident(
        Reach(EVERYTHING, ("a",), power=ExplanatoryPower.POWERS_OFF), since, until
    )
    if seen is not None:
        found.mark_active(seen)
    return found


def affecting(suspect, trouble=LOST):
    suspect.add_trouble(trouble, suspect.since)
    return suspect


def attribution(trouble, at, **suspects):
    """Return the names of the owner and of the possible causes."""
    names = {id(suspect): name for name, suspect in suspects.items()}
    owner, others = attribute_trouble(trouble, suspects.values(), at)
    return (names[id(owner)] if owner else "", [names[id(other)] for other in others])


def test_single_candidate_incident_is_the_cause():
    assert attribution(LOST, 10, cut=cut(0)) == ("cut", [])
    assert attribution(
        LOST, 10, elsewhere=SuspectedIncident(Reach(ON_LINKS, ("a",), ("c",)), 0)
    ) == (
        "",
        [],
    )


def test_link_loss_too_early_for_drbd_to_detect_is_not_attributed():
    assert attribution(LOST, DETECTION_TIME - 0.1, cut=cut(0)) == ("", ["cut"])
    assert attribution(LOST, DETECTION_TIME, cut=cut(0)) == ("cut", [])
    assert attribution(LOST, 8, short=cut(0, until=DETECTION_TIME - 0.1)) == ("", [])
    assert attribution(LOST, 8, short=degradation(3)) == ("", ["short"])


def test_machine_explains_lost_links_only_after_it_was_seen_down():
    assert attribution(STOPPING, 1, machine=machine(0)) == ("machine", [])
    for trouble in (LOST, STUCK, NOT_READY):
        assert attribution(trouble, 20, ordered=machine(0)) == ("", ["ordered"])
        assert attribution(trouble, 20, gone=machine(0, seen=5)) == ("gone", [])


def test_machine_down_outranks_cut_and_cut_outranks_degradation():
    assert attribution(LOST, 20, gone=machine(0, seen=5), later=cut(10)) == ("gone", [])
    assert attribution(LOST, 20, earlier=cut(0), gone=machine(0, seen=5)) == ("gone", ["earlier"])
    assert attribution(LOST, 20, ordered=machine(0), cut=cut(1)) == ("cut", [])
    assert attribution(LOST, 20, cut=cut(0), later=degradation(5)) == ("cut", [])
    assert attribution(LOST, 20, earlier=degradation(0), cut=cut(5)) == ("cut", ["earlier"])
    assert attribution(LOST, 20, degradation=degradation(0), too_new=cut(15)) == ("degradation", [])


def test_first_of_two_equal_incidents_is_the_cause():
    assert attribution(LOST, 20, second=cut(5), first=cut(0)) == ("first", [])
    assert attribution(NOT_READY, 40, second=machine(0, seen=20), first=machine(10, seen=15)) == (
        "first",
        [],
    )


def test_block_explains_no_unready_node_but_possibly_an_unwatched_one():
    assert attribution(NOT_READY, 60, cut=cut(0)) == ("", ["cut"])
    assert attribution(NOT_READY, 60, cut=cut(0), gone=machine(0, seen=5)) == ("gone", [])
    assert attribution(NOT_READY, 60, link=cut(0, volume="v")) == ("", [])


def test_block_affects_volumes_only_through_their_links():
    assert attribution(STUCK, 20, cut=cut(0)) == ("", ["cut"])
    assert attribution(STUCK, 20, cut=affecting(cut(0))) == ("cut", [])


def test_block_of_one_volumes_link_affects_no_other_volume():
    of_w = LOST._replace(key=(LINK, "w-0", "w-1"), volume="w")
    assert attribution(LOST, 20, link=cut(0, volume="v")) == ("link", [])
    assert attribution(of_w, 20, link=cut(0, volume="v")) == ("", [])
    assert attribution(STUCK, 20, link=affecting(cut(0, volume="v"))) == ("link", [])
    assert attribution(
        STUCK._replace(volume="w"), 20, link=affecting(cut(0, volume="v"), of_w)
    ) == (
        "",
        [],
    )


def test_effect_on_volume_with_several_candidates_is_only_possible():
    assert attribution(STUCK, 20, cut=affecting(cut(0)), pods=pods(10)) == ("", ["cut", "pods"])
    assert attribution(STUCK, 20, cut=affecting(cut(0)), pods=pods(10, node="d")) == ("cut", [])
    assert attribution(STUCK, 20, pods=pods(10), gone=machine(0, seen=5)) == ("", ["gone", "pods"])
    assert attribution(STUCK, 20, cut=affecting(cut(0)), gone=machine(0, seen=5)) == (
        "",
        ["gone", "cut"],
    )
    assert attribution(
        STUCK, 20, degradation=affecting(degradation(0)), gone=machine(0, seen=5)
    ) == (
        "gone",
        ["degradation"],
    )
    assert attribution(STUCK, 20, over=affecting(cut(0, until=10)), gone=machine(0, seen=5)) == (
        "gone",
        ["over"],
    )
    assert attribution(STUCK, 20, one=machine(0, seen=5), two=machine(0, seen=9)) == (
        "",
        ["one", "two"],
    )


def test_ended_incident_answers_for_its_effects_and_for_their_immediate_followers():
    assert attribution(LOST, 20 + SETTLED, over=cut(0, until=20)) == ("over", [])
    assert attribution(LOST, 21 + SETTLED, over=cut(0, until=20)) == ("", [])
    assert attribution(LOST, 60, over=affecting(cut(0, until=20))) == ("over", [])
    assert attribution(LOST, 60, over=affecting(cut(0, until=20)), on=cut(30)) == ("on", ["over"])
    assert attribution(LOST, 60, over=affecting(cut(0, until=20)), degradation=degradation(30)) == (
        "over",
        [],
    )


def test_link_not_established_is_attributed_to_earlier_block():
    at = UNMADE.due + DETECTION_TIME
    assert attribution(UNMADE, at, cut=cut(10)) == ("cut", [])
    assert attribution(UNMADE, at, cut=cut(9, until=at)) == ("cut", [])
    assert attribution(UNMADE, at, late=cut(10.1)) == ("", ["late"])
    assert attribution(UNMADE, at, short=cut(0, until=at - 0.1)) == ("", ["short"])
    assert attribution(UNMADE, at, over=cut(0, until=10)) == ("", [])
    assert attribution(UNMADE, at, second=cut(5), first=cut(0)) == ("first", [])
    assert attribution(UNMADE, at, degradation=degradation(0), cut=cut(5)) == (
        "cut",
        ["degradation"],
    )


def test_link_is_no_proof_while_an_end_may_be_down():
    at = UNMADE.due + DETECTION_TIME
    assert attribution(UNMADE, at, cut=cut(0), agent=pods(12, node="b")) == ("", ["cut"])
    assert attribution(UNMADE, at, cut=cut(0), elsewhere=pods(12, node="c")) == ("cut", [])
    assert attribution(UNMADE, at, cut=cut(0), gone=machine(0, seen=12)) == ("", ["cut", "gone"])
    assert attribution(UNMADE, at, cut=cut(0), back=machine(0, seen=2, until=9)) == ("", ["cut"])
    assert attribution(UNMADE, at, cut=cut(0), ordered=machine(0)) == ("cut", [])
    assert attribution(UNMADE._replace(excused=True), at, cut=cut(0)) == ("", ["cut"])


def test_refused_fault_has_only_possible_effects():
    asked = cut(0)
    asked.possible_troubles = {one.key: one for one in (LOST, STUCK)}
    asked.reaches(asked.reach)
    assert asked.open_troubles == [LOST, STUCK]
    asked.reaches(NOWHERE)
    assert asked.open_troubles == []


def test_inherited_effect_is_dropped_when_own_or_out_of_reach():
    for changed in (
        lambda one: one.add_trouble(LOST, 2),
        lambda one: one.reaches(NOWHERE),
        lambda one: one.drop_trouble(LOST),
    ):
        suspect = cut(0)
        suspect.possible_troubles[LOST.key], suspect.inherited_from[LOST.key] = LOST, "first"
        changed(suspect)
        assert (suspect.possible_troubles, suspect.inherited_from) == ({}, {})
