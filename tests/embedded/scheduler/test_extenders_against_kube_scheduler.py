"""Requests of our scheduler to an extender equal those of the real kube-scheduler."""

import pytest
from test_against_kube_scheduler import PATIENCE, Rival
from test_extenders import ExtenderServer, make_cluster, opened  # noqa: F401

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


def taught(extender_server, *, by_name):
    extender_server.filter_by(lambda _: "", by_name=by_name)
    extender_server.answers["prioritize"] = lambda _: [
        {"Host": "n1", "Score": 10}
    ]  # equals would be chosen by chance
    extender_server.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": {}}
    extender_server.answers["bind"] = lambda _: {"Error": ""}
    return extender_server


def seen(extender_server):
    """Return the first request of each verb, without what differs between clusters."""
    first = {}
    for verb, question in extender_server.asked:
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
def test_extender_requests_are_equal(make_cluster, opened, monkeypatch, by_name):  # noqa: F811
    extender = {**VERBS, "nodeCacheCapable": by_name, "httpTimeout": "5s"}
    their_outside, my_outside = taught(opened(), by_name=by_name), taught(opened(), by_name=by_name)
    theirs(their_outside, extender, monkeypatch)
    mine(my_outside, extender, make_cluster)
    assert seen(their_outside).keys() == {"filter", "prioritize", "preempt", "bind"}
    assert seen(my_outside) == seen(their_outside)


def theirs(extender_server, extender, monkeypatch):
    plain = ControlPlaneFiles.scheduler_configuration
    with_extender = lambda layout: {  # noqa: E731
        **plain(layout),
        "extenders": [{"urlPrefix": extender_server.url, **extender}],
    }
    monkeypatch.setattr(ControlPlaneFiles, "scheduler_configuration", with_extender)
    rival = Rival()
    try:
        for name in NODES:
            rival.add_node(node(name))
        rival.ask(rival.api.create(PODS, pod("first", 1)))
        assert rival.runner.until(lambda: "bind" in extender_server.verbs(), PATIENCE)
        rival.ask(rival.api.delete(PODS, "first", "default", grace_period=0))
        for name in NODES:
            rival.ask(rival.api.create(PODS, pod(f"on-{name}", 1, nodeName=name)))
        rival.ask(rival.api.create(PODS, pod("boss", 2)))
        assert rival.runner.until(lambda: "preempt" in extender_server.verbs(), PATIENCE)
    finally:
        rival.close()


def mine(extender_server, extender, make_cluster):  # noqa: F811
    cluster = make_cluster(extender_server, **extender)
    cluster.nodes(2, cpu="2")
    for one in (
        pod("first", 1),
        *(pod(f"on-{name}", 1, nodeName=name) for name in NODES),
        pod("boss", 2),
    ):
        one["spec"].pop("priorityClassName")
        cluster.ask(cluster.api.create(PODS, one))
        cluster.advance()
        if one["metadata"]["name"] == "first":
            cluster.delete("first")
    assert "preempt" in extender_server.verbs()
