"""Detection that known controllers have no more work."""

import pytest

from pytest_kscen.models.storage.generations import DEFAULT, GENERATIONS
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, STORAGE_CLASSES
from pytest_kscen.scenario.builtin_waiters import REPLICATED_STORAGE, WAITERS
from pytest_kscen.scenario.participants import ControllerRegister
from pytest_kscen.scenario.waiting import Waiter
from tests.scenario.objects import create, done, node, pod, scenario


def unfinished(controller, obj):
    waiter = next(each for each in WAITERS if each.name == controller)
    (rule,) = [rule for resource, rule in waiter.rules.items() if resource.kind == obj["kind"]]
    return rule(obj)


@pytest.mark.parametrize(
    ("current", "words"), [(0, "has 0 of 5 pods"), (4, "has 4 of 5 pods"), (5, "")]
)
def test_daemon_set_has_a_pod_for_each_node(current, words):
    status = {
        "observedGeneration": 1,
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": current,
    }
    assert (
        unfinished(
            "daemonset-controller",
            {"kind": "DaemonSet", "metadata": {"generation": 1}, "status": status},
        )
        == words
    )


def stateful_set(probe):
    container = {
        "name": "c",
        "image": "pause",
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, **probe},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {
        "replicas": 3,
        "serviceName": "web",
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


def test_pod_that_may_become_ready_is_awaited(runner):
    web = stateful_set({"initialDelaySeconds": 5, "periodSeconds": 1})
    played = runner.play(scenario(create(1, node()), create(2, web), done(2)))

    assert [event.pod_scheduled.pod.name for event in played.timeline.of("podScheduled")] == [
        "web-0",
        "web-1",
        "web-2",
    ]


def test_claim_with_immediate_binding_is_awaited(runner):
    at_once = {
        "metadata": {"name": "at-once"},
        "provisioner": "kscen.io/disk",
        "volumeBindingMode": "Immediate",
    }
    at_once |= {"apiVersion": STORAGE_CLASSES.api_version, "kind": STORAGE_CLASSES.kind}
    spec = {
        "storageClassName": "at-once",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": spec,
    }
    seen = pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    played = runner.play(
        scenario(create(1, node()), create(1, at_once), create(1, claim), create(1, seen), done(1))
    )

    assert [
        (event.pod_scheduled.pod.name, event.step.minor)
        for event in played.timeline.of("podScheduled")
    ] == [("a", 1)]


def test_replicated_volumes_are_awaited_where_served(runner):
    cluster = runner.cluster
    assert runner.play(scenario(done(1), name="before")).phase == "Succeeded"
    assert REPLICATED_STORAGE not in runner.controllers.waiters
    for each in GENERATIONS[DEFAULT].definitions:
        cluster.runner.call(cluster.api().create(CUSTOM_RESOURCE_DEFINITIONS, each))
    cluster.advance(5)
    assert runner.play(scenario(done(1), name="after")).phase == "Succeeded"
    assert REPLICATED_STORAGE in runner.controllers.waiters


class Partial:
    name = "partial"
    resources = (NODES,)


@pytest.mark.parametrize(
    ("waiter", "why"),
    [
        (
            Waiter("kube-scheduler", {}),
            "^'kube-scheduler' has a waiter already: give yours another name, or pass replace=True$",
        ),
        (Waiter("", {}), "is no waiter: '' is no controller's name$"),
        (Waiter("*", {}), r"is no waiter: '\*' is no controller's name$"),
        (
            Waiter("painter", {"nodes": lambda _: ""}),
            "is no waiter: 'nodes' is no Resource, as pytest_kscen.objects.resources has",
        ),
        (
            Partial(),
            (
                "is no waiter: it has no unfinished, quiet, is_idle; derive it from Waiter, "
                "or see ControllerWaiter$"
            ),
        ),
        (object(), "is no waiter: it has no name, resources, "),
    ],
)
def test_invalid_waiter_is_not_added(waiter, why):
    with pytest.raises(ValueError, match=why):
        ControllerRegister().add(waiter)


def test_custom_waiter_may_be_added_again_and_a_built_in_one_replaced():
    register, own, other = ControllerRegister(), Waiter("painter", {}), Waiter("kubelet", {})
    register.add(Waiter("painter", {}))
    register.add(own)
    register.add(other, replace=True)
    assert (register.waiters["painter"], register.waiters["kubelet"]) == (own, other)
