import dataclasses

import pytest

from pytest_kscen.models.storage.drbd import PeerConfig, QuorumRule, ResourceConfig
from pytest_kscen.models.storage.drbd.states import VisibleReplicas, has_enough_votes, has_quorum

VOTES, TIE_BREAK = QuorumRule


def config(disks, others, quorum, redundancy, rule, *, diskful=True):
    total = disks + others - 1
    peers = {
        f"node-{number}": PeerConfig(number, 7000, number <= disks - diskful)
        for number in range(1, total + 1)
    }
    return ResourceConfig(
        0, 7000, diskful, 2**20, quorum, redundancy, peers=peers, quorum_rule=rule
    )


def peer_view(disks, others, *, fresh, stale=0, diskless=0, quorate=0):
    return VisibleReplicas(fresh, stale, diskless, quorate)


# replicas with disks, without, quorum, redundancy | seen: UpToDate, others with disks, without |
# may it go on?
BY_VOTES = [
    (1, 0, 0, 1, 1, 0, 0, True),
    (1, 0, 0, 1, 0, 1, 0, True),  # none is asked for, whatever it is
    (2, 1, 2, 1, 2, 0, 1, True),
    (2, 1, 2, 1, 2, 0, 0, True),
    (2, 1, 2, 1, 1, 0, 1, True),
    (2, 1, 2, 1, 1, 1, 0, True),
    (2, 1, 2, 1, 1, 0, 0, False),
    (2, 1, 2, 1, 0, 1, 1, False),
    (3, 0, 2, 2, 3, 0, 0, True),
    (3, 0, 2, 2, 2, 0, 0, True),
    (3, 0, 2, 2, 1, 1, 0, False),  # two are there, and one alone is up to date
    (3, 0, 2, 2, 1, 0, 0, False),
    (3, 2, 3, 2, 2, 0, 1, True),
    (3, 2, 3, 2, 1, 0, 2, False),
    (3, 2, 3, 2, 2, 0, 0, False),
]


@pytest.mark.parametrize("row", BY_VOTES)
def test_every_replica_has_a_vote(row):
    disks, others, quorum, redundancy, fresh, stale, diskless, expected = row
    asked = config(disks, others, quorum, redundancy, VOTES)
    seen = peer_view(disks, others, fresh=fresh, stale=stale, diskless=diskless)
    for had_quorum in (True, False):
        assert has_quorum(asked, seen, had_quorum=had_quorum) is expected


# the same, and: had it quorum until now?
BY_TIE_BREAK = [
    (1, 0, 1, 1, 1, 0, 0, False, True),
    (1, 0, 1, 1, 0, 1, 0, True, False),
    (2, 0, 2, 2, 2, 0, 0, False, True),
    (2, 0, 2, 2, 1, 1, 0, True, False),
    (2, 0, 2, 2, 1, 0, 0, True, False),
    (2, 1, 2, 1, 2, 0, 0, False, True),
    (2, 1, 2, 1, 1, 1, 0, False, True),
    (2, 1, 2, 1, 1, 0, 1, True, True),
    (2, 1, 2, 1, 1, 0, 1, False, False),  # it has been alone before
    (2, 1, 2, 1, 1, 0, 0, True, False),
    (2, 1, 2, 1, 0, 1, 1, True, False),  # not up to date
    (2, 3, 2, 1, 1, 0, 2, True, True),
    (2, 3, 2, 1, 1, 0, 1, True, False),  # a minority of the tie-breakers
    (3, 0, 2, 2, 2, 0, 0, False, True),
    (3, 0, 2, 2, 1, 1, 0, True, False),
    (3, 1, 2, 2, 1, 0, 1, True, False),  # three voters have no tie
    (4, 1, 3, 2, 2, 0, 1, True, True),
    (4, 1, 3, 2, 1, 1, 1, True, False),
    (4, 1, 3, 2, 1, 0, 1, True, False),  # two short
]


@pytest.mark.parametrize("row", BY_TIE_BREAK)
def test_disks_vote_and_diskless_replicas_break_a_tie(row):
    disks, others, quorum, redundancy, fresh, stale, diskless, had_quorum, expected = row
    asked = config(disks, others, quorum, redundancy, TIE_BREAK)
    seen = peer_view(disks, others, fresh=fresh, stale=stale, diskless=diskless)
    assert has_quorum(asked, seen, had_quorum=had_quorum) is expected


@pytest.mark.parametrize(("quorate", "expected"), [(2, True), (1, False), (0, False)])
def test_diskless_replica_relies_on_peers_with_quorum(quorate, expected):
    asked = config(2, 1, 2, 2, TIE_BREAK, diskful=False)
    seen = peer_view(2, 1, fresh=2, diskless=1, quorate=quorate)
    assert has_quorum(asked, seen, had_quorum=True) is expected


def test_quorum_is_known_before_the_data_state():
    asked = config(3, 0, 2, 2, VOTES)
    assert has_enough_votes(asked, peer_view(3, 0, fresh=0, stale=2), had_quorum=False)
    assert not has_enough_votes(asked, peer_view(3, 0, fresh=0, stale=1), had_quorum=False)


def test_diskless_replica_gets_quorum_from_its_peers_at_once(kernels):
    """It is evaluated before its peers."""
    kernels.spread("cab", quorum=2, diskless="c", rule="tie-break")
    kernels.advance(10)
    assert not kernels.status("c").quorum
    kernels.do("initialize", "a", "v")
    assert all(kernels.status(node).quorum for node in "cab")


@pytest.mark.parametrize(
    ("change", "is_agreed"),
    [
        ({"two_primaries": True}, True),
        ({"quorum": 1}, False),
        ({"quorum_minimum_redundancy": 2}, False),
        ({"quorum_rule": TIE_BREAK}, False),
        ({"port": 7001}, False),
        ({"peers": {}}, False),
    ],
)
def test_replicas_renegotiate_all_but_the_permission_of_two_primaries(change, is_agreed):
    before = config(3, 0, 2, 1, VOTES)
    assert dataclasses.replace(before, **change).has_same_effect_as(before) is is_agreed
