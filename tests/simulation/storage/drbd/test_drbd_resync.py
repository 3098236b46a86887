import pytest

from pytest_kscen.simulation.network import Passage
from pytest_kscen.simulation.storage.drbd.figures import FIGURES
from pytest_kscen.simulation.storage.drbd.weather import CLEAR, throughput

MEBI = 2**20
THREE = {"quorum": 2, "redundancy": 2}
SIZE = 1000 * MEBI


def synced(cluster, node, volume="v"):
    return lambda: cluster.disk(node, volume) == "UpToDate"


def test_a_new_replica_gets_everything_and_the_progress_shows(cluster):
    cluster.spread("ab", size=SIZE)
    assert cluster.disk("a") == cluster.disk("b") == "Inconsistent"
    cluster.advance(5)
    cluster.do("initialize", "a", "v")
    assert cluster.disk("a") == "UpToDate"
    assert cluster.link("b", "a").replication == "SyncTarget"
    assert cluster.link("a", "b").replication == "SyncSource"
    cluster.advance(2.5)
    assert cluster.link("a", "b").percent_in_sync == pytest.approx(25)
    assert cluster.link("b", "a").out_of_sync == pytest.approx(750 * MEBI)
    assert cluster.when(synced(cluster, "b")) == 7.5
    assert cluster.link("a", "b") == cluster.link("b", "a").__class__("Connected", "Secondary", "UpToDate", "Established", 100.0, 0)
    assert cluster.drbd.pending == 0


