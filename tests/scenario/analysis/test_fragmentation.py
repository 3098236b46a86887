import pytest
from hypothesis import given

from pytest_kscen.scenario.analysis.replay import scenes
from tests.scenario import objects
from tests.scenario.analysis.events import delete, make, node, pod, result, scheduled
from tests.scenario.analysis.test_usage import TIMELINES, timeline


def test_space_too_small_for_the_typical_pod_is_fragmented():
    found = result(
        node(1, "a", cpu="4"),
        node(1, "b", cpu="4"),
        pod(2, "x", "3"),
        scheduled((2, 1), "x", "a"),
        pod(3, "y", "3"),
        scheduled((3, 1), "y", "b"),
    ).fragmentation("cpu")

    assert found.by_step == {
        1: 0,
        2: 1 / 5,
        3: 1,
    }  # of 1 + 4 free cores one is of no use; of 1 + 1 both


def test_each_pod_of_the_scenario_has_equal_weight():
    found = result(
        node(1, "a", cpu="2"),
        node(1, "b", cpu="4"),
        pod(2, "x", "1"),
        pod(2, "y", "3"),
        pod(2, "z", "5"),
        pod(2, "v", "1"),
    ).fragmentation("cpu")

    assert found.at(step=2) == pytest.approx((0 + 2 / 6 + 6 / 6 + 0) / 4)


def test_missing_resource_may_be_another_one():
    greedy = objects.pod("x", "1")
    greedy["spec"]["containers"][0]["resources"]["requests"]["memory"] = "5Gi"
    found = result(node(1, "a", memory="4Gi"), node(1, "b", memory="8Gi"), make(1, greedy))

    assert found.fragmentation("cpu").last == 0.5
    assert found.fragmentation("memory").last == pytest.approx(4 / 12)


def test_pods_not_requesting_the_resource_are_ignored():
    plain = objects.pod("x", "1")
    plain["spec"]["containers"][0]["resources"] = {"requests": {"memory": "100Gi"}}
    assert result(node(1, "a"), make(1, plain), pod(1, "y", "1")).fragmentation("cpu").last == 0


def test_for_pending_pods():
    found = result(
        node(1, "a", cpu="2"),
        pod(1, "x", "1"),
        scheduled((1, 1), "x", "a"),
        pod(2, "y", "3"),
        pod(3, "z", "1"),
        delete(4, "Pod", "y"),
        delete(5, "Pod", "z"),
    ).fragmentation("cpu", pending=True)

    assert found.by_step == {1: 0, 2: 1, 3: 0.5, 4: 0, 5: 0}


def test_no_fragmentation_without_requests_or_free_space():
    assert result(node(1, "a")).fragmentation("cpu").by_step == {1: 0}
    assert result(node(1, "a", cpu="1"), pod(1, "x", nodeName="a")).fragmentation(
        "cpu"
    ).by_step == {1: 0}


@given(TIMELINES)
def test_incremental_count_equals_a_full_count(happenings):
    events = timeline(happenings)
    for _, last in scenes(events):
        scene = last
    waiting = [wants for name in scene.pending if (wants := scene.requests[name])]
    free = {
        name: {what: max(scene.free(name, what), 0) for what in ("cpu", "pods")}
        for name in scene.nodes
    }
    total = sum(room["cpu"] for room in free.values())
    lost = [
        sum(room["cpu"] for room in free.values() if any(room[r] < wants[r] for r in room))
        for wants in waiting
    ]
    expected = sum(lost) / (total * len(lost)) if lost and total else 0

    assert result(*events).fragmentation("cpu", pending=True).last == pytest.approx(expected)
