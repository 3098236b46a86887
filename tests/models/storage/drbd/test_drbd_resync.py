import pytest

from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage.drbd.connections import UNIMPAIRED, resync_throughput
from pytest_kscen.models.storage.drbd.timers import PARAMETERS

MEBI = 2**20
THREE = {"quorum": 2, "redundancy": 2}
SIZE = 1000 * MEBI


def synced(yard, node, volume="v"):
    return lambda: yard.disk(node, volume) == "UpToDate"


def test_new_replica_receives_all_data_and_reports_progress(yard):
    yard.spread("ab", size=SIZE)
    assert yard.disk("a") == yard.disk("b") == "Inconsistent"
    yard.advance(5)
    yard.do("initialize", "a", "v")
    assert yard.disk("a") == "UpToDate"
    assert yard.link("b", "a").replication == "SyncTarget"
    assert yard.link("a", "b").replication == "SyncSource"
    yard.advance(2.5)
    assert yard.link("a", "b").percent_in_sync == pytest.approx(25)
    assert yard.link("b", "a").out_of_sync == pytest.approx(750 * MEBI)
    assert yard.when(synced(yard, "b")) == 7.5
    assert yard.link("a", "b") == yard.link("b", "a").__class__(
        "Connected", "Secondary", "UpToDate", "Established", 100.0, 0
    )
    assert yard.drbd.pending == 0


