"""Comparison with the real kube-scheduler for pods with affinity and topology spread constraints,
explicit or default.
"""

import contextlib

import pytest
from test_against_kube_scheduler import has_seen_all, ours, rival, with_priority  # noqa: F401
from test_small_and_large import HOST, ZONE, some_node, some_pod

from pytest_kscen.chance import Chance
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import PODS, SERVICES

pytestmark = pytest.mark.controlplane

NODE_COUNT, POD_COUNT = 12, 50
HARD, SOFT = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def some_term(chance):
    apps = sorted({f"a{chance.below(4)}" for _ in range(2)})
    selector = {
        "matchExpressions": [
            {"key": "app", "operator": chance.choice(["In", "In", "NotIn"]), "values": apps}
        ]
    }
    if chance.below(4) == 0:
        selector = {"matchLabels": {"size": chance.choice("ab")}}
    namespace_selector = chance.choice(
        [{}, {}, {"namespaces": ["default"]}, {"namespaceSelector": {}}]
    )
    keys = (
        {"matchLabelKeys": ["size"]}
        if chance.below(5) == 0 and "matchLabels" not in selector
        else {}
    )
    return {
        "topologyKey": chance.choice([HOST, ZONE, "disk"]),
        "labelSelector": selector,
        **namespace_selector,
        **keys,
    }


def some_constraint(chance, key):
    hard = chance.below(2) == 0
    found = {
        "topologyKey": key,
        "maxSkew": chance.whole(1, 3),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    found["labelSelector"] = {"matchLabels": {"app": f"a{chance.below(4)}"}}
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance.below(3) == 0:
            found[policy] = chance.choice(["Honor", "Ignore"])
    if hard and chance.below(4) == 0:
        found["minDomains"] = chance.whole(1, 4)
    return found


def pod_with_affinity(chance, pod):
    """Return a pod with affinity or spread constraints, and a size."""
    spec = {**pod["spec"]}
    affinity = dict(spec.get("affinity") or {})
    match chance.below(7):
        case 0:
            affinity["podAffinity"] = {HARD: [some_term(chance) for _ in range(chance.whole(1, 2))]}
        case 1:
            affinity["podAntiAffinity"] = {HARD: [some_term(chance)]}
        case 2:
            affinity["podAffinity"] = {
                SOFT: [{"weight": chance.whole(1, 100), "podAffinityTerm": some_term(chance)}]
            }
        case 3:
            affinity["podAntiAffinity"] = {
                SOFT: [{"weight": chance.whole(1, 100), "podAffinityTerm": some_term(chance)}]
            }
        case 4 | 5:
            keys = chance.sample([HOST, ZONE, "disk"], chance.whole(1, 2))
            spec["topologySpreadConstraints"] = [some_constraint(chance, key) for key in keys]
    if affinity:
        spec["affinity"] = affinity
    labels = {**pod["metadata"]["labels"], "size": chance.choice("ab")}
    return {"metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def with_service(rival):  # noqa: F811
    """Pods of app a0 have kin, and are spread though they say nothing."""
    spec = {"selector": {"app": "a0"}, "ports": [{"port": 80}]}
    with contextlib.suppress(AlreadyExists):
        rival.ask(
            rival.api.create(
                SERVICES, {"metadata": {"name": "kin", "namespace": "default"}, "spec": spec}
            )
        )


@pytest.mark.parametrize("seed", range(10))
def test_kube_scheduler_chooses_one_of_our_best_nodes(rival, ours, seed):  # noqa: F811
    draws = Chance(seed).stream("sociable")
    rival.clear()
    with_service(rival)
    for number in range(NODE_COUNT):
        rival.add_node(some_node(draws, number))
    has_seen_all(rival)
    mine, bound = ours(), 0
    mine.scheduler._handle.snapshot.large = 1 if seed % 2 else 64
    for number in range(POD_COUNT):
        pod = pod_with_affinity(
            draws, some_pod(draws, number, kinds=8 if draws.below(3) else 4, classes=1)
        )
        pod = {**pod, "spec": {**pod["spec"], "affinity": pod["spec"].get("affinity") or {}}}
        best = mine.opinion(as_admitted(pod))
        found = rival.placed(pod)
        where = found["spec"].get("nodeName")
        if where is None:
            words = condition(found, "PodScheduled")["message"]
            assert all(
                any(reason in words for reason in refusal.split(", ")) for refusal in best
            ), (number, words, best, pod)
            rival.ask(rival.api.delete(PODS, pod["metadata"]["name"], "default", grace_period=0))
        else:
            assert where in best, (number, where, best, pod)
            bound += 1
        mine.has_seen(found)
    assert bound > POD_COUNT / 3


def as_admitted(pod):
    """Set the priority, and turn matchLabelKeys into requirements."""
    pod = with_priority(pod)
    affinity = pod["spec"]["affinity"]
    admitted = {**affinity}
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            admitted[kind] = {
                how: [_merged(one, pod) for one in terms] for how, terms in affinity[kind].items()
            }
    return {**pod, "spec": {**pod["spec"], "affinity": admitted}}


def _merged(term, pod):
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _merged(term["podAffinityTerm"], pod)}
    selector, labels = dict(term["labelSelector"]), pod["metadata"]["labels"]
    for key in term.get("matchLabelKeys") or ():
        own = {"key": key, "operator": "In", "values": [labels[key]]}
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), own]
    return {**term, "labelSelector": selector}
