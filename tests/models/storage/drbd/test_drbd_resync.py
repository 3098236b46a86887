import pytest

from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage.drbd.connections import UNIMPAIRED, resync_throughput
from pytest_kscen.models.storage.drbd.timers import PARAMETERS

MEBI = 2**20
THREE = {"quorum": 2, "redundancy": 2}
SIZE = 1000 * MEBI


def synced(kernels, node, volume="v"):
    return lambda: kernels.disk(node, volume) == "UpToDate"


def test_new_replica_receives_all_data_and_reports_progress(kernels):
    kernels.spread("ab", size=SIZE)
    assert kernels.disk("a") == kernels.disk("b") == "Inconsistent"
    kernels.advance(5)
    kernels.do("initialize", "a", "v")
    assert kernels.disk("a") == "UpToDate"
    assert kernels.link("b", "a").replication == "SyncTarget"
    assert kernels.link("a", "b").replication == "SyncSource"
    kernels.advance(2.5)
    assert kernels.link("a", "b").percent_in_sync == pytest.approx(25)
    assert kernels.link("b", "a").out_of_sync == pytest.approx(750 * MEBI)
    assert kernels.when(synced(kernels, "b")) == 7.5
    assert kernels.link("a", "b") == kernels.link("b", "a").__class__(
        "Connected", "Secondary", "UpToDate", "Established", 100.0, 0
    )
    assert kernels.drbd.pending == 0


