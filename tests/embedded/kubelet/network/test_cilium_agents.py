import logging

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.kubelet.machines import Machines
from pytest_kscen.embedded.kubelet.network import Flow, Network
from pytest_kscen.kube.informer import Informers
from pytest_kscen.models.cilium import agents as module
from pytest_kscen.models.cilium.agents import CiliumAgents
from pytest_kscen.models.virtualization.assembly import install_definitions
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, NAMESPACES, PODS
from pytest_kscen.objects.virtualization import VM_LABEL

NS = "vms"
DENY_B = {
    "ingress": [{"fromEndpoints": [{}]}],
    "ingressDeny": [{"fromEndpoints": [{"matchLabels": {VM_LABEL: "b"}}]}],
}


class Parent:
    """API of a parent with the pods of machines, and the agents that watch it."""

    def __init__(self, api, runner):
        self.api, self.runner = api, runner
        runner.call(install_definitions(api, runner.clock))
        runner.call(
            api.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}
            )
        )
        machines = Machines(Chance("network").stream("machines"))
        self.uids = {}
        for name in "abc":
            machines.add(name)
            self.pod(name)
        self.machines, self.network = machines, Network(machines)
        informers = Informers(api, runner.clock)
        runner.start(CiliumAgents(informers, self.network, NS).run(), "cilium")
        runner.start(informers.run(), "informers")
        runner.advance(2)
        self.changes = 0
        self.network.on_change(self._count)

    def _count(self):
        self.changes += 1

    def pod(self, machine, *, name=None, namespace=NS, **labels):
        metadata = {
            "name": name or machine,
            "namespace": namespace,
            "labels": {VM_LABEL: machine, **labels},
        }
        spec = {"containers": [{"name": "c", "image": "x"}]}
        return self.runner.call(
            self.api.create(
                PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            )
        )

    def cut(self, name="cut", machine="a", **spec):
        body = {"endpointSelector": {"matchLabels": {VM_LABEL: machine}}, **(spec or DENY_B)}
        resource = CILIUM_NETWORK_POLICIES
        obj = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": NS},
            "spec": body,
        }
        return self.runner.call(self.api.create(resource, obj))

    def mend(self, name="cut"):
        self.runner.call(self.api.delete(CILIUM_NETWORK_POLICIES, name, NS))

    def passes(self, source, target, protocol="TCP", port=7000):
        return not self.network.impairment(Flow(source, target, protocol, port)).blocked


@pytest.fixture
def parent(api, runner):
    return Parent(api, runner)


def test_policy_takes_effect_and_ends_after_a_second(parent):
    parent.cut()
    parent.runner.advance(0.99)
    assert parent.passes("b", "a")
    parent.runner.advance(0.02)
    assert not parent.passes("b", "a")
    assert parent.passes("a", "b")
    assert parent.passes("c", "a")
    parent.mend()
    parent.runner.advance(0.99)
    assert not parent.passes("b", "a")
    parent.runner.advance(0.02)
    assert parent.passes("b", "a")
    assert parent.changes == 2


def test_changed_policy_is_reloaded(parent):
    made = parent.cut()
    changed = {**made, "spec": {**made["spec"], "ingressDeny": []}}
    parent.runner.call(parent.api.update(CILIUM_NETWORK_POLICIES, changed))
    parent.runner.advance(1.1)
    assert parent.passes("b", "a")


def test_other_machines_and_namespaces_are_unaffected(parent):
    parent.machines.add("d")
    parent.cut("all", "d", ingress=[{}])
    parent.pod("d", namespace="default")
    parent.runner.advance(2)
    assert parent.passes("b", "d")
    parent.pod("d")
    parent.runner.advance(2)
    assert not parent.passes("b", "d")


def test_latest_pod_of_machine_counts(parent):
    parent.cut("by-label", endpointSelector={"matchLabels": {"generation": "2"}}, ingress=[{}])
    parent.runner.advance(2)
    assert parent.passes("b", "a")
    parent.pod("a", name="a-2", generation="2")
    parent.runner.advance(2)
    assert not parent.passes("b", "a")
    parent.runner.call(parent.api.delete(PODS, "a-2", NS, grace_period=0))
    parent.runner.advance(2)
    assert parent.passes("b", "a")


def test_namespaces_are_selected_by_labels(parent):
    peers = {"matchLabels": {"io.cilium.k8s.namespace.labels.team": "storage"}}
    parent.cut(ingress=[{"fromEndpoints": [peers]}])
    parent.runner.advance(2)
    assert not parent.passes("b", "a")
    parent.runner.call(
        parent.api.patch(NAMESPACES, NS, {"metadata": {"labels": {"team": "storage"}}})
    )
    parent.runner.advance(2)
    assert parent.passes("b", "a")


def test_invalid_policy_is_ignored_and_reported(parent, caplog):
    with caplog.at_level(logging.WARNING):
        parent.cut("odd", ingress=[{"fromCIDR": ["300.0.0.0/8"]}])
        parent.runner.advance(2)
    assert parent.passes("b", "a")
    assert "policy vms/odd is invalid and has no effect" in caplog.text


def test_decisions_are_cached_until_change(parent, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "may_pass", lambda *flow: asked.append(flow) or True)
    parent.cut()
    parent.runner.advance(2)
    for _ in range(10):
        parent.passes("b", "a")
    assert len(asked) == 1
    pod = parent.runner.call(parent.api.get(PODS, "b", NS))
    parent.runner.call(
        parent.api.update(PODS, {**pod, "status": {"phase": "Running"}}, subresource="status")
    )
    parent.runner.advance(2)
    parent.passes("b", "a")
    assert len(asked) == 1


def test_powered_off_machine_is_unreachable(parent):
    parent.machines.power_off("a")
    assert not parent.passes("b", "a")