def test_who_was_away_gets_what_was_written_meanwhile(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.cut(("c", "a"), ("c", "b"))
    cluster.advance(8 + 20)
    assert cluster.link("a", "c").out_of_sync == 20 * MEBI
    assert cluster.link("a", "c").percent_in_sync == pytest.approx(80)
    cluster.mend(("c", "a"), ("c", "b"))
    cluster.advance(50)
    assert cluster.link("c", "a").replication == "SyncTarget"
    assert cluster.when(synced(cluster, "c")) == pytest.approx(0.7)


def test_nothing_is_missed_that_was_not_written(cluster):
    cluster.form("abc", **THREE)
    cluster.cut(("c", "a"), ("c", "b"))
    cluster.advance(1000)
    assert cluster.disk("c") == "UpToDate"
    cluster.mend(("c", "a"), ("c", "b"))
    cluster.advance(50)
    assert cluster.is_whole("abc")


def test_no_more_than_the_whole_disk_is_missed(cluster):
    cluster.form("abc", **THREE, size=100 * MEBI)
    cluster.do("primary", "a", "v")
    cluster.machines.power_off("c")
    cluster.advance(10_000)
    assert cluster.link("a", "c").out_of_sync == 100 * MEBI
    assert cluster.link("a", "c").percent_in_sync == 0


def test_writes_wait_until_silence_is_noticed(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.machines.power_off("c")
    cluster.advance(8)
    assert cluster.link("a", "c").out_of_sync == 0
    cluster.advance(1)
    assert cluster.link("a", "c").out_of_sync == MEBI


def test_a_resync_that_breaks_goes_on_with_what_was_left_and_what_was_missed(cluster):
    cluster.form("abc", **THREE, size=SIZE)
    cluster.do("primary", "a", "v")
    cluster.do("down", "c", "v", wipe=True)
    cluster.spread("abc", **THREE, size=SIZE)
    cluster.advance(2 + 4)
    assert cluster.link("a", "c").out_of_sync == pytest.approx(600 * MEBI)
    cluster.cut(("c", "a"), ("c", "b"))
    cluster.advance(8 + 10)
    assert cluster.disk("c") == "Inconsistent"
    assert cluster.link("a", "c").out_of_sync == pytest.approx(610 * MEBI)
    cluster.mend(("c", "a"), ("c", "b"))
    cluster.advance(50)
    assert cluster.when(synced(cluster, "c")) == pytest.approx(6.6)


def test_a_short_silence_only_halts_a_resync(cluster):
    cluster.spread("ab", size=SIZE)
    cluster.do("initialize", "a", "v")
    cluster.advance(2 + 5)
    cluster.cut(("a", "b"))
    cluster.advance(4)
    assert cluster.link("a", "b").out_of_sync == pytest.approx(500 * MEBI)
    assert cluster.link("a", "b").replication == "SyncSource"
    cluster.mend(("a", "b"))
    assert cluster.when(synced(cluster, "b")) == pytest.approx(5)


def test_several_share_the_links_of_a_machine(cluster):
    for volume in ("v", "w"):
        cluster.spread("ab", volume, size=SIZE)
        cluster.do("initialize", "a", volume)
    cluster.advance(2 + 4)
    cluster.spread("ac", "x", size=SIZE)
    cluster.do("initialize", "a", "x")
    cluster.advance(2)
    assert cluster.link("a", "b", "v").out_of_sync == pytest.approx(700 * MEBI)
    cluster.advance(3)
    assert cluster.link("a", "b", "v").out_of_sync == pytest.approx(600 * MEBI)
    assert cluster.when(synced(cluster, "b", "w")) == pytest.approx(18)
    assert cluster.when(synced(cluster, "c", "x")) == pytest.approx(3)


def test_load_slows_a_resync_from_now_on(cluster):
    cluster.spread("ab", size=SIZE)
    cluster.do("initialize", "a", "v")
    cluster.advance(2 + 5)
    cluster.spoil("a", "b", Passage(load=0.75))
    assert cluster.when(synced(cluster, "b")) == pytest.approx(20)


def test_what_load_loss_and_delay_leave():
    def rate(**weather):
        return round(throughput(CLEAR._replace(**weather), FIGURES) / MEBI, 1)

    assert rate() == 100
    assert rate(load=0.5) == 50
    assert rate(load=1.0) == 5
    assert rate(loss=0.0001) == 100
    assert rate(loss=0.01) == 84.9
    assert rate(loss=0.04) == 42.5
    assert rate(loss=0.01, delay=0.0098) == 1.7


def test_a_crash_leaves_what_the_activity_log_covers(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.machines.power_off("a")
    cluster.advance(2)
    cluster.machines.power_on("a")
    cluster.spread("abc", **THREE)
    assert cluster.disk("a") == "Consistent"
    cluster.advance(2)
    assert (cluster.disk("a"), cluster.link("a", "b").out_of_sync) == ("Inconsistent", 64 * MEBI)
    assert cluster.when(synced(cluster, "a")) == pytest.approx(0.64)


def test_one_that_crashed_alone_has_the_truth(cluster):
    cluster.form("a")
    cluster.do("primary", "a", "v")
    cluster.machines.power_off("a")
    cluster.machines.power_on("a")
    cluster.spread("a")
    assert cluster.disk("a") == "UpToDate"
    assert cluster.drbd.pending == 0


def test_after_a_boot_nobody_is_sure_until_enough_have_met(cluster):
    cluster.form("abc", **THREE)
    for node in "abc":
        cluster.machines.power_off(node)
    cluster.advance(10)
    for node in "abc":
        cluster.machines.power_on(node)
    cluster.spread("abc", **THREE)
    assert {str(cluster.disk(node)) for node in "abc"} == {"Consistent"}
    cluster.advance(2)
    assert cluster.is_whole("abc")


def test_what_was_missed_is_remembered_through_boots(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.machines.power_off("c")
    cluster.advance(20)
    cluster.do("secondary", "a", "v")
    cluster.cut(("c", "a"), ("c", "b"))
    for _ in range(2):
        cluster.machines.power_on("c")
        cluster.spread("abc", **THREE)
        assert cluster.disk("c") == "Consistent"
        cluster.advance(20)
        cluster.machines.power_off("c")
        cluster.rest()
    cluster.mend(("c", "a"), ("c", "b"))
    cluster.machines.power_on("c")
    cluster.spread("abc", **THREE)
    cluster.advance(2)
    assert cluster.link("c", "a").out_of_sync == 12 * MEBI


def test_who_does_not_hear_the_writer_is_not_brought_up_to_date_by_others(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    cluster.cut(("a", "c"))
    cluster.advance(18)
    assert cluster.disk("c") == "Outdated"
    assert cluster.link("c", "b").replication == "Established"
    cluster.do("secondary", "a", "v")
    assert cluster.link("c", "b").replication == "SyncTarget"
    assert cluster.when(synced(cluster, "c")) == pytest.approx(0.1)


def test_the_device_grows_when_all_disks_have(cluster):
    cluster.form("ab", size=100 * MEBI)
    cluster.bring("a", "ab", quorum=2, size=200 * MEBI)
    assert cluster.status("a").size == 100 * MEBI
    cluster.bring("b", "ab", quorum=2, size=200 * MEBI)
    assert cluster.status("a").size == cluster.status("b").size == 200 * MEBI
    assert cluster.is_whole("ab")


def test_nothing_is_left_of_a_volume_that_is_gone(cluster):
    cluster.form("abc", **THREE)
    cluster.do("primary", "a", "v")
    for node in "abc":
        cluster.do("down", node, "v", wipe=True)
    cluster.rest()
    assert cluster.drbd.pending == 0
    assert cluster.drbd._volumes == {}
    assert cluster.drbd._news._told == {}
    assert sorted(cluster.told) == [(60, node, "v") for node in "abc"]
