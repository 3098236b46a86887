"""An extender is asked the same by the real kube-scheduler and by ours, in the same words."""

import pytest
from test_against_kube_scheduler import PATIENCE, Rival
from test_extenders import Outside, halls, opened  # noqa: F401

from pytest_kscen.clusters.controlplane.starting import ControlPlaneFiles
from pytest_kscen.objects.resources import PODS

pytestmark = pytest.mark.controlplane

VERBS = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "preemptVerb": "preempt",
    "bindVerb": "bind",
}
NODES = ("n1", "n2")


def node(name):
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "8"}
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name, cls, **spec):
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}
    spec = {
        "priorityClassName": f"class-{cls}",
        "priority": cls * 10,
        "containers": [container],
        **spec,
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def taught(outside, *, by_name):
    outside.filter_by(lambda _: "", by_name=by_name)
    outside.answers["prioritize"] = lambda _: [
        {"Host": "n1", "Score": 10}
    ]  # equals would be chosen by chance
    outside.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": {}}
    outside.answers["bind"] = lambda _: {"Error": ""}
    return outside


def seen(outside):
    """What each verb was asked first, without what differs from cluster to cluster."""
    first = {}
    for verb, question in outside.asked:
        first.setdefault(verb, question)
    return {verb: essence(question) for verb, question in first.items()}


def essence(value):
    if isinstance(value, dict) and "metadata" in value and "spec" in value:
        return (
            value["metadata"]["name"],
            "managedFields" in value["metadata"],
            sorted(value["metadata"].get("annotations", ())),
        )
    if isinstance(value, dict):
        return {
            key: bool(one) if key in {"UID", "PodUID"} else essence(one)
            for key, one in sorted(value.items())
        }
    return sorted(map(essence, value), key=str) if isinstance(value, list) else value


@pytest.mark.parametrize("by_name", [False, True])
def test_the_same_questions(halls, opened, monkeypatch, by_name):  # noqa: F811
    extender = {**VERBS, "nodeCacheCapable": by_name, "httpTimeout": "5s"}
    their_outside, my_outside = taught(opened(), by_name=by_name), taught(opened(), by_name=by_name)
    theirs(their_outside, extender, monkeypatch)
    mine(my_outside, extender, halls)
    assert seen(their_outside).keys() == {"filter", "prioritize", "preempt", "bind"}
    assert seen(my_outside) == seen(their_outside)


def theirs(outside, extender, monkeypatch):
    plain = ControlPlaneFiles.scheduler_configuration
    with_extender = lambda layout: {  # noqa: E731
        **plain(layout),
        "extenders": [{"urlPrefix": outside.url, **extender}],
    }
    monkeypatch.setattr(ControlPlaneFiles, "scheduler_configuration", with_extender)
    rival = Rival()
    try:
        for name in NODES:
            rival.add_node(node(name))
        rival.ask(rival.api.create(PODS, pod("first", 1)))
        assert rival.runner.until(lambda: "bind" in outside.verbs(), PATIENCE)
        rival.ask(rival.api.delete(PODS, "first", "default", grace_period=0))
        for name in NODES:
            rival.ask(rival.api.create(PODS, pod(f"on-{name}", 1, nodeName=name)))
        rival.ask(rival.api.create(PODS, pod("boss", 2)))
        assert rival.runner.until(lambda: "preempt" in outside.verbs(), PATIENCE)
    finally:
        rival.close()


def mine(outside, extender, halls):  # noqa: F811
    hall = halls(outside, **extender)
    hall.nodes(2, cpu="2")
    for one in (
        pod("first", 1),
        *(pod(f"on-{name}", 1, nodeName=name) for name in NODES),
        pod("boss", 2),
    ):
        one["spec"].pop("priorityClassName")
        hall.ask(hall.api.create(PODS, one))
        hall.advance()
        if one["metadata"]["name"] == "first":
            hall.delete("first")
    assert "preempt" in outside.verbs()
