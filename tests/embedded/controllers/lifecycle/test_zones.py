import pytest

from pytest_kscen.embedded.controllers.node_lifecycle import (
    EvictionLimiter,
    ZoneState,
    eviction_rate,
    zone_state,
)


@pytest.mark.parametrize(
    ("ready", "unready", "state"),
    [
        (6, 0, ZoneState.NORMAL),
        (4, 2, ZoneState.NORMAL),
        (1, 2, ZoneState.NORMAL),
        (3, 3, ZoneState.NORMAL),
        (2, 4, ZoneState.PARTIAL),
        (2, 3, ZoneState.PARTIAL),
        (0, 1, ZoneState.FULL),
        (0, 0, ZoneState.NORMAL),
    ],
)
def test_zone_state(ready, unready, state):
    assert zone_state(ready, unready) is state


@pytest.mark.parametrize(
    ("state", "nodes", "all_full", "rate"),
    [
        (ZoneState.NORMAL, 6, False, 0.1),
        (ZoneState.PARTIAL, 6, False, 0.0),
        (ZoneState.PARTIAL, 50, False, 0.0),
        (ZoneState.PARTIAL, 51, False, 0.01),
        (ZoneState.FULL, 6, False, 0.1),
        (ZoneState.FULL, 6, True, 0.0),
    ],
)
def test_eviction_rate_of_zone(state, nodes, all_full, rate):
    assert eviction_rate(state, nodes, all_full=all_full) == rate


def test_one_node_per_ten_seconds():
    limiter = EvictionLimiter()
    assert [limiter.take(second) for second in (0, 5, 9, 10, 11, 30, 31)] == [
        True,
        False,
        False,
        True,
        False,
        True,
        False,
    ]


def test_rate_change_keeps_used_tokens():
    limiter = EvictionLimiter()
    assert limiter.take(0)
    limiter.set(0.01, 1)
    assert not limiter.take(2)
    assert limiter.take(101)


def test_one_node_may_go_after_zero_rate():
    limiter = EvictionLimiter()
    limiter.set(0.0, 1)
    assert not limiter.take(1000)
    limiter.set(0.1, 1001)
    assert limiter.take(1001)
