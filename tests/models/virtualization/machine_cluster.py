"""Cluster with its parent, for tests of virtual machines."""

from __future__ import annotations

from pytest_kscen.chance import Chance
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.models.virtualization.objects import virtual_machine
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.virtualization import (
    VIRTUAL_MACHINE_OPERATIONS,
    VIRTUAL_MACHINES,
    VM_LABEL,
)

NAMESPACE = "vms"


class MachineCluster:
    """Cluster of three nodes with its parent, and helpers for both."""

    def __init__(self, seed):
        self.cluster = EmbeddedCluster(seed, nodes=3)
        self.parent = self.cluster.parent()
        self.api = self.parent.api_for("test")
        self.machines = self.cluster.site.machines
        self.host = self.cluster._host.site.machines
        self.story = []
        self._chance = Chance(f"{seed}/parent").stream("guest vms/node-1")

    def call(self, coroutine):
        return self.cluster.runner.ask(coroutine)

    def draws(self, low, high):
        """Return the next draw of node-1's guest."""
        return self._chance.between(low, high)

    def advance(self, seconds):
        self.cluster.advance(seconds)

    # --- what happens, with exact times ---

    def watch(self, *things):
        """Record changes from now on of `phase`, `power`, `node`, or an operation's name."""
        self._began = self.cluster.now
        self._looks = {thing: self._look(thing) for thing in things}
        self._last = {thing: look() for thing, look in self._looks.items()}

    def _note_changes(self):
        for thing, look in self._looks.items():
            if (now := look()) != self._last[thing]:
                self._last[thing] = now
                self.story.append((round(self.cluster.now - self._began, 3), thing, now))

    def run_recording(self, seconds):
        """Advance the clock and record changes at every instant with an event."""
        end = self.cluster.now + seconds
        self.cluster.runner.until(lambda: self._note_changes() or self.cluster.now >= end, seconds)

    def times_by_state(self, thing):
        return {now: when for when, what, now in self.story if what == thing}

    def _look(self, thing):
        looks = {
            "phase": lambda: self.vm()["status"]["phase"],
            "power": lambda: self.machines["node-1"].powered,
            "node": lambda: condition(self.node(), "Ready")["status"],
            "agent": lambda: condition(self.vm(), "AgentReady")["status"],
        }
        return looks.get(thing) or (lambda: self.phase_of(thing))

    # --- the parent's objects ---

    def create(self, name, **spec):
        vm = virtual_machine(name, NAMESPACE)
        return self.call(self.api.create(VIRTUAL_MACHINES, {**vm, "spec": {**vm["spec"], **spec}}))

    def vm(self, name="node-1"):
        return self.call(self.api.get(VIRTUAL_MACHINES, name, NAMESPACE))

    def patch(self, name="node-1", **spec):
        self.call(self.api.patch(VIRTUAL_MACHINES, name, {"spec": spec}, NAMESPACE))

    def delete(self, name="node-1"):
        self.call(self.api.delete(VIRTUAL_MACHINES, name, NAMESPACE))

    def exists(self, name="node-1"):
        try:
            return bool(self.vm(name))
        except NotFound:
            return False

    def phase(self, name="node-1"):
        return self.vm(name)["status"]["phase"]

    def pods(self, name="node-1"):
        return self.call(self.api.list(PODS, NAMESPACE, labels=f"{VM_LABEL}={name}")).items

    def pod(self, name="node-1"):
        (pod,) = self.pods(name)
        return pod

    def node(self, name="node-1"):
        return self.call(self.cluster.api("test").get(NODES, name))

    def boot_id(self, name="node-1"):
        return self.node(name)["status"]["nodeInfo"]["bootID"]

    def operate(self, type_, vm="node-1", *, name="op", **spec):
        body = {
            "apiVersion": VIRTUAL_MACHINE_OPERATIONS.api_version,
            "kind": VIRTUAL_MACHINE_OPERATIONS.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"type": type_, "virtualMachineName": vm, **spec},
        }
        return self.call(self.api.create(VIRTUAL_MACHINE_OPERATIONS, body))

    def operation(self, name="op"):
        return self.call(self.api.get(VIRTUAL_MACHINE_OPERATIONS, name, NAMESPACE))

    def phase_of(self, name="op"):
        try:
            return self.operation(name).get("status", {}).get("phase", "")
        except NotFound:
            return ""

    def outcome(self, name="op"):
        """Return an operation's phase, and the reason and message of its end."""
        operation = self.operation(name)
        completed = condition(operation, "Completed")
        return operation["status"]["phase"], completed["reason"], completed["message"]
