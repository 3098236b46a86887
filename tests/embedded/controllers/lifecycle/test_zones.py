import pytest

from pytest_kscen.embedded.controllers.node_lifecycle import Limiter, State, rate_of, state_of


@pytest.mark.parametrize(
    ("ready", "unready", "state"),
    [
        (6, 0, State.NORMAL),
        (4, 2, State.NORMAL),
        (1, 2, State.NORMAL),
        (3, 3, State.NORMAL),
        (2, 4, State.PARTIAL),
        (2, 3, State.PARTIAL),
        (0, 1, State.FULL),
        (0, 0, State.NORMAL),
    ],
)
def test_how_a_zone_is(ready, unready, state):
    assert state_of(ready, unready) is state


@pytest.mark.parametrize(
    ("state", "nodes", "all_full", "rate"),
    [
        (State.NORMAL, 6, False, 0.1),
        (State.PARTIAL, 6, False, 0.0),
        (State.PARTIAL, 50, False, 0.0),
        (State.PARTIAL, 51, False, 0.01),
        (State.FULL, 6, False, 0.1),
        (State.FULL, 6, True, 0.0),
    ],
)
def test_how_fast_it_may_be_emptied(state, nodes, all_full, rate):
    assert rate_of(state, nodes, all_full=all_full) == rate


def test_one_in_ten_seconds():
    limiter = Limiter()
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
    limiter = Limiter()
    assert limiter.take(0)
    limiter.set(0.01, 1)
    assert not limiter.take(2)
    assert limiter.take(101)


def test_after_none_at_all_one_may_go():
    limiter = Limiter()
    limiter.set(0.0, 1)
    assert not limiter.take(1000)
    limiter.set(0.1, 1001)
    assert limiter.take(1001)
