import copy
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.scenario.analysis.replay import scenes
from pytest_kscen.scenario.analysis.result import Result
from tests.scenario import objects
from tests.scenario.analysis.events import delete, node, patch, pod, result, scheduled, unscheduled

SMALL = [
    node(1, "a", cpu="4"),
    node(1, "b", cpu="2"),
    pod(2, "x", "1"),
    scheduled((2, 1), "x", "a"),
    pod(3, "y", "1500m"),
    scheduled((3, 1), "y", "b"),
    delete(4, "Pod", "x"),
    delete(6, "Node", "b"),
]


def test_allocation_covers_all_nodes():
    assert result(*SMALL).allocation("cpu").by_step == {
        1: 0,
        2: 1 / 6,
        3: 2.5 / 6,
        4: 1.5 / 6,
        6: 0,
    }


def test_step_without_events_equals_the_previous_one():
    allocation = result(*SMALL).allocation("cpu")
    assert allocation.at(step=5) == allocation.at(step=4) == 0.25
    with pytest.raises(LookupError, match=r"^nothing is known of step 0: the first is 1$"):
        allocation.at(step=0)


def test_utilisation_is_recorded_for_changed_nodes_while_they_exist():
    found = result(*SMALL).utilisation("cpu")

    assert found["a"].by_step == {1: 0, 2: 0.25, 4: 0}
    assert found["b"].by_step == {1: 0, 3: 0.75}
    assert (found["b"].at(step=5), found["b"].ended) == (0.75, 6)
    with pytest.raises(
        LookupError, match=r"^nothing is known of step 6: it had gone by the end of step 6$"
    ):
        found["b"].at(step=6)


def test_returning_node_continues_its_series():
    found = result(*SMALL, node(7, "b", cpu="2")).utilisation("cpu")["b"]
    assert (found.ended, found.at(step=7)) == (None, 0.75)


def test_spread_over_nodes():
    spread = result(*SMALL).spread("cpu")

    assert spread.deviation.by_step == {1: 0, 2: 0.125, 3: 0.25, 4: 0.375, 6: 0}
    assert spread.least.by_step == {1: 0, 2: 0, 3: 0.25, 4: 0, 6: 0}
    assert spread.most.by_step == {1: 0, 2: 0.25, 3: 0.75, 4: 0.75, 6: 0}
    assert spread.range.by_step == {1: 0, 2: 0.25, 3: 0.5, 4: 0.75, 6: 0}


def test_pods_are_a_resource():
    assert result(*SMALL).allocation("pods").at(step=3) == 2 / 220


