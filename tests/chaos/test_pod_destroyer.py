"""Destruction of pods, which lasts until their replacements are ready."""

from __future__ import annotations

import pytest
from chaos_cluster import chaos_cluster

from pytest_kscen.chaos import manual_faults
from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.chaos.pod_deletions import PodDeletion
from pytest_kscen.chaos.profiles import PodDestroy
from pytest_kscen.clock import Signal
from pytest_kscen.kube.waiting import wait_for_list
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import DAEMON_SETS, DEPLOYMENTS, NAMESPACES, PODS
from pytest_kscen.objects.storage import NAMESPACE


def workloads(world, controllers=3):
    world.make(NAMESPACES, NAMESPACE)
    for resource, app, more in (
        (DEPLOYMENTS, "controller", {"replicas": controllers}),
        (DAEMON_SETS, "agent", {}),
    ):
        pod = {"containers": [{"name": "c", "image": "pause"}], "terminationGracePeriodSeconds": 1}
        template = {"metadata": {"labels": {"app": app}}, "spec": pod}
        world.make(
            resource,
            app,
            NAMESPACE,
            spec={"selector": {"matchLabels": {"app": app}}, "template": template, **more},
        )
    world.runner.advance(30)


def uids(world, app):
    pods = world.call(world.api.list(PODS, NAMESPACE, labels=f"app={app}")).items
    return {pod["metadata"]["uid"] for pod in pods}


def pods_by_node(incident):
    return [(pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in incident.fault.chosen]


async def new_ready_pods(world, app, before, count):
    """Wait until so many pods are ready that did not exist before."""

    def has_come(pods):
        return (
            sum(pod["metadata"]["uid"] not in before and is_true(pod, "Ready") for pod in pods)
            == count
        )

    await wait_for_list(
        *(world.api, world.runner.clock, PODS, NAMESPACE),
        labels=f"app={app}",
        condition=has_come,
        timeout=60,
    )
    return world.journal.now


@pytest.mark.parametrize("app", ["agent", "controller"])
def test_incident_lasts_until_the_replacements_are_ready(app):
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        before = uids(world, app)
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy(f"app={app}", 2))
        )
        assert (incident.effects, incident.is_on) == ([], True), "they have a second to go"
        assert len(incident.targets["pods"]) == 2
        came = world.call(new_ready_pods(world, app, before, 2))
        world.runner.advance(0)

        assert incident.removed_at == came > incident.started_at
        assert incident.effects == [
            f"the pod {name} on {node} is gone" for name, node in pods_by_node(incident)
        ]
        assert world.journal_records("pods-missing") == []


def pod(uid, node, kind="DaemonSet", *, ready=True):
    owners = [{"kind": kind, "name": "theirs", "uid": "owner", "controller": True}] if kind else []
    spec = {"nodeName": node} if node else {}
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return {
        "metadata": {"uid": uid, "name": uid, "ownerReferences": owners},
        "spec": spec,
        "status": status,
    }


@pytest.mark.parametrize(
    ("lost", "pods", "over"),
    [
        (pod("old", "node-2"), [pod("new", "node-1")], False),
        (pod("old", "node-2"), [pod("new", "node-2", ready=False)], False),
        (pod("old", "node-2"), [pod("new", "node-2")], True),
        (pod("old", ""), [], True),
        (pod("old", "node-2", ""), [], True),
        (pod("old", "node-2", "ReplicaSet"), [pod("its like", "node-1", "ReplicaSet")], False),
        (pod("old", "node-2", "ReplicaSet"), [pod("new", "node-1", "ReplicaSet")], True),
    ],
)
def test_replacement_pod_is_expected_on_the_same_node(lost, pods, over):
    fault = PodDeletion("app=theirs", 1, chosen=(lost,), before=frozenset({"old", "its like"}))
    assert fault._replaced(pods) is over


def test_pods_down_on_other_nodes_are_not_awaited():
    with chaos_cluster(nodes=4) as world:
        workloads(world)
        world.cluster.site.machines.power_off("node-1")
        world.runner.advance(60)
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=controller", 1))
        )
        while pods_by_node(incident)[0][1] == "node-1":
            incident = world.call(
                cause_incident(world.context, manual_faults.pod_destroy("app=controller", 1))
            )
        world.runner.advance(20)

        assert incident.removed_at - incident.started_at < 15


