import pytest

from tests.scenario import objects
from tests.scenario.analysis.events import (
    attempted,
    delete,
    node,
    patch,
    pod,
    result,
    scheduled,
    unscheduled,
)

FULL = {
    "a": {"NodeResourcesFit": "Insufficient cpu"},
    "b": {"TaintToleration": "node(s) had untolerated taint {x: }"},
}
WELL = {
    "a": {"NodeName": "passed", "NodeResourcesFit": "passed"},
    "b": {"NodeName": "node(s) didn't match the requested node name"},
}


def test_waiting_is_counted_in_major_and_minor_steps():
    found = result(
        node(1, "a"),
        pod(2, "x"),
        pod(2, "y"),
        scheduled((2, 1), "x", "a"),
        pod(3, "z"),
        scheduled((3, 1), "z", "a"),
        pod(3, "w"),
        scheduled((3, 4), "w", "a"),
        delete(5, "Pod", "x"),
        scheduled((5, 2), "y", "a"),
        pod((5, 2), "never"),
        delete(6, "Node", "a"),
    )

    assert [(life.name, life.state, life.major_steps, life.minor_steps) for life in found.pods] == [
        ("x", "deleted", 0, 1),
        ("y", "placed", 3, 1 + 4 + 2),  # step 2 had one minor step, step 3 four
        ("z", "placed", 0, 1),
        ("w", "placed", 0, 4),
        ("never", "pending", 1, 0),
    ]
    assert [life.name for life in found.pods if life.is_pending] == ["never"]


def test_pod_created_with_its_node_has_not_waited():
    life = result(node(1, "a"), pod(2, "x", nodeName="a"), pod(9, "y")).pod("x")
    assert (life.is_given, life.state, life.node, life.scheduled, life.major_steps) == (
        True,
        "placed",
        "a",
        None,
        0,
    )


def test_recreated_pod_has_another_life():
    found = result(
        node(1, "a"),
        pod(1, "x"),
        delete(2, "Pod", "x"),
        pod(3, "x"),
        scheduled((3, 1), "x", "a"),
        pod(4, "x"),
    )

    reported = [
        (life.number, life.state, life.node, life.created.major, life.gone) for life in found.pods
    ]
    assert reported == [
        (1, "deleted", "", 1, (2, 0)),
        (2, "deleted", "a", 3, (4, 0)),
        (3, "pending", "", 4, None),
    ]
    assert found.pod("x").number == 3


def test_unknown_pod_is_named_with_similar_names():
    with pytest.raises(
        LookupError, match=r"^the scenario had no pod 'fist' \(did you mean 'first'\?\)$"
    ):
        result(pod(1, "first")).pod("fist")


def test_attempts_list_filters_and_reasons():
    (one, two) = result(
        node(1, "a"),
        pod(1, "x"),
        attempted(1, "x", filter_result=FULL),
        scheduled((2, 1), "x", "a"),
        attempted(
            (2, 1),
            "x",
            filter_result=WELL,
            score_result={"a": {"NodeResourcesFit": "76", "ImageLocality": "0"}},
            finalscore_result={
                "a": {"NodeResourcesFit": "73", "ImageLocality": "0"},
                "b": {"NodeResourcesFit": "80"},
            },
            selected_node="a",
        ),
    ).attempts("x")

    assert (one.number, one.step, one.node) == (1, (1, 0), "")
    assert one.rejected == {
        "a": ("NodeResourcesFit", "Insufficient cpu"),
        "b": ("TaintToleration", "node(s) had untolerated taint {x: }"),
    }
    assert (
        one.why_not
        == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {x: }."
    )
    assert (two.number, two.step, two.node, two.why_not) == (2, (2, 1), "a", "")
    assert two.feasible == ["a"]
    assert two.scores == {"a": {"NodeResourcesFit": 76, "ImageLocality": 0}}
    assert list(two.totals.items()) == [("b", 80), ("a", 73)]