def test_returning_replica_receives_the_missed_writes(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.cut(("c", "a"), ("c", "b"))
    yard.advance(8 + 20)
    assert yard.link("a", "c").out_of_sync == 20 * MEBI
    assert yard.link("a", "c").percent_in_sync == pytest.approx(80)
    yard.mend(("c", "a"), ("c", "b"))
    yard.advance(50)
    assert yard.link("c", "a").replication == "SyncTarget"
    assert yard.when(synced(yard, "c")) == pytest.approx(0.7)


def test_missed_data_is_limited_to_written_data(yard):
    yard.form("abc", **THREE)
    yard.cut(("c", "a"), ("c", "b"))
    yard.advance(1000)
    assert yard.disk("c") == "UpToDate"
    yard.mend(("c", "a"), ("c", "b"))
    yard.advance(50)
    assert yard.is_whole("abc")


def test_missed_data_is_limited_to_the_disk_size(yard):
    yard.form("abc", **THREE, size=100 * MEBI)
    yard.do("primary", "a", "v")
    yard.machines.power_off("c")
    yard.advance(10_000)
    assert yard.link("a", "c").out_of_sync == 100 * MEBI
    assert yard.link("a", "c").percent_in_sync == 0


def test_writes_wait_until_the_lost_peer_is_detected(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.machines.power_off("c")
    yard.advance(8)
    assert yard.link("a", "c").out_of_sync == 0
    yard.advance(1)
    assert yard.link("a", "c").out_of_sync == MEBI


def test_interrupted_resync_resumes_with_remaining_and_missed_data(yard):
    yard.form("abc", **THREE, size=SIZE)
    yard.do("primary", "a", "v")
    yard.do("down", "c", "v", wipe=True)
    yard.spread("abc", **THREE, size=SIZE)
    yard.advance(2 + 4)
    assert yard.link("a", "c").out_of_sync == pytest.approx(600 * MEBI)
    yard.cut(("c", "a"), ("c", "b"))
    yard.advance(8 + 10)
    assert yard.disk("c") == "Inconsistent"
    assert yard.link("a", "c").out_of_sync == pytest.approx(610 * MEBI)
    yard.mend(("c", "a"), ("c", "b"))
    yard.advance(50)
    assert yard.when(synced(yard, "c")) == pytest.approx(6.6)


def test_short_link_loss_only_pauses_a_resync(yard):
    yard.spread("ab", size=SIZE)
    yard.do("initialize", "a", "v")
    yard.advance(2 + 5)
    yard.cut(("a", "b"))
    yard.advance(4)
    assert yard.link("a", "b").out_of_sync == pytest.approx(500 * MEBI)
    assert yard.link("a", "b").replication == "SyncSource"
    yard.mend(("a", "b"))
    assert yard.when(synced(yard, "b")) == pytest.approx(5)


def test_concurrent_resyncs_share_the_links_of_a_machine(yard):
    for volume in ("v", "w"):
        yard.spread("ab", volume, size=SIZE)
        yard.do("initialize", "a", volume)
    yard.advance(2 + 4)
    yard.spread("ac", "x", size=SIZE)
    yard.do("initialize", "a", "x")
    yard.advance(2)
    assert yard.link("a", "b", "v").out_of_sync == pytest.approx(700 * MEBI)
    yard.advance(3)
    assert yard.link("a", "b", "v").out_of_sync == pytest.approx(600 * MEBI)
    assert yard.when(synced(yard, "b", "w")) == pytest.approx(18)
    assert yard.when(synced(yard, "c", "x")) == pytest.approx(3)


def test_load_slows_a_resync_immediately(yard):
    yard.spread("ab", size=SIZE)
    yard.do("initialize", "a", "v")
    yard.advance(2 + 5)
    yard.spoil("a", "b", Impairment(load=0.75))
    assert yard.when(synced(yard, "b")) == pytest.approx(20)


def test_resync_rate_under_load_loss_and_delay():
    def rate(**quality):
        return round(resync_throughput(UNIMPAIRED._replace(**quality), PARAMETERS) / MEBI, 1)

    assert rate() == 100
    assert rate(load=0.5) == 50
    assert rate(load=1.0) == 5
    assert rate(loss=0.0001) == 100
    assert rate(loss=0.01) == 84.9
    assert rate(loss=0.04) == 42.5
    assert rate(loss=0.01, delay=0.0098) == 1.7


def test_crash_leaves_the_activity_log_extents_out_of_sync(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.machines.power_off("a")
    yard.advance(2)
    yard.machines.power_on("a")
    yard.spread("abc", **THREE)
    assert yard.disk("a") == "Consistent"
    yard.advance(2)
    assert (yard.disk("a"), yard.link("a", "b").out_of_sync) == ("Inconsistent", 64 * MEBI)
    assert yard.when(synced(yard, "a")) == pytest.approx(0.64)


def test_replica_that_crashed_alone_has_the_current_data(yard):
    yard.form("a")
    yard.do("primary", "a", "v")
    yard.machines.power_off("a")
    yard.machines.power_on("a")
    yard.spread("a")
    assert yard.disk("a") == "UpToDate"
    assert yard.drbd.pending == 0


def test_after_a_boot_data_is_consistent_only_with_enough_peers(yard):
    yard.form("abc", **THREE)
    for node in "abc":
        yard.machines.power_off(node)
    yard.advance(10)
    for node in "abc":
        yard.machines.power_on(node)
    yard.spread("abc", **THREE)
    assert {str(yard.disk(node)) for node in "abc"} == {"Consistent"}
    yard.advance(2)
    assert yard.is_whole("abc")


def test_missed_data_is_remembered_across_boots(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.machines.power_off("c")
    yard.advance(20)
    yard.do("secondary", "a", "v")
    yard.cut(("c", "a"), ("c", "b"))
    for _ in range(2):
        yard.machines.power_on("c")
        yard.spread("abc", **THREE)
        assert yard.disk("c") == "Consistent"
        yard.advance(20)
        yard.machines.power_off("c")
        yard.rest()
    yard.mend(("c", "a"), ("c", "b"))
    yard.machines.power_on("c")
    yard.spread("abc", **THREE)
    yard.advance(2)
    assert yard.link("c", "a").out_of_sync == 12 * MEBI


def test_replica_disconnected_from_the_writer_is_not_resynced_by_others(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.cut(("a", "c"))
    yard.advance(18)
    assert yard.disk("c") == "Outdated"
    assert yard.link("c", "b").replication == "Established"
    yard.do("secondary", "a", "v")
    assert yard.link("c", "b").replication == "SyncTarget"
    assert yard.when(synced(yard, "c")) == pytest.approx(0.1)


def test_replica_disconnected_from_a_suspended_primary_is_not_resynced_by_others(build):
    yard = build("abcd")
    yard.form("abcd", quorum=2, redundancy=2, diskless="d", rule="tie-break")
    yard.do("primary", "d", "v")
    yard.cut(("a", "b"), ("c", "d"))
    yard.advance(8)
    assert yard.status(
        "d"
    ).suspended  # it would go on as soon as c were up to date, and overtake it
    assert (yard.disk("c"), yard.link("c", "a").replication) == ("Outdated", "Established")
    yard.mend(("c", "d"))
    yard.advance(52)
    assert yard.disk("c") == "UpToDate"
    assert not yard.status("d").suspended


def test_new_disk_unknown_to_its_writer_is_not_resynced_by_others(build):
    yard = build("abc")
    yard.form("abc", quorum=2, diskless="c", size=MEBI)
    yard.do("primary", "a", "v")
    yard.cut(("a", "c"))
    yard.bring("c", "abc", quorum=2, size=MEBI)
    assert (yard.disk("c"), yard.link("c", "b").replication) == (
        "Inconsistent",
        "Established",
    )  # nothing waits for its answer
    yard.mend(("a", "c"))
    yard.advance(1)
    assert yard.disk("c") == "UpToDate"


def test_device_grows_when_all_disks_have_grown(yard):
    yard.form("ab", size=100 * MEBI)
    yard.bring("a", "ab", quorum=2, size=200 * MEBI)
    assert yard.status("a").size == 100 * MEBI
    yard.bring("b", "ab", quorum=2, size=200 * MEBI)
    assert yard.status("a").size == yard.status("b").size == 200 * MEBI
    assert yard.is_whole("ab")


def test_deleted_volume_leaves_no_state(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    for node in "abc":
        yard.do("down", node, "v", wipe=True)
    yard.rest()
    assert yard.drbd.pending == 0
    assert yard.drbd._volumes == {}
    assert yard.drbd._notifier._notified == {}
    assert sorted(yard.told) == [(60, node, "v") for node in "abc"]


def test_existing_data_is_not_initialised_again(yard):
    yard.form("abc", **THREE)
    yard.do("primary", "a", "v")
    yard.do("down", "c", "v")
    yard.cut(("a", "c"), ("b", "c"))
    yard.spread("abc", **THREE)
    yard.do("initialize", "c", "v")
    assert yard.disk("c") == "Consistent"


def test_new_disk_is_not_initialised_beside_existing_data(yard):
    yard.form("ab")
    yard.machines.power_off("b")
    yard.do("down", "a", "v", wipe=True)
    yard.machines.power_on("b")
    yard.bring("b", "abc", quorum=3)
    yard.bring("a", "abc", quorum=3)
    yard.advance(2)
    assert (yard.disk("a"), yard.disk("b"), yard.state("a", "b")) == (
        "Inconsistent",
        "Consistent",
        "Connected",
    )
    assert (
        yard.refused("initialize", "a", "v") == "v: a peer that a is connected to has data already"
    )