def test_controller_pod_is_not_bound_to_a_node():
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=controller", 3))
        )
        assert (len(incident.targets["pods"]), incident.targets["nodes"]) == (3, [])


def test_pod_on_a_down_node_is_awaited_until_the_node_is_back():
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        world.cluster.site.machines.power_off("node-1")
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2))
        )
        world.runner.advance(100)
        assert incident.is_on
        world.cluster.site.machines.power_on("node-1")
        world.runner.advance(60)

        assert 100 < incident.removed_at - incident.started_at < 160


def test_pod_on_a_down_node_is_awaited_for_a_limited_time():
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        world.cluster.site.machines.power_off("node-1")
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2))
        )
        world.runner.advance(301)

        assert incident.removed_at == incident.started_at + 300
        assert incident.effects == [
            f"the pod {name} on {node} is gone"
            for name, node in pods_by_node(incident)
            if node == "node-2"
        ]
        assert [data["waited"] for _, _, data in world.journal_records("pods-missing")] == [300]


def test_no_matching_pods_is_a_failed_incident():
    with chaos_cluster() as world:
        world.make(NAMESPACES, NAMESPACE)
        with pytest.raises(
            FaultImpossible,
            match="no pod with app=agent in the namespace 'd8-sds-replicated-volume'",
        ):
            world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent")))


def test_count_larger_than_the_number_of_pods_is_refused():
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        with pytest.raises(
            FaultImpossible,
            match=(
                r"are 2 pods with app=agent in the namespace 'd8-sds-replicated-volume' to be "
                r"destroyed, and not 3$"
            ),
        ):
            world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent", 3)))
        world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent", 1)))
        with pytest.raises(
            FaultImpossible, match=r"is one pod with .* to be destroyed, and not 2: 1 go already$"
        ):
            world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2)))
        assert len(world.journal_records("incident-started")) == 1


def test_terminating_pods_are_not_destroyed():
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        world.cluster.site.machines.power_off("node-1")
        first = world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2)))
        world.runner.advance(30)
        second = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=agent", 1))
        )
        (lives,) = second.targets["nodes"]
        with pytest.raises(
            FaultImpossible, match=r"no pod with app=agent .* to be destroyed: 2 go already"
        ):
            world.call(cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2)))

        assert (sorted(first.targets["nodes"]), lives) == (["node-1", "node-2"], "node-2")


def test_pod_deleted_before_its_destruction_is_no_effect(monkeypatch):
    with chaos_cluster(nodes=2) as world:
        workloads(world)
        aim = PodDeletion.aim

        async def too_late(self, clients):
            aimed = await aim(self, clients)
            for each in aimed.chosen:
                await world.api.delete(PODS, each["metadata"]["name"], NAMESPACE, grace_period=0)
            return aimed

        monkeypatch.setattr(PodDeletion, "aim", too_late)
        incident = world.call(
            cause_incident(world.context, manual_faults.pod_destroy("app=agent", 2))
        )
        world.runner.advance(30)

        assert (incident.is_on, incident.effects) == (False, [])
        assert [
            data["pod"] for _, _, data in world.journal_records("already-gone")
        ] == incident.targets["pods"]


def test_without_label_agents_and_controllers_are_destroyed_independently():
    with chaos_cluster(nodes=3) as world:
        workloads(world)
        stop = Signal()

        async def play():
            task = world.runner.loop.create_task(
                PodDestroy(period=(30, 30)).run(world.context, stop)
            )
            await world.runner.clock.sleep(301)
            stop.give()
            await task

        world.call(play())
        counts = {"agent": set(), "controller": set()}
        for _, _, data in world.journal_records("incident-started"):
            pods = data["targets"]["pods"]
            counts[pods[0].partition("-")[0]].add(len(pods))
        assert counts == {"agent": {1, 2}, "controller": {1, 2, 3}}
        assert (
            len(world.journal_records("incident-started"))
            == len(world.journal_records("incident-ended"))
            == 20
        )


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="found"):
        PodDestroy(label="a=(")