@pytest.mark.parametrize(
    ("results", "why"),
    [
        (
            {
                "prefilter_result_status": {
                    "NodeAffinity": "success",
                    "VolumeBinding": "claim not found",
                }
            },
            "VolumeBinding: claim not found",
        ),
        ({"permit_result": {"Coscheduling": "wait"}, "selected_node": "a"}, ""),
        (
            {"filter_result": WELL, "prebind_result": {"VolumeBinding": "timed out"}},
            "VolumeBinding: timed out",
        ),
        ({}, ""),
    ],
)
def test_reason_for_no_node(results, why):
    (attempt,) = result(pod(1, "x"), attempted(1, "x", **results)).attempts()
    assert attempt.why_not == why


def test_reason_for_pending_is_that_of_the_last_attempt():
    found = result(
        pod(1, "x"),
        attempted(1, "x", filter_result={}),
        attempted(2, "x", filter_result={"a": {"P": "too small"}}),
    )
    assert found.pod("x").why_not == "0/1 nodes are available: 1 too small."


def test_pod_annotations_list_all_attempts():
    import json

    from pytest_kscen.objects.scenarios import RESULTS
    from pytest_kscen.scenario.analysis.pods import attempts_of

    first = {f"{RESULTS}filter-result": json.dumps(FULL)}
    last = {f"{RESULTS}filter-result": json.dumps(WELL), f"{RESULTS}selected-node": "a"}
    annotations = {"other": "x", **last, f"{RESULTS}result-history": json.dumps([first, last])}
    live = {"metadata": {"name": "x", "namespace": "default", "annotations": annotations}}

    assert [(each.number, each.node, len(each.rejected)) for each in attempts_of(live)] == [
        (1, "", 2),
        (2, "a", 1),
    ]
    assert attempts_of({"metadata": {"name": "x"}}) == []


def test_preemption_with_a_named_preemptor():
    (found,) = result(
        pod(1, "low"), scheduled((1, 1), "low", "a"), unscheduled((2, 1), "low", "a", by="high")
    ).preemptions
    assert (found.pod, found.node, found.step, found.by, found.evidence) == (
        "low",
        "a",
        (2, 1),
        "high",
        "reported",
    )


def test_preemption_is_attributed_to_the_attempt_choosing_the_node():
    found = result(
        pod(1, "low"),
        scheduled((1, 1), "low", "a"),
        unscheduled((2, 1), "low", "a"),
        attempted(
            (2, 1),
            "high",
            postfilter_result={"a": {"DefaultPreemption": "preemption victim"}, "b": {}},
        ),
        attempted(
            (2, 2), "other", postfilter_result={"b": {"DefaultPreemption": "preemption victim"}}
        ),
        scheduled((2, 3), "other", "a"),
    )

    assert [(each.by, each.evidence) for each in found.preemptions] == [
        ("default/high", "nominated")
    ]
    assert (found.pod("low").state, found.pod("low").gone) == ("preempted", (2, 1))


def test_without_results_the_next_pod_of_higher_priority_is_the_preemptor():
    found = result(
        pod(1, "low", priority=1),
        scheduled((1, 1), "low", "a"),
        pod(2, "lower", priority=0),
        pod(2, "high", priority=9),
        unscheduled((2, 1), "low", "a"),
        scheduled((2, 2), "lower", "a"),
        scheduled((2, 3), "high", "a"),
    )
    assert [(each.by, each.evidence) for each in found.preemptions] == [
        ("default/high", "followed")
    ]


def test_ambiguous_preemption_is_not_attributed():
    found = result(
        pod(1, "low"),
        scheduled((1, 1), "low", "a"),
        unscheduled((2, 1), "low", "a"),
        scheduled((3, 1), "later", "a"),
    )
    assert [(each.by, each.evidence) for each in found.preemptions] == [("", "")]


def test_patch_is_no_new_pod():
    assert len(result(pod(1, "x"), patch(2, objects.pod("x", "2"))).pods) == 1
