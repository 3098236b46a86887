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


class ParentTest:
    """Real control plane that is both the tested cluster and its parent."""

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
def parent_test():
    with contextlib.closing(ControlPlaneCluster("parent", nodes=2)) as cluster:
        yield ParentTest(cluster)


def test_parent_shares_server_and_adds_vm_hosts(parent_test):
    assert (parent_test.parent.namespace, parent_test.parent.owned) == ("vms", True)
    nodes = parent_test.call(parent_test.api.list(NODES)).items
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2", *PARENT]
    assert [bool(node["spec"].get("taints")) for node in nodes] == [False, False, True, True, True]
    assert set(parent_test.nodes_of(VM_LABEL, "vms")) < set(PARENT)
    machines = parent_test.call(parent_test.api.list(VIRTUAL_MACHINES, "vms")).items
    assert [vm["metadata"]["name"] for vm in machines] == ["node-1", "node-2"]
    assert [vm["status"]["ipAddress"] for vm in machines] == ["172.18.0.2", "172.18.0.3"]


def test_workloads_avoid_vm_hosts(parent_test):
    labels = {"app": "agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    parent_test.call(
        parent_test.api.create(
            DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec}, "default"
        )
    )
    parent_test.cluster.until(
        lambda: parent_test.nodes_of("app=agent", "default") == ["node-1", "node-2"], "30s"
    )
    parent_test.cluster.advance(1)
    assert parent_test.nodes_of("app=agent", "default") == ["node-1", "node-2"]


def test_virtual_machine_is_stopped_and_started(parent_test):
    machine = parent_test.cluster.site.machines["node-1"]
    parent_test.operate("Stop", force=True)
    parent_test.cluster.until(lambda: parent_test.is_completed("Stop"), "30s")
    assert (parent_test.phase(), machine.powered) == ("Stopped", False)
    parent_test.operate("Start")
    parent_test.cluster.until(lambda: parent_test.is_completed("Start"), "30s")
    assert (parent_test.phase(), machine.powered) == ("Running", False)