def test_returning_replica_receives_the_missed_writes(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(("c", "a"), ("c", "b"))
    kernels.advance(8 + 20)
    assert kernels.link("a", "c").out_of_sync == 20 * MEBI
    assert kernels.link("a", "c").percent_in_sync == pytest.approx(80)
    kernels.repair(("c", "a"), ("c", "b"))
    kernels.advance(50)
    assert kernels.link("c", "a").replication == "SyncTarget"
    assert kernels.when(synced(kernels, "c")) == pytest.approx(0.7)


def test_missed_data_is_limited_to_written_data(kernels):
    kernels.form("abc", **THREE)
    kernels.cut(("c", "a"), ("c", "b"))
    kernels.advance(1000)
    assert kernels.disk("c") == "UpToDate"
    kernels.repair(("c", "a"), ("c", "b"))
    kernels.advance(50)
    assert kernels.is_whole("abc")


def test_missed_data_is_limited_to_the_disk_size(kernels):
    kernels.form("abc", **THREE, size=100 * MEBI)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("c")
    kernels.advance(10_000)
    assert kernels.link("a", "c").out_of_sync == 100 * MEBI
    assert kernels.link("a", "c").percent_in_sync == 0


def test_writes_wait_until_the_lost_peer_is_detected(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("c")
    kernels.advance(8)
    assert kernels.link("a", "c").out_of_sync == 0
    kernels.advance(1)
    assert kernels.link("a", "c").out_of_sync == MEBI


def test_interrupted_resync_resumes_with_remaining_and_missed_data(kernels):
    kernels.form("abc", **THREE, size=SIZE)
    kernels.do("primary", "a", "v")
    kernels.do("down", "c", "v", wipe=True)
    kernels.spread("abc", **THREE, size=SIZE)
    kernels.advance(2 + 4)
    assert kernels.link("a", "c").out_of_sync == pytest.approx(600 * MEBI)
    kernels.cut(("c", "a"), ("c", "b"))
    kernels.advance(8 + 10)
    assert kernels.disk("c") == "Inconsistent"
    assert kernels.link("a", "c").out_of_sync == pytest.approx(610 * MEBI)
    kernels.repair(("c", "a"), ("c", "b"))
    kernels.advance(50)
    assert kernels.when(synced(kernels, "c")) == pytest.approx(6.6)


def test_short_link_loss_only_pauses_a_resync(kernels):
    kernels.spread("ab", size=SIZE)
    kernels.do("initialize", "a", "v")
    kernels.advance(2 + 5)
    kernels.cut(("a", "b"))
    kernels.advance(4)
    assert kernels.link("a", "b").out_of_sync == pytest.approx(500 * MEBI)
    assert kernels.link("a", "b").replication == "SyncSource"
    kernels.repair(("a", "b"))
    assert kernels.when(synced(kernels, "b")) == pytest.approx(5)


def test_concurrent_resyncs_share_the_links_of_a_machine(kernels):
    for volume in ("v", "w"):
        kernels.spread("ab", volume, size=SIZE)
        kernels.do("initialize", "a", volume)
    kernels.advance(2 + 4)
    kernels.spread("ac", "x", size=SIZE)
    kernels.do("initialize", "a", "x")
    kernels.advance(2)
    assert kernels.link("a", "b", "v").out_of_sync == pytest.approx(700 * MEBI)
    kernels.advance(3)
    assert kernels.link("a", "b", "v").out_of_sync == pytest.approx(600 * MEBI)
    assert kernels.when(synced(kernels, "b", "w")) == pytest.approx(18)
    assert kernels.when(synced(kernels, "c", "x")) == pytest.approx(3)


def test_load_slows_a_resync_immediately(kernels):
    kernels.spread("ab", size=SIZE)
    kernels.do("initialize", "a", "v")
    kernels.advance(2 + 5)
    kernels.impair("a", "b", Impairment(load=0.75))
    assert kernels.when(synced(kernels, "b")) == pytest.approx(20)


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


def test_crash_leaves_the_activity_log_extents_out_of_sync(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("a")
    kernels.advance(2)
    kernels.machines.power_on("a")
    kernels.spread("abc", **THREE)
    assert kernels.disk("a") == "Consistent"
    kernels.advance(2)
    assert (kernels.disk("a"), kernels.link("a", "b").out_of_sync) == ("Inconsistent", 64 * MEBI)
    assert kernels.when(synced(kernels, "a")) == pytest.approx(0.64)


def test_replica_that_crashed_alone_has_the_current_data(kernels):
    kernels.form("a")
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("a")
    kernels.machines.power_on("a")
    kernels.spread("a")
    assert kernels.disk("a") == "UpToDate"
    assert kernels.drbd.pending == 0


def test_after_a_boot_data_is_consistent_only_with_enough_peers(kernels):
    kernels.form("abc", **THREE)
    for node in "abc":
        kernels.machines.power_off(node)
    kernels.advance(10)
    for node in "abc":
        kernels.machines.power_on(node)
    kernels.spread("abc", **THREE)
    assert {str(kernels.disk(node)) for node in "abc"} == {"Consistent"}
    kernels.advance(2)
    assert kernels.is_whole("abc")


def test_missed_data_is_remembered_across_boots(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("c")
    kernels.advance(20)
    kernels.do("secondary", "a", "v")
    kernels.cut(("c", "a"), ("c", "b"))
    for _ in range(2):
        kernels.machines.power_on("c")
        kernels.spread("abc", **THREE)
        assert kernels.disk("c") == "Consistent"
        kernels.advance(20)
        kernels.machines.power_off("c")
        kernels.rest()
    kernels.repair(("c", "a"), ("c", "b"))
    kernels.machines.power_on("c")
    kernels.spread("abc", **THREE)
    kernels.advance(2)
    assert kernels.link("c", "a").out_of_sync == 12 * MEBI


def test_replica_disconnected_from_the_writer_is_not_resynced_by_others(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(("a", "c"))
    kernels.advance(18)
    assert kernels.disk("c") == "Outdated"
    assert kernels.link("c", "b").replication == "Established"
    kernels.do("secondary", "a", "v")
    assert kernels.link("c", "b").replication == "SyncTarget"
    assert kernels.when(synced(kernels, "c")) == pytest.approx(0.1)


def test_replica_disconnected_from_a_suspended_primary_is_not_resynced_by_others(build):
    kernels = build("abcd")
    kernels.form("abcd", quorum=2, redundancy=2, diskless="d", rule="tie-break")
    kernels.do("primary", "d", "v")
    kernels.cut(("a", "b"), ("c", "d"))
    kernels.advance(8)
    assert kernels.status(
        "d"
    ).suspended  # it would go on as soon as c were up to date, and overtake it
    assert (kernels.disk("c"), kernels.link("c", "a").replication) == ("Outdated", "Established")
    kernels.repair(("c", "d"))
    kernels.advance(52)
    assert kernels.disk("c") == "UpToDate"
    assert not kernels.status("d").suspended


def test_new_disk_unknown_to_its_writer_is_not_resynced_by_others(build):
    kernels = build("abc")
    kernels.form("abc", quorum=2, diskless="c", size=MEBI)
    kernels.do("primary", "a", "v")
    kernels.cut(("a", "c"))
    kernels.start_resource("c", "abc", quorum=2, size=MEBI)
    assert (kernels.disk("c"), kernels.link("c", "b").replication) == (
        "Inconsistent",
        "Established",
    )  # nothing waits for its answer
    kernels.repair(("a", "c"))
    kernels.advance(1)
    assert kernels.disk("c") == "UpToDate"


def test_device_grows_when_all_disks_have_grown(kernels):
    kernels.form("ab", size=100 * MEBI)
    kernels.start_resource("a", "ab", quorum=2, size=200 * MEBI)
    assert kernels.status("a").size == 100 * MEBI
    kernels.start_resource("b", "ab", quorum=2, size=200 * MEBI)
    assert kernels.status("a").size == kernels.status("b").size == 200 * MEBI
    assert kernels.is_whole("ab")


def test_deleted_volume_leaves_no_state(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    for node in "abc":
        kernels.do("down", node, "v", wipe=True)
    kernels.rest()
    assert kernels.drbd.pending == 0
    assert kernels.drbd._volumes == {}
    assert kernels.drbd._notifier._notified == {}
    assert sorted(kernels.reported) == [(60, node, "v") for node in "abc"]


def test_existing_data_is_not_initialised_again(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.do("down", "c", "v")
    kernels.cut(("a", "c"), ("b", "c"))
    kernels.spread("abc", **THREE)
    kernels.do("initialize", "c", "v")
    assert kernels.disk("c") == "Consistent"


def test_new_disk_is_not_initialised_beside_existing_data(kernels):
    kernels.form("ab")
    kernels.machines.power_off("b")
    kernels.do("down", "a", "v", wipe=True)
    kernels.machines.power_on("b")
    kernels.start_resource("b", "abc", quorum=3)
    kernels.start_resource("a", "abc", quorum=3)
    kernels.advance(2)
    assert (kernels.disk("a"), kernels.disk("b"), kernels.state("a", "b")) == (
        "Inconsistent",
        "Consistent",
        "Connected",
    )
    assert (
        kernels.refused("initialize", "a", "v")
        == "v: a peer that a is connected to has data already"
    )
