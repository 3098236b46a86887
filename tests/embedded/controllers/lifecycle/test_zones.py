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
def test_how_a_zone_is(ready, unready, state):
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
def test_how_fast_it_may_be_emptied(state, nodes, all_full, rate):
    assert eviction_rate(state, nodes, all_full=all_full) == rate


def test_one_in_ten_seconds():
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


def test_a_new_rate_gives_no_second_chance():
    limiter = EvictionLimiter()
    assert limiter.take(0)
    limiter.set(0.01, 1)
    assert not limiter.take(2)
    assert limiter.take(101)


def test_after_none_at_all_one_may_go():
    limiter = EvictionLimiter()
    limiter.set(0.0, 1)
    assert not limiter.take(1000)
    limiter.set(0.1, 1001)
    assert limiter.take(1001)
