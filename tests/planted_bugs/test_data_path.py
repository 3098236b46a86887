"""Each bug of the data path changes what the kernels do, and leaves nothing behind."""

import pytest
from drbd_kernels import MEBI, DrbdKernels

from planted_bugs import data_path
from planted_bugs.catalogue import planted
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.models.storage.drbd import DrbdRefused

THREE = {"quorum": 2, "redundancy": 2}
VOTED = {"quorum": 2, "redundancy": 1}
BIG = 1000 * MEBI
FROM_A = ("a", "b"), ("a", "c")
FROM_C = ("c", "a"), ("c", "b")


def replica(kernels, node):
    return kernels.drbd._volumes["v"].replicas[node]


def source_of(kernels, node):
    return kernels.drbd._volumes["v"].resolver.resyncs[node].source


def primary_with_quorum_again(kernels):
    primary_alone(kernels)
    kernels.repair(*FROM_A)
    kernels.advance(60)
    return kernels.status("a").quorum, kernels.status("a").suspended


def return_after_writes(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("c")
    kernels.advance(20)
    kernels.machines.power_on("c")
    kernels.start_resource("c", "abc", **THREE)
    kernels.advance(60)
    return kernels.disk("c"), replica(kernels, "c").behind


def cut_off_from_the_writer(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(*FROM_C)
    kernels.advance(30)
    return kernels.disk("c")


def start_resync_of_c(kernels):
    kernels.form("abc", **THREE, size=BIG)
    kernels.do("down", "c", "v", wipe=True)
    kernels.spread("abc", **THREE, size=BIG)
    kernels.advance(4)


def interrupt_resync(kernels):
    start_resync_of_c(kernels)
    kernels.cut(*FROM_C)
    kernels.advance(20)
    return kernels.disk("c")


def crash_as_primary(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.machines.power_off("a")
    kernels.rest()
    return replica(kernels, "a").activity


def primary_alone(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(*FROM_A)
    kernels.advance(20)
    return kernels.status("a").suspended


def quorum_alone(kernels):
    kernels.form("abc", **VOTED)
    kernels.cut(*FROM_A)
    kernels.advance(20)
    return kernels.status("a").quorum


def quorum_with_one_copy(kernels):
    kernels.form("abc", **THREE, diskless="c")
    kernels.cut(("b", "a"), ("b", "c"))
    kernels.advance(20)
    return kernels.status("a").quorum


def quorum_with_a_sync_target(kernels):
    start_resync_of_c(kernels)
    kernels.do("down", "b", "v")
    kernels.advance(1)
    return kernels.status("a").quorum


def promotion_alone(kernels):
    kernels.form("abc", **THREE)
    kernels.cut(*FROM_A)
    kernels.advance(20)
    try:
        kernels.do("primary", "a", "v")
    except DrbdRefused:
        return "refused"
    return kernels.status("a").role


def new_disks(kernels):
    kernels.spread("abc", **THREE)
    kernels.advance(10)
    return kernels.disk("a"), kernels.disk("c")


def state_after_a_long_block(kernels):
    kernels.form("ab", quorum=0)
    kernels.cut(("a", "b"))
    kernels.advance(30)
    kernels.repair(("a", "b"))
    kernels.advance(100)
    return kernels.state("a", "b")


def time_until_a_block_is_noticed(kernels):
    kernels.form("ab", quorum=0)
    kernels.cut(("a", "b"))
    return kernels.when(lambda: kernels.state("a", "b") != "Connected")


def source_beside_an_outdated_peer(kernels):
    kernels.form("abc", **VOTED, size=BIG)
    kernels.do("primary", "c", "v")
    kernels.cut(*FROM_A)
    kernels.advance(20)
    kernels.do("secondary", "c", "v")
    kernels.do("down", "b", "v", wipe=True)
    kernels.repair(("a", "b"))
    kernels.start_resource("b", "abc", **VOTED, size=BIG)
    kernels.when(lambda: kernels.state("a", "b") == kernels.state("b", "c") == "Connected")
    kernels.do("down", "b", "v", wipe=True)
    kernels.start_resource("b", "abc", **VOTED, size=BIG)
    kernels.when(lambda: "b" in kernels.drbd._volumes["v"].resolver.resyncs)
    return source_of(kernels, "b")


def resync_after_a_short_block(kernels):
    start_resync_of_c(kernels)
    kernels.cut(*FROM_C)
    kernels.advance(4)
    kernels.repair(*FROM_C)
    kernels.advance(60)
    return kernels.disk("c")


def source_after_a_lost_link(kernels):
    start_resync_of_c(kernels)
    assert source_of(kernels, "c") == "a"
    kernels.cut(("a", "c"))
    kernels.advance(9)
    return source_of(kernels, "c")


def size_with_one_grown_disk(kernels):
    kernels.form("ab", quorum=0, size=100 * MEBI)
    kernels.start_resource("a", "ab", size=200 * MEBI)
    return kernels.status("b").size // MEBI


def size_with_grown_disks(kernels):
    kernels.form("ab", quorum=0, size=100 * MEBI)
    kernels.spread("ab", quorum=0, size=200 * MEBI)
    return kernels.status("a").size // MEBI


def restart_of_an_outdated_disk(kernels):
    cut_off_from_the_writer(kernels)
    kernels.do("down", "c", "v")
    kernels.start_resource("c", "abc", **THREE)
    return kernels.disk("c")


def role_after_being_overtaken(kernels):
    kernels.form("abc", **THREE)
    kernels.do("primary", "a", "v")
    kernels.cut(*FROM_A)
    kernels.advance(20)
    kernels.do("primary", "b", "v")
    kernels.advance(10)
    kernels.repair(*FROM_A)
    kernels.advance(60)
    return kernels.status("a").role


CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "io-stays-suspended": (primary_with_quorum_again, (True, False), (True, True)),
    "overtaken-disk-up-to-date": (return_after_writes, ("UpToDate", False), ("UpToDate", True)),
    "cut-off-disk-not-outdated": (cut_off_from_the_writer, "Outdated", "UpToDate"),
    "interrupted-resync-complete": (interrupt_resync, "Inconsistent", "UpToDate"),
    "activity-log-ignored": (crash_as_primary, 64 * MEBI, 0),
    "writes-without-quorum": (primary_alone, True, False),
    "quorum-counts-configured-peers": (quorum_alone, False, True),
    "minimum-redundancy-ignored": (quorum_with_one_copy, False, True),
    "sync-target-counts-as-copy": (quorum_with_a_sync_target, False, True),
    "promotion-without-quorum": (promotion_alone, "refused", "Primary"),
    "new-disk-up-to-date": (new_disks, ("Inconsistent",) * 2, ("UpToDate",) * 2),
    "lost-link-stands-alone": (state_after_a_long_block, "Connected", "StandAlone"),
    "reopened-path-missed": (state_after_a_long_block, "Connected", "Connecting"),
    "ping-timeout-in-wrong-unit": (time_until_a_block_is_noticed, 8, 80),
    "resync-from-outdated-peer": (source_beside_an_outdated_peer, "c", "a"),
    "paused-resync-stays-paused": (resync_after_a_short_block, "UpToDate", "Inconsistent"),
    "resync-waits-for-lost-source": (source_after_a_lost_link, "b", "a"),
    "dirty-mark-kept-after-resync": (return_after_writes, ("UpToDate", False), ("UpToDate", True)),
    "size-of-largest-disk": (size_with_one_grown_disk, 100, 200),
    "running-disk-not-grown": (size_with_grown_disks, 200, 100),
    "quorum-off-by-one": (quorum_alone, False, True),
    "outdated-flag-lost-at-restart": (restart_of_an_outdated_disk, "Outdated", "Consistent"),
    "suspended-primary-kept": (role_after_being_overtaken, "Secondary", "Primary"),
}


def outcome(act):
    runner = VirtualRunner()
    try:
        return act(DrbdKernels(runner))
    finally:
        runner.close()


@pytest.mark.parametrize("bug", data_path.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_kernels_do(bug):
    act, sound, broken = CASES[bug.name]
    assert outcome(act) == sound
    with planted(bug.name):
        assert outcome(act) == broken
    assert outcome(act) == sound
