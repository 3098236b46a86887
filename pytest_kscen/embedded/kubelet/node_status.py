"""Status and labels that a kubelet reports for its node, and the timer of all heartbeats.

The functions are pure: from the machine and the present Node to the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kscen.embedded.kubelet.images.context import canonical_image
from pytest_kscen.embedded.kubelet.machines import node_capacity
from pytest_kscen.embedded.kubelet.timings import LEASE_PERIOD

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.child_tasks import ChildTasks
    from pytest_kscen.embedded.kubelet.machines import Machine
    from pytest_kscen.objects.resources import Obj


KUBELET_VERSION = "v1.36.4"
IMAGE_SIZE = 10_000_000
CONDITIONS = {
    "MemoryPressure": (
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


def standard_labels(machine: Machine) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        **machine.labels,
    }


def new_node(machine: Machine, now: str) -> Obj:
    node: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": standard_labels(machine)},
        "spec": {"podCIDR": machine.pod_network, "podCIDRs": [machine.pod_network]},
    }
    return {**node, "status": status_of(machine, node, now)}


def status_of(machine: Machine, node: Obj, now: str) -> Obj:
    """Return the node's status. Fields of other writers and values the Node was created with
    are kept.
    """
    old = node.get("status") or {}
    capacity, allocatable = node_capacity(node, machine)
    by_type = {condition["type"]: condition for condition in old.get("conditions") or ()}
    foreign = [condition for type_, condition in by_type.items() if type_ not in CONDITIONS]
    images = [
        {"names": [canonical_image(image)], "sizeBytes": IMAGE_SIZE}
        for image in sorted(machine.images)
    ]
    return {
        **old,
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": [
            *foreign,
            *(_condition(type_, by_type.get(type_), now) for type_ in CONDITIONS),
        ],
        "addresses": old.get("addresses")
        or [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": machine.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": machine.machine_id,
            "systemUUID": machine.machine_id,
            "bootID": machine.boot_id,
            "kernelVersion": "6.12.0-kscen",
            "osImage": "pytest-kscen",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        **({"images": images} if images else {}),
    }


def is_up_to_date(machine: Machine, node: Obj) -> bool:
    """Return True if the Node shows what its kubelet would report, apart from heartbeat times."""
    status = node["status"]
    reported = {
        condition["type"]: condition["status"] for condition in status.get("conditions") or ()
    }
    return len(status.get("images") or ()) == len(machine.images) and all(
        reported.get(type_) == wanted for type_, (wanted, _, _) in CONDITIONS.items()
    )


def _condition(type_: str, old: Obj | None, now: str) -> Obj:
    status, reason, message = CONDITIONS[type_]
    since = old.get("lastTransitionTime", now) if old and old["status"] == status else now
    return {
        "type": type_,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


class HeartbeatSource(Protocol):
    async def heartbeat(self) -> None: ...


class Heartbeats:
    """Timer of the heartbeats of all kubelets. Those that joined at the same instant share one
    background task.
    """

    def __init__(self, clock: Clock, child_tasks: ChildTasks) -> None:
        self._clock = clock
        self._child_tasks = child_tasks
        self._groups: dict[float, dict[HeartbeatSource, None]] = {}
        self._phases: dict[HeartbeatSource, float] = {}
        self._tasks: dict[float, asyncio.Task[None]] = {}

    def join(self, source: HeartbeatSource) -> None:
        """Call the source's heartbeat every ten seconds, for the first time after ten seconds."""
        phase = self._phases[source] = self._clock.now() % LEASE_PERIOD
        group = self._groups.setdefault(phase, {})
        group[source] = None
        if phase not in self._tasks:
            self._tasks[phase] = self._child_tasks.start(
                self._run_group(phase, group), f"heartbeats at {phase:g} s"
            )

    def leave(self, source: HeartbeatSource) -> None:
        phase = self._phases.pop(source, None)
        if phase is not None:
            self._groups[phase].pop(source, None)

    async def _run_group(self, phase: float, group: dict[HeartbeatSource, None]) -> None:
        due = self._clock.now() + LEASE_PERIOD
        while group:
            await self._clock.sleep(due - self._clock.now(), background=True)
            due += LEASE_PERIOD
            for source in list(group):
                if source in group:
                    await source.heartbeat()
        del self._groups[phase], self._tasks[phase]