def test_resources_are_those_of_nodes_and_pod_requests():
    assert result(*SMALL).resources == ["cpu", "pods"]
    gpu = objects.pod("g", "1")
    gpu["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    assert result(*SMALL, patch(3, gpu)).resources == ["cpu", "pods"]


def test_pod_created_with_its_node():
    assert result(node(1, "a"), pod(1, "x", "1", nodeName="a")).allocation("cpu").last == 0.25


def test_finished_pod_requests_nothing():
    over = {**objects.pod("x", "1"), "status": {"phase": "Succeeded"}}
    assert result(
        node(1, "a"), pod(1, "x"), scheduled((1, 1), "x", "a"), patch(2, over)
    ).allocation("cpu").by_step == {
        1: 0.25,
        2: 0,
    }


def test_resized_pod():
    larger = objects.pod("x", "2")
    events = node(1, "a"), pod(1, "x"), scheduled((1, 1), "x", "a"), patch(2, larger)
    assert result(*events).allocation("cpu").by_step == {1: 0.25, 2: 0.5}


def test_terminating_pod_is_not_counted_again():
    leaving = copy.deepcopy(objects.pod("x", "1", nodeName="a"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    events = (
        node(1, "a"),
        pod(1, "x"),
        scheduled((1, 1), "x", "a"),
        delete(2, "Pod", "x"),
        patch(2, leaving),
    )
    assert result(*events).allocation("cpu").by_step == {1: 0.25, 2: 0}


def test_init_containers_sidecars_and_overhead():
    def container(cpu, **more):
        return {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [
            container("500m", restartPolicy="Always"),
            container("2"),
            container("250m", restartPolicy="Always"),
        ],
        "containers": [container("1")],
        "overhead": {"cpu": "100m"},
    }
    assert (
        result(node(1, "a", cpu="10"), pod(1, "x", nodeName="a", **spec)).allocation("cpu").last
        == 0.26
    )


def test_scenes_allow_additional_counts():
    reported = [
        (event.step.major, len(scene.nodes), len(scene.pending), len(scene.placed))
        for event, scene in result(*SMALL).scenes()
    ]
    assert reported == [
        (1, 1, 0, 0),
        (1, 2, 0, 0),
        (2, 2, 1, 0),
        (2, 2, 0, 1),
        (3, 2, 1, 1),
        (3, 2, 0, 2),
        (4, 2, 0, 1),
        (6, 1, 0, 1),
    ]


NODES, PODS = ("a", "b", "c"), ("w", "x", "y", "z")
HAPPENINGS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from(["1", "2", "3500m"])),
    st.tuples(st.just("no node"), st.sampled_from(NODES), st.none()),
    st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(["100m", "1", "2"])),
    st.tuples(st.just("resized"), st.sampled_from(PODS), st.sampled_from(["100m", "1", "2"])),
    st.tuples(st.just("no pod"), st.sampled_from(PODS), st.none()),
    st.tuples(st.just("placed"), st.sampled_from(PODS), st.sampled_from(NODES)),
    st.tuples(st.just("sent away"), st.sampled_from(PODS), st.sampled_from(NODES)),
)
WRITTEN = {
    "node": node,
    "no node": lambda step, name, _: delete(step, "Node", name),
    "pod": pod,
    "resized": lambda step, name, cpu: patch(step, objects.pod(name, cpu)),
    "no pod": lambda step, name, _: delete(step, "Pod", name),
    "placed": scheduled,
    "sent away": unscheduled,
}
TIMELINES = st.lists(st.tuples(st.integers(0, 1), HAPPENINGS), min_size=1, max_size=40)


def timeline(happenings):
    step, events = 1, []
    for more, (what, name, detail) in happenings:
        step += more
        events.append(WRITTEN[what](step, name, detail))
    return events


@given(TIMELINES)
def test_incremental_count_equals_a_full_count(happenings):
    events = timeline(happenings)
    found = result(*events)
    for event, scene in scenes(events):
        millis = {
            name: _cpu(scene.nodes[name]["status"]["allocatable"]["cpu"]) for name in scene.nodes
        }
        used = dict.fromkeys(millis, 0)
        for name, where in scene.placed.items():
            if name in scene.pods and where in used:
                used[where] += _cpu(
                    scene.pods[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                )
        shares = {name: used[name] / millis[name] for name in millis}
        last = event, millis, used, shares
        assert set(scene.placed) & set(scene.pending) == set()
        assert set(scene.pods) <= set(scene.placed) | set(scene.pending)
    event, millis, used, shares = last
    step = event.step.major
    assert found.allocation("cpu").at(step=step) == (
        sum(used.values()) / sum(millis.values()) if millis else 0
    )
    there = {
        name: series.at(step=step)
        for name, series in found.utilisation("cpu").items()
        if series.ended is None
    }
    assert there == shares
    spread = found.spread("cpu")
    assert spread.deviation.last == pytest.approx(
        statistics.pstdev(shares.values()) if shares else 0, abs=1e-8
    )
    assert spread.range.last == (max(shares.values()) - min(shares.values()) if shares else 0)


def _cpu(text):
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


@pytest.mark.parametrize(
    "question", [Result.allocation, Result.utilisation, Result.spread, Result.imbalance]
)
def test_resource_of_no_node_is_not_zero(question):
    found = result(node(1, "a"), pod(1, "x"))
    with pytest.raises(
        LookupError,
        match=r"^no node has 'mem' \(did you mean 'memory'\?\); there are cpu, memory, ",
    ):
        question(found, "mem")
    assert question(found, "ephemeral-storage")
