import pytest

from pytest_kscen.embedded.kubelet.network import Impairment

THREE = {"quorum": 2, "redundancy": 2}
TIE = {"quorum": 2, "diskless": "c"}


def test_one_primary_unless_two_are_allowed(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.do("primary", "a", "v")
    assert kernels.status("a").role == kernels.link("b", "a").peer_role == "Primary"
    why = kernels.refused("primary", "b", "v")
    assert why == "v: b cannot become Primary: a is Primary, and two primaries are not allowed"
    kernels.spread("abc", **THREE, primaries=2)
    kernels.do("primary", "b", "v")
    kernels.do("secondary", "a", "v")
    assert [str(kernels.status(node).role) for node in "abc"] == [
        "Secondary",
        "Primary",
        "Secondary",
    ]


def test_primary_behind_another_node_counts(kernels):
    kernels.form("abc", **TIE)
    kernels.do("primary", "a", "v")
    kernels.cut(("a", "b"))
    kernels.advance(20)
    assert kernels.state("a", "b") == "Connecting"
    assert kernels.disk("b") == "Outdated"
    assert kernels.disk("a") == "UpToDate"
    assert not kernels.status("b").quorum
    kernels.do("secondary", "a", "v")
    assert kernels.refused("primary", "b", "v").endswith("no quorum")


def test_promotion_needs_answers_of_all_connected_peers(kernels):
    kernels.form("abc", **THREE)
    kernels.machines.power_off("a")
    assert kernels.refused("primary", "b", "v").endswith("a does not answer b")
    kernels.advance(9)
    kernels.do("primary", "b", "v")
    assert kernels.status("b").role == "Primary"


def test_promotion_needs_data(kernels):
    kernels.spread("a")
    assert kernels.refused("primary", "a", "v").endswith(
        "no UpToDate data here or with a connected peer"
    )
    kernels.do("initialize", "a", "v")
    kernels.do("primary", "a", "v")


def test_diskless_primary_uses_its_peers(kernels):
    kernels.form("ac", quorum=0, diskless="c")
    kernels.do("primary", "c", "v")
    assert not kernels.status("c").suspended
    kernels.cut(("a", "c"))
    assert kernels.when(lambda: kernels.status("c").suspended) == 8
    kernels.repair(("a", "c"))
    assert kernels.when(lambda: not kernels.status("c").suspended) == 50


def test_io_freezes_without_quorum_and_resumes_with_it(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(("a", "b"), ("a", "c"))
    kernels.advance(7)
    assert not kernels.status("a").suspended
    kernels.advance(1)
    assert (kernels.status("a").suspended, kernels.status("a").quorum) == (True, False)
    assert kernels.disk("b") == kernels.disk("c") == "UpToDate"
    kernels.repair(("a", "b"))
    assert kernels.when(lambda: not kernels.status("a").suspended) == 50
    assert kernels.disk("c") == "Outdated"
    assert kernels.status("a").role == "Primary"


def test_frozen_primary_is_demoted_and_resynced_after_a_takeover(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(("a", "b"), ("a", "c"))
    kernels.advance(10)
    kernels.do("primary", "b", "v")
    kernels.advance(30)
    assert (kernels.status("a").role, kernels.status("a").suspended, kernels.disk("a")) == (
        "Primary",
        True,
        "Outdated",
    )
    kernels.repair(("a", "b"), ("a", "c"))
    kernels.advance(50.1)
    assert (kernels.status("a").role, kernels.link("a", "b").replication) == (
        "Secondary",
        "SyncTarget",
    )
    kernels.advance(1)
    assert kernels.is_whole("abc")
    assert kernels.status("b").role == "Primary"


def test_secondary_is_outdated_when_others_continue_writing(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(("b", "a"), ("b", "c"))
    kernels.advance(7.9)
    assert kernels.disk("b") == "UpToDate"
    kernels.advance(0.1)
    assert kernels.disk("b") == "Outdated"
    assert not kernels.status("b").quorum
    assert not kernels.status("a").suspended


def test_tie_break_keeps_the_side_that_had_quorum(kernels):
    kernels.form("abc", **TIE, rule="tie-break")
    kernels.do("primary", "a", "v")
    kernels.cut(("b", "a"), ("b", "c"))
    kernels.advance(10)
    assert (kernels.status("a").quorum, kernels.status("b").quorum, kernels.status("c").quorum) == (
        True,
        False,
        True,
    )
    kernels.machines.power_off("a")
    kernels.advance(10)
    kernels.machines.power_on("a")
    kernels.spread("abc", **TIE, rule="tie-break")
    kernels.advance(100)
    assert kernels.state("a", "c") == "Connected"
    assert (kernels.disk("a"), kernels.status("a").quorum) == ("Consistent", False)
    kernels.repair(("b", "a"), ("b", "c"))
    kernels.advance(100)
    assert kernels.is_whole("abc")


def test_command_on_a_stopped_resource_fails_with_a_reason(kernels):
    for verb in ("primary", "secondary", "initialize"):
        assert kernels.refused(verb, "a", "v") == "v is not up on a"
    kernels.do("down", "a", "v")
    assert kernels.status("a") is None
    kernels.machines.power_off("a")
    assert kernels.drbd.status("a", "v") is None
    for verb, more in (("up", [None]), ("down", []), ("primary", [])):
        assert kernels.refused(verb, "a", "v", *more) == "v: a has no power"


def test_stopped_primary_is_no_primary(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.do("down", "a", "v")
    kernels.do("primary", "b", "v")
    kernels.spread("abc", **THREE)
    assert kernels.status("a").role == "Secondary"


@pytest.mark.parametrize("nodes", ["abc", "cab"])
def test_listeners_are_notified_once_per_instant(build, nodes):
    kernels = build("abc")
    kernels.form(nodes, **THREE)
    kernels.do("primary", "a", "v")
    kernels.do("secondary", "a", "v")
    kernels.do("primary", "a", "v")
    kernels.rest()
    assert sorted(kernels.reported) == [(60, node, "v") for node in "abc"]
    kernels.reported.clear()
    kernels.do("primary", "a", "v")
    kernels.spread(nodes, **THREE)
    kernels.network.changed()
    kernels.advance(1000)
    assert kernels.reported == []
    kernels.do("secondary", "a", "v")
    kernels.do("primary", "a", "v")
    kernels.rest()
    assert kernels.reported == []


def test_removed_machine_counts_as_powered_off(kernels):
    kernels.form("abc", **THREE)
    kernels.machines.remove("c")
    assert kernels.status("c") is None
    assert kernels.when(lambda: kernels.state("a", "c") == "Connecting") == 8


def test_network_is_evaluated_once_per_instant_of_change(kernels):
    asked = []
    kernels.form("abc", **THREE)
    kernels.network.add_filter(lambda flow: asked.append(flow) or Impairment())
    kernels.network.changed()
    kernels.rest()
    assert len(asked) == 2 * 3
    kernels.advance(10_000)
    assert len(asked) == 2 * 3
    assert sorted({flow.port for flow in asked}) == [7000, 7001, 7002]


def test_two_disconnected_primaries_do_not_diverge(kernels):
    kernels.form("abc", quorum=2, primaries=2)
    kernels.do("primary", "a", "v")
    kernels.do("primary", "b", "v")
    kernels.cut(("a", "b"))
    kernels.advance(20)
    assert [str(kernels.disk(node)) for node in "abc"] == ["UpToDate", "Outdated", "UpToDate"]
    kernels.do("secondary", "a", "v")
    kernels.advance(20)
    assert kernels.disk("a") == "Outdated"
    assert kernels.disk("b") == "UpToDate"
    kernels.repair(("a", "b"))
    kernels.advance(60)
    assert kernels.is_whole("abc")
