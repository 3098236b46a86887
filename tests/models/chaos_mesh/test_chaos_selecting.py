import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.chaos_mesh.targets import NothingSelected, chosen, selected


def pod(name, namespace="default", *, node="n1", phase="Running", annotations=None, **labels):
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


PODS = [
    pod("b", app="x", tier="web"),
    pod("a", app="x", node="n2"),
    pod("c", app="y", phase="Pending", annotations={"team": "one"}),
    pod("d", "other", app="x"),
]
NODES = [
    {"metadata": {"name": "n1", "labels": {}}},
    {"metadata": {"name": "n2", "labels": {"disk": "ssd"}}},
]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ({}, "abc"),
        ({"namespaces": ["other"]}, "d"),
        ({"namespaces": ["default", "other"], "labelSelectors": {"app": "x"}}, "abd"),
        ({"expressionSelectors": [{"key": "tier", "operator": "Exists"}]}, "b"),
        ({"expressionSelectors": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, "c"),
        ({"annotationSelectors": {"team": "one"}}, "c"),
        ({"fieldSelectors": {"metadata.name": "a"}}, "a"),
        ({"fieldSelectors": {"spec.nodeName": "n1", "status.phase": "Running"}}, "b"),
        ({"nodes": ["n2"]}, "a"),
        ({"nodeSelectors": {"disk": "ssd"}}, "a"),
        ({"nodes": ["n1"], "nodeSelectors": {"disk": "ssd"}}, "abc"),
        ({"podPhaseSelectors": ["Pending", "Failed"]}, "c"),
        ({"podPhaseSelectors": ["!Pending"]}, "ab"),
        (
            {"pods": {"other": ["d"], "default": ["c", "nobody"]}, "labelSelectors": {"app": "z"}},
            "cd",
        ),
        ({"labelSelectors": {"app": "z"}}, ""),
    ],
)
def test_selectors_match_the_described_pods(selector, names):
    found = selected(selector, "default", {Ref.of(each): each for each in PODS}, NODES)
    assert "".join(each["metadata"]["name"] for each in found) == names


@pytest.mark.parametrize(
    ("mode", "value", "counts"),
    [
        ("all", "", {10}),
        ("one", "", {1}),
        ("fixed", "3", {3}),
        ("fixed", "30", {10}),
        ("fixed-percent", "35", {3}),
        ("fixed-percent", "100", {10}),
        ("random-max-percent", "29", {1, 2}),
    ],
)
def test_modes_select_the_specified_number(mode, value, counts):
    seen = set()
    for seed in range(60):
        try:
            hit = chosen(mode, value, range(10), Chance(seed).stream("x"))
        except NothingSelected:
            continue
        assert len({*hit}) == len(hit)
        seen.add(len(hit))
    assert seen == counts


@pytest.mark.parametrize(
    ("mode", "value", "why"),
    [
        ("fixed", "0", "value '0' is invalid for mode fixed"),
        ("fixed", "many", "value 'many' is invalid for mode fixed"),
        ("fixed-percent", "101", "value '101' is invalid for mode fixed-percent"),
        ("fixed-percent", "9", "fixed-percent 9 of 10 is none"),
        ("some", "", "mode 'some' is not supported"),
    ],
)
def test_mode_selecting_no_pod(mode, value, why):
    with pytest.raises(NothingSelected, match=f"^{why}$"):
        chosen(mode, value, range(10), Chance(1).stream("x"))


def test_all_pods_may_be_selected():
    assert {chosen("one", "", "abc", Chance(seed).stream("x"))[0] for seed in range(40)} == {*"abc"}
