import pytest

from pytest_kscen.embedded.kubelet.network import Impairment

THREE = {"quorum": 2, "redundancy": 2}
TIE = {"quorum": 2, "diskless": "c"}


def test_one_primary_unless_two_are_allowed(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.do("primary", "a", "v")
    assert yard.status("a").role == yard.link("b", "a").peer_role == "Primary"
    why = yard.refused("primary", "b", "v")
    assert why == "v: b cannot become Primary: a is Primary, and two primaries are not allowed"
    yard.spread("abc", **THREE, primaries=2)
    yard.do("primary", "b", "v")
    yard.do("secondary", "a", "v")
    assert [str(yard.status(node).role) for node in "abc"] == ["Secondary", "Primary", "Secondary"]


def test_primary_behind_another_node_counts(yard):
    yard.form("abc", **TIE)
    yard.do("primary", "a", "v")
    yard.cut(("a", "b"))
    yard.advance(20)
    assert yard.state("a", "b") == "Connecting"
    assert yard.disk("b") == "Outdated"
    assert yard.disk("a") == "UpToDate"
    assert not yard.status("b").quorum
    yard.do("secondary", "a", "v")
    assert yard.refused("primary", "b", "v").endswith("no quorum")


def test_promotion_needs_answers_of_all_connected_peers(yard):
    yard.form("abc", **THREE)
    yard.machines.power_off("a")
    assert yard.refused("primary", "b", "v").endswith("a does not answer b")
    yard.advance(9)
    yard.do("primary", "b", "v")
    assert yard.status("b").role == "Primary"


def test_promotion_needs_data(yard):
    yard.spread("a")
    assert yard.refused("primary", "a", "v").endswith(
        "no UpToDate data here or with a connected peer"
    )
    yard.do("initialize", "a", "v")
    yard.do("primary", "a", "v")


def test_diskless_primary_uses_its_peers(yard):
    yard.form("ac", quorum=0, diskless="c")
    yard.do("primary", "c", "v")
    assert not yard.status("c").suspended
    yard.cut(("a", "c"))
    assert yard.when(lambda: yard.status("c").suspended) == 8
    yard.mend(("a", "c"))
    assert yard.when(lambda: not yard.status("c").suspended) == 50


def test_io_freezes_without_quorum_and_resumes_with_it(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.cut(("a", "b"), ("a", "c"))
    yard.advance(7)
    assert not yard.status("a").suspended
    yard.advance(1)
    assert (yard.status("a").suspended, yard.status("a").quorum) == (True, False)
    assert yard.disk("b") == yard.disk("c") == "UpToDate"
    yard.mend(("a", "b"))
    assert yard.when(lambda: not yard.status("a").suspended) == 50
    assert yard.disk("c") == "Outdated"
    assert yard.status("a").role == "Primary"


def test_frozen_primary_is_demoted_and_resynced_after_a_takeover(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.cut(("a", "b"), ("a", "c"))
    yard.advance(10)
    yard.do("primary", "b", "v")
    yard.advance(30)
    assert (yard.status("a").role, yard.status("a").suspended, yard.disk("a")) == (
        "Primary",
        True,
        "Outdated",
    )
    yard.mend(("a", "b"), ("a", "c"))
    yard.advance(50.1)
    assert (yard.status("a").role, yard.link("a", "b").replication) == ("Secondary", "SyncTarget")
    yard.advance(1)
    assert yard.is_whole("abc")
    assert yard.status("b").role == "Primary"


def test_secondary_is_outdated_when_others_continue_writing(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.cut(("b", "a"), ("b", "c"))
    yard.advance(7.9)
    assert yard.disk("b") == "UpToDate"
    yard.advance(0.1)
    assert yard.disk("b") == "Outdated"
    assert not yard.status("b").quorum
    assert not yard.status("a").suspended


def test_tie_break_keeps_the_side_that_had_quorum(yard):
    yard.form("abc", **TIE, rule="tie-break")
    yard.do("primary", "a", "v")
    yard.cut(("b", "a"), ("b", "c"))
    yard.advance(10)
    assert (yard.status("a").quorum, yard.status("b").quorum, yard.status("c").quorum) == (
        True,
        False,
        True,
    )
    yard.machines.power_off("a")
    yard.advance(10)
    yard.machines.power_on("a")
    yard.spread("abc", **TIE, rule="tie-break")
    yard.advance(100)
    assert yard.state("a", "c") == "Connected"
    assert (yard.disk("a"), yard.status("a").quorum) == ("Consistent", False)
    yard.mend(("b", "a"), ("b", "c"))
    yard.advance(100)
    assert yard.is_whole("abc")


def test_command_on_a_stopped_resource_fails_with_a_reason(yard):
    for verb in ("primary", "secondary", "initialize"):
        assert yard.refused(verb, "a", "v") == "v is not up on a"
    yard.do("down", "a", "v")
    assert yard.status("a") is None
    yard.machines.power_off("a")
    assert yard.drbd.status("a", "v") is None
    for verb, more in (("up", [None]), ("down", []), ("primary", [])):
        assert yard.refused(verb, "a", "v", *more) == "v: a has no power"


def test_stopped_primary_is_no_primary(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.do("down", "a", "v")
    yard.do("primary", "b", "v")
    yard.spread("abc", **THREE)
    assert yard.status("a").role == "Secondary"


@pytest.mark.parametrize("nodes", ["abc", "cab"])
def test_listeners_are_notified_once_per_instant(build, nodes):
    yard = build("abc")
    yard.form(nodes, **THREE)
    yard.do("primary", "a", "v")
    yard.do("secondary", "a", "v")
    yard.do("primary", "a", "v")
    yard.rest()
    assert sorted(yard.told) == [(60, node, "v") for node in "abc"]
    yard.told.clear()
    yard.do("primary", "a", "v")
    yard.spread(nodes, **THREE)
    yard.network.changed()
    yard.advance(1000)
    assert yard.told == []
    yard.do("secondary", "a", "v")
    yard.do("primary", "a", "v")
    yard.rest()
    assert yard.told == []


def test_removed_machine_counts_as_powered_off(yard):
    yard.form("abc", **THREE)
    yard.machines.remove("c")
    assert yard.status("c") is None
    assert yard.when(lambda: yard.state("a", "c") == "Connecting") == 8


def test_network_is_evaluated_once_per_instant_of_change(yard):
    asked = []
    yard.form("abc", **THREE)
    yard.network.add_filter(lambda flow: asked.append(flow) or Impairment())
    yard.network.changed()
    yard.rest()
    assert len(asked) == 2 * 3
    yard.advance(10_000)
    assert len(asked) == 2 * 3
    assert sorted({flow.port for flow in asked}) == [7000, 7001, 7002]


def test_two_disconnected_primaries_do_not_diverge(yard):
    yard.form("abc", quorum=2, primaries=2)
    yard.do("primary", "a", "v")
    yard.do("primary", "b", "v")
    yard.cut(("a", "b"))
    yard.advance(20)
    assert [str(yard.disk(node)) for node in "abc"] == ["UpToDate", "Outdated", "UpToDate"]
    yard.do("secondary", "a", "v")
    yard.advance(20)
    assert yard.disk("a") == "Outdated"
    assert yard.disk("b") == "UpToDate"
    yard.mend(("a", "b"))
    yard.advance(60)
    assert yard.is_whole("abc")
