from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.clusters import ClusterRefused, open_cluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.models.virtualization import assembly
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import EVENTS, NODES, PODS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES


@pytest.fixture
def cluster():
    with contextlib.closing(EmbeddedCluster("parents", nodes=2)) as cluster:
        yield cluster


def names(cluster, api, resource, namespace=""):
    return [
        obj["metadata"]["name"] for obj in cluster.runner.call(api.list(resource, namespace)).items
    ]


def test_parent_is_separate_server_on_same_clock(cluster):
    parent = cluster.parent()
    api = parent.api_for("test")
    assert (parent.namespace, parent.owned) == ("vms", True)
    assert names(cluster, api, VIRTUAL_MACHINES, "vms") == ["node-1", "node-2"]
    assert names(cluster, api, NODES) == ["parent-1", "parent-2", "parent-3"]
    assert names(cluster, cluster.api("test"), NODES) == ["node-1", "node-2"]
    with pytest.raises(NotFound):
        names(cluster, cluster.api("test"), VIRTUAL_MACHINES)


def test_parent_is_opened_once_on_demand(cluster):
    assert cluster._host is None
    assert cluster.parent() is cluster.parent()


def test_caller_selects_namespace(cluster):
    assert names(
        cluster, cluster.parent(namespace="default").api_for("test"), VIRTUAL_MACHINES, "default"
    ) == ["node-1", "node-2"]


def test_second_namespace_is_refused(cluster):
    assert cluster.parent(namespace="vms") is cluster.parent()
    with pytest.raises(
        ClusterRefused, match="open already, with virtual machines in 'vms', not in 'others'"
    ):
        cluster.parent(namespace="others")


def test_namespace_given_at_open_is_used():
    with contextlib.closing(
        open_cluster("embedded", seed="1", nodes=0, vm_namespace="machines")
    ) as cluster:
        assert cluster.parent().namespace == "machines"


def test_opening_parent_keeps_nodes(cluster):
    ready = cluster.runner.call(cluster.api("test").list(NODES)).items
    began = cluster.now
    cluster.parent()
    assert cluster.now - began == 1.5
    assert cluster.runner.call(cluster.api("test").list(NODES)).items == ready


def test_host_addresses_differ_from_node_addresses(cluster):
    api = cluster.parent().api_for("test")
    hosts = [
        node["status"]["addresses"][0]["address"]
        for node in cluster.runner.call(api.list(NODES)).items
    ]
    assert hosts == ["172.19.0.2", "172.19.0.3", "172.19.0.4"]


def test_parent_does_not_change_cluster_draws():
    def story(*, with_parent):
        with contextlib.closing(EmbeddedCluster("same", nodes=2)) as cluster:
            if with_parent:
                cluster.parent()
            else:
                cluster.advance(1.5)
            api, call = cluster.api("test"), cluster.runner.call
            pod = {
                "metadata": {"generateName": "p-"},
                "spec": {"containers": [{"name": "c", "image": "app:1"}]},
            }
            for _ in range(3):
                call(api.create(PODS, pod, "default"))
            cluster.advance("5m")
            machines = [(machine.boot_id, machine.machine_id) for machine in cluster.site.machines]
            return [call(api.list(resource)).items for resource in (PODS, NODES, EVENTS)], machines

    assert story(with_parent=True) == story(with_parent=False)


def test_equal_seed_gives_equal_parent():
    def story():
        with contextlib.closing(EmbeddedCluster("same", nodes=2)) as cluster:
            api = cluster.parent().api_for("test")
            cluster.runner.call(api.delete(PODS, names(cluster, api, PODS, "vms")[0], "vms"))
            cluster.advance("3m")
            return [
                cluster.runner.call(api.list(resource)).items
                for resource in (VIRTUAL_MACHINES, PODS, EVENTS)
            ]

    assert story() == story()


def test_actors_end_before_their_servers(cluster, monkeypatch):
    def record_close(class_, name):
        def close(one):
            closed.append(name)
            original(one)

        original = class_.close
        monkeypatch.setattr(class_, "close", close)

    closed = []
    cluster.parent()
    record_close(VirtualRunner, "actors")
    record_close(ApiServer, "server")
    cluster.close()
    assert closed == ["actors", "server", "server"]


def test_close_removes_both_kubeconfigs(cluster):
    cluster.parent()
    kubeconfigs = [cluster.kubeconfig, cluster._host.kubeconfig]
    assert cluster._host.client
    cluster.close()
    assert not any(path.exists() for path in kubeconfigs)


def test_failed_parent_start_raises_timeout(cluster, monkeypatch):
    monkeypatch.setattr(assembly, "READY_TIMEOUT", 0.5)
    with pytest.raises(
        TimeoutError,
        match=r"virtualmachines\.virtualization\.deckhouse\.io vms/node-1 did not reach the awaited state",
    ):
        cluster.parent()


@pytest.mark.parametrize("nodes", [0, 40])
def test_virtual_machine_count_equals_node_count(nodes):
    with contextlib.closing(EmbeddedCluster("many", nodes=nodes)) as cluster:
        api = cluster.parent().api_for("test")
        assert len(names(cluster, api, VIRTUAL_MACHINES, "vms")) == nodes
