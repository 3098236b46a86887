"""Differences tolerated when a scenario is compared with a real control plane."""

import pytest

from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo, QueuedPod
from tests.scenario.comparing import (
    BOUND,
    MEANWHILE,
    SENT_AWAY,
    TOGETHER,
    Follower,
    Tally,
    clock_told,
    in_one_breath,
    may_precede,
    nickname,
)
from tests.scenario.objects import create, pod, scenario

PLAN = scenario(create(1, pod("a")), create(1, pod("b")))
A, B, C = ((BOUND, name, "n") for name in "abc")
GONE = (SENT_AWAY, "a", "n")


def queued(name, priority, turn, failures=1):
    return QueuedPod(PodInfo(pod(name, priority=priority)), 0.0, turn, unschedulable=failures)


class TestWhoMayPrecede:
    @pytest.mark.parametrize(
        ("one", "other", "verdict"),
        [
            (queued("a", 9, 2), queued("b", 0, 1), True),  # by priority
            (
                queued("a", 0, 1),
                queued("b", 9, 2),
                True,
            ),  # turned down before: its back-off may be over
            (
                queued("a", 0, 2),
                queued("b", 9, 1),
                False,
            ),  # its back-off ends later, or at once with the other's
            (queued("a", 0, 2), queued("b", 0, 1), False),
            (
                queued("a", 0, 2, failures=1),
                queued("b", 9, 1, failures=2),
                True,
            ),  # it backs off for less
            (
                queued("a", 0, 2, failures=5),
                queued("b", 9, 1, failures=6),
                False,
            ),  # both for the longest
        ],
    )
    def test_pod_may_precede_after_a_clock_tick(self, one, other, verdict):
        assert may_precede(one, other) is verdict

    def test_only_permitted_predecessors_are_offered(self):
        follower = Follower(PLAN, [], choices=(1,))
        waiting = [queued("high", 9, 2), queued("early", 0, 1), queued("late", 0, 3)]
        assert follower.next_one(waiting).pod.name == "early"
        assert follower.asked == [["high", "early"]]
        assert follower.reported == ["early before high"]
        assert follower.beside == {("early", "high"), ("early", "late")}


class TestBindings:
    def test_pods_are_concurrent_only_if_one_waited_when_the_other_was_taken(self):
        assert in_one_breath([A, B, C], {("a", "b")}) == [[A, B], [C]]
        assert in_one_breath([A, B, C], set()) == [[A], [B], [C]]
        assert in_one_breath([A, GONE, B], {("a", "b")}) == [[A], [GONE], [B]]

    def test_concurrent_pods_may_come_in_any_order(self):
        assert clock_told([A, B, C], [A, B, C], set()) == []
        assert clock_told([A, B, C], [B, A, C], {("a", "b")}) == [TOGETHER]
        assert clock_told([A, B, C], [B, A, C], {("b", "c")}) is None
        assert clock_told([A, B, C], [A, C, B], {("a", "b")}) is None

    def test_order_of_other_pods_and_their_number_must_match(self):
        together = {("a", "b")}
        assert clock_told([A, B], [(BOUND, "b", "m"), A], together) is None
        assert clock_told([A, B], [B], together) is None
        assert clock_told([A], [A, B], together) is None

    def test_woken_pod_may_be_bound_before_the_last_rejection(self):
        first, second, other = (SENT_AWAY, "x", "n"), (SENT_AWAY, "y", "n"), (SENT_AWAY, "y", "m")
        woken = {("a", "c")}
        assert clock_told([first, second, A], [first, A, second], woken) == [MEANWHILE]
        assert clock_told([first, second, A], [A, first, second], woken) is None
        assert clock_told([first, second, A], [second, A, first], woken) is None
        assert clock_told([first, second, A], [first, A, second], set()) is None
        assert clock_told([first, other, A], [first, A, other], woken) is None
        assert clock_told([first, A, second], [first, second, A], woken) is None


class TestTally:
    def play(self, orders):
        """Return the order that follows from a choice between two pods."""

        def once(choices):
            follower = Follower(PLAN, [], choices)
            follower.next_one([queued("a", 9, 2), queued("b", 0, 1)])
            return follower, orders[choices[0] if choices else 0], "Succeeded"

        return once

    def test_equal_courses(self):
        tally = Tally()
        tally.add("s", ([A, B], "Succeeded"), self.play([[A, B], [B]]))
        assert (tally.decided, tally.differences, tally.by_clock) == (2, [], [])

    def test_difference_explained_by_another_clock(self):
        tally = Tally()
        tally.add("s", ([B], "Succeeded"), self.play([[A, B], [B]]))
        assert (tally.decided, tally.differences, tally.by_clock) == (1, [], ["s: b before a"])

    def test_concurrent_bindings(self):
        tally = Tally()
        tally.add("s", ([B, A], "Succeeded"), self.play([[A, B], [B]]))
        assert (tally.differences, tally.by_clock) == (
            [],
            ["s: bindings that were under way together"],
        )

    @pytest.mark.parametrize("theirs", [([A], "Succeeded"), ([A, B], "Failed")])
    def test_everything_else_is_a_difference(self, theirs):
        tally = Tally()
        tally.add("s", theirs, self.play([[A, B], [B]]), "why")
        assert len(tally.differences) == 1
        assert tally.differences[0].endswith(f"theirs {theirs[1]} {theirs[0]} why")
        assert tally.by_clock == []

    def test_node_outside_the_best_scored_is_a_difference(self):
        def stray(choices):
            follower = Follower(PLAN, [(BOUND, "a", "elsewhere")], choices)
            follower.node(queued("a", 0, 1).pod, ("n", "m"))
            return follower, [A], "Succeeded"

        tally = Tally()
        tally.add("s", ([A], "Succeeded"), stray)
        assert tally.differences[0].endswith("a: none of n, m")


def test_pods_of_controllers_are_named_by_their_owners():
    assert [nickname(PLAN, name) for name in ("a", "a-x7k2p", "c")] == ["a", "a-*", "c"]
