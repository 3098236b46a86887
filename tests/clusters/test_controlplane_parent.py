from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.objects.resources import DAEMON_SETS, NODES, PODS
from pytest_kscen.objects.virtualization import (
    VIRTUAL_MACHINE_OPERATIONS,
    VIRTUAL_MACHINES,
    VM_LABEL,
)

pytestmark = pytest.mark.controlplane
PARENT = ["parent-1", "parent-2", "parent-3"]


class Place:
    """A real control plane in both roles."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.parent = cluster.parent()
        self.api = self.parent.api_for("test")

    def call(self, coroutine):
        return self.cluster.runner.call(coroutine)

    def nodes_of(self, labels, namespace):
        return sorted(
            pod["spec"].get("nodeName", "")
            for pod in self.call(self.api.list(PODS, namespace, labels=labels)).items
        )

    def phase(self):
        return self.call(self.api.get(VIRTUAL_MACHINES, "node-1", "vms"))["status"]["phase"]

    def operate(self, kind, **spec):
        body = {
            "apiVersion": VIRTUAL_MACHINE_OPERATIONS.api_version,
            "kind": VIRTUAL_MACHINE_OPERATIONS.kind,
            "metadata": {"name": kind.lower()},
            "spec": {"type": kind, "virtualMachineName": "node-1", **spec},
        }
        self.call(self.api.create(VIRTUAL_MACHINE_OPERATIONS, body, "vms"))

    def is_completed(self, kind):
        operation = self.call(self.api.get(VIRTUAL_MACHINE_OPERATIONS, kind.lower(), "vms"))
        return operation.get("status", {}).get("phase") == "Completed"


@pytest.fixture(scope="module")
def place():
    with contextlib.closing(ControlPlaneCluster("parent", nodes=2)) as cluster:
        yield Place(cluster)


def test_the_same_server_has_nodes_for_machines_alone(place):
    assert (place.parent.namespace, place.parent.owned) == ("vms", True)
    nodes = place.call(place.api.list(NODES)).items
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2", *PARENT]
    assert [bool(node["spec"].get("taints")) for node in nodes] == [False, False, True, True, True]
    assert set(place.nodes_of(VM_LABEL, "vms")) < set(PARENT)
    machines = place.call(place.api.list(VIRTUAL_MACHINES, "vms")).items
    assert [vm["metadata"]["name"] for vm in machines] == ["node-1", "node-2"]
    assert [vm["status"]["ipAddress"] for vm in machines] == ["172.18.0.2", "172.18.0.3"]


def test_what_the_nested_cluster_runs_keeps_off_them(place):
    labels = {"app": "agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    place.call(
        place.api.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec}, "default")
    )
    place.cluster.until(
        lambda: place.nodes_of("app=agent", "default") == ["node-1", "node-2"], "30s"
    )
    place.cluster.advance(1)
    assert place.nodes_of("app=agent", "default") == ["node-1", "node-2"]


def test_a_machine_is_stopped_and_started(place):
    machine = place.cluster.site.machines["node-1"]
    place.operate("Stop", force=True)
    place.cluster.until(lambda: place.is_completed("Stop"), "30s")
    assert (place.phase(), machine.powered) == ("Stopped", False)
    place.operate("Start")
    place.cluster.until(lambda: place.is_completed("Start"), "30s")
    assert (place.phase(), machine.powered) == ("Running", False)
