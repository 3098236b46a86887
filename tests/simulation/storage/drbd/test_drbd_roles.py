import pytest

from pytest_kscen.simulation.network import Passage

THREE = {"quorum": 2, "redundancy": 2}
TIE = {"quorum": 2, "diskless": "c"}


def test_one_may_be_primary_unless_two_may(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.do("primary", "a", "v")
    assert cluster.status("a").role == cluster.link("b", "a").peer_role == "Primary"
    why = cluster.refused("primary", "b", "v")
    assert why == "v: b cannot become Primary: a is Primary, and two primaries are not allowed"
    cluster.spread("abc", **THREE, primaries=2)
    cluster.do("primary", "b", "v")
    cluster.do("secondary", "a", "v")
    assert [str(cluster.status(node).role) for node in "abc"] == ["Secondary", "Primary", "Secondary"]


def test_a_primary_behind_somebody_else_counts(cluster):
    cluster.form("abc", **TIE)
    cluster.do("primary", "a", "v")
    cluster.cut(("a", "b"))
    cluster.advance(20)
    assert cluster.state("a", "b") == "Connecting"
    assert cluster.disk("b") == "Outdated"
    assert cluster.disk("a") == "UpToDate"
    assert not cluster.status("b").quorum
    cluster.do("secondary", "a", "v")
    assert cluster.refused("primary", "b", "v").endswith("no quorum")


def test_nobody_is_promoted_past_one_that_does_not_answer(cluster):
    cluster.form("abc", **THREE)
    cluster.machines.power_off("a")
    assert cluster.refused("primary", "b", "v").endswith("a does not answer b")
    cluster.advance(9)
    cluster.do("primary", "b", "v")
    assert cluster.status("b").role == "Primary"


def test_without_data_nobody_is_promoted(cluster):
    cluster.spread("a")
    assert cluster.refused("primary", "a", "v").endswith("no UpToDate data here or with a connected peer")
    cluster.do("initialize", "a", "v")
    cluster.do("primary", "a", "v")


def test_one_without_a_disk_works_on_its_peers(cluster):
    cluster.form("ac", quorum=0, diskless="c")
    cluster.do("primary", "c", "v")
    assert not cluster.status("c").suspended
    cluster.cut(("a", "c"))
    assert cluster.when(lambda: cluster.status("c").suspended) == 8
    cluster.mend(("a", "c"))
    assert cluster.when(lambda: not cluster.status("c").suspended) == 50


def test_io_freezes_without_quorum_and_goes_on_with_it(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.cut(("a", "b"), ("a", "c"))
    cluster.advance(7)
    assert not cluster.status("a").suspended
    cluster.advance(1)
    assert (cluster.status("a").suspended, cluster.status("a").quorum) == (True, False)
    assert cluster.disk("b") == cluster.disk("c") == "UpToDate"
    cluster.mend(("a", "b"))
    assert cluster.when(lambda: not cluster.status("a").suspended) == 50
    assert cluster.disk("c") == "Outdated"
    assert cluster.status("a").role == "Primary"


def test_whoever_froze_while_another_took_over_is_demoted_and_resynced(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.cut(("a", "b"), ("a", "c"))
    cluster.advance(10)
    cluster.do("primary", "b", "v")
    cluster.advance(30)
    assert (cluster.status("a").role, cluster.status("a").suspended, cluster.disk("a")) == ("Primary", True, "Outdated")
    cluster.mend(("a", "b"), ("a", "c"))
    cluster.advance(50.1)
    assert (cluster.status("a").role, cluster.link("a", "b").replication) == ("Secondary", "SyncTarget")
    cluster.advance(1)
    assert cluster.is_whole("abc")
    assert cluster.status("b").role == "Primary"


def test_a_secondary_is_outdated_as_soon_as_others_go_on_writing(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.cut(("b", "a"), ("b", "c"))
    cluster.advance(7.9)
    assert cluster.disk("b") == "UpToDate"
    cluster.advance(0.1)
    assert cluster.disk("b") == "Outdated"
    assert not cluster.status("b").quorum
    assert not cluster.status("a").suspended


def test_a_tie_break_keeps_the_one_that_had_quorum(cluster):
    cluster.form("abc", **TIE, rule="tie-break")
    cluster.do("primary", "a", "v")
    cluster.cut(("b", "a"), ("b", "c"))
    cluster.advance(10)
    assert (cluster.status("a").quorum, cluster.status("b").quorum, cluster.status("c").quorum) == (True, False, True)
    cluster.machines.power_off("a")
    cluster.advance(10)
    cluster.machines.power_on("a")
    cluster.spread("abc", **TIE, rule="tie-break")
    cluster.advance(100)
    assert cluster.state("a", "c") == "Connected"
    assert (cluster.disk("a"), cluster.status("a").quorum) == ("Consistent", False)
    cluster.mend(("b", "a"), ("b", "c"))
    cluster.advance(100)
    assert cluster.is_whole("abc")


def test_a_command_where_it_is_not_up_says_so(cluster):
    for verb in ("primary", "secondary", "initialize"):
        assert cluster.refused(verb, "a", "v") == "v is not up on a"
    cluster.do("down", "a", "v")
    assert cluster.status("a") is None
    cluster.machines.power_off("a")
    assert cluster.drbd.status("a", "v") is None
    for verb, more in (("up", [None]), ("down", []), ("primary", [])):
        assert cluster.refused(verb, "a", "v", *more) == "v: a has no power"


def test_a_primary_that_is_taken_down_is_none(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.do("down", "a", "v")
    cluster.do("primary", "b", "v")
    cluster.spread("abc", **THREE)
    assert cluster.status("a").role == "Secondary"


@pytest.mark.parametrize("nodes", ["abc", "cab"])
def test_listeners_hear_once_for_each_instant(build, nodes):
    cluster = build("abc")
    cluster.form(nodes, **THREE)
    cluster.do("primary", "a", "v")
    cluster.do("secondary", "a", "v")
    cluster.do("primary", "a", "v")
    cluster.rest()
    assert sorted(cluster.told) == [(60, node, "v") for node in "abc"]
    cluster.told.clear()
    cluster.do("primary", "a", "v")
    cluster.spread(nodes, **THREE)
    cluster.network.changed()
    cluster.advance(1000)
    assert cluster.told == []
    cluster.do("secondary", "a", "v")
    cluster.do("primary", "a", "v")
    cluster.rest()
    assert cluster.told == []


def test_a_machine_that_is_taken_away_takes_its_power_along(cluster):
    cluster.form("abc", **THREE)
    cluster.machines.remove("c")
    assert cluster.status("c") is None
    assert cluster.when(lambda: cluster.state("a", "c") == "Connecting") == 8


def test_the_network_is_looked_at_once_for_each_instant_of_change(cluster):
    asked = []
    cluster.form("abc", **THREE)
    cluster.network.join(lambda flow: asked.append(flow) or Passage())
    cluster.network.changed()
    cluster.rest()
    assert len(asked) == 2 * 3
    cluster.advance(10_000)
    assert len(asked) == 2 * 3
    assert sorted({flow.port for flow in asked}) == [7000, 7001, 7002]
