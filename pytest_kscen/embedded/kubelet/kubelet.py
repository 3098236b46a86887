"""Kubelet of one machine: reports its node, admits the pods bound to it, and reports their
statuses.

Created by `nodes.Kubelets`, which passes events of the shared informers. Pods and containers
have workers of their own.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.kubelet.machines import node_capacity
from pytest_kscen.embedded.kubelet.node_status import (
    is_up_to_date,
    new_node,
    standard_labels,
    status_of,
)
from pytest_kscen.embedded.kubelet.pod import PodWorker
from pytest_kscen.embedded.kubelet.pod_status import PodFailureReason
from pytest_kscen.embedded.kubelet.timings import LEASE_DURATION, STATUS_PERIOD
from pytest_kscen.embedded.node_matching import first_untolerated_taint, node_matches_pod, taints_of
from pytest_kscen.embedded.pod_resources import NodeUsage, allocatable_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists, ApiError, Conflict, NotFound
from pytest_kscen.objects.resources import LEASES, NODES, PODS

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.child_tasks import ChildTasks
    from pytest_kscen.embedded.kubelet.images import Images
    from pytest_kscen.embedded.kubelet.logs import Logs
    from pytest_kscen.embedded.kubelet.machines import Machine
    from pytest_kscen.embedded.kubelet.network.hosts import NetworkHosts
    from pytest_kscen.embedded.kubelet.volumes import Mounter
    from pytest_kscen.embedded.pod_resources import Amounts, PodDemand
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.events import EventRecorder
    from pytest_kscen.objects.resources import Obj


BUILTIN_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")
PREDICATE_MESSAGES = {
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "TaintToleration": "node(s) had taints that the pod didn't tolerate",
}


def admission_failure(
    pod: Obj, demand: PodDemand, node: Obj, usage: NodeUsage, allocatable: Amounts
) -> PodFailureReason | None:
    """Return the reason for which the kubelet rejects a pod, with the real kubelet's words, or
    None.

    The last check before a pod runs; it catches conflicts that no scheduler has seen.
    """
    wanted = (pod["spec"].get("os") or {}).get("name", "linux")
    if wanted != "linux":
        return PodFailureReason(
            "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        )
    for shortage in usage.shortages(demand, allocatable):
        if shortage.resource in BUILTIN_RESOURCES or shortage.resource in allocatable:
            numbers = (
                f"requested: {shortage.requested}, used: {shortage.used}, capacity: "
                f"{shortage.capacity}"
            )
            message = f"Node didn't have enough resource: {shortage.resource}, {numbers}"
            return PodFailureReason(f"OutOf{shortage.resource}", message)
    if not node_matches_pod(pod, node):
        return _predicate_failure("NodeAffinity")
    if usage.ports_clash(demand):
        return _predicate_failure("NodePorts")
    if first_untolerated_taint(
        taints_of(node), pod["spec"].get("tolerations") or (), ("NoExecute",)
    ):
        return _predicate_failure("TaintToleration")
    return None


def _predicate_failure(predicate: str) -> PodFailureReason:
    return PodFailureReason(
        predicate, f"Predicate {predicate} failed: {PREDICATE_MESSAGES[predicate]}"
    )


logger = logging.getLogger(__name__)

RETRY_DELAY, REFUSED_RETRY_DELAY = 1.0, 10.0
RETRYABLE_CODES = (429, 500, 503, 504)


class StatusManager:
    """Write the changed statuses of one kubelet's pods, the newest state only, while the machine is
    reachable.

    One task per kubelet, alive only while there is something to write. A refused status is retried
    later; a conflict is repeated on the newest version.
    """

    def __init__(self, host: Kubelet) -> None:
        self._kubelet = host
        self._changed: dict[PodWorker, None] = {}
        self._task: asyncio.Task[None] | None = None

    def enqueue(self, pod: PodWorker) -> None:
        self._changed[pod] = None
        self.flush()

    def flush(self) -> None:
        """Start writing the pending statuses if the API server can be reached. Called after
        each change and when the machine is reachable again.
        """
        if (
            self._changed
            and self._kubelet.machine.reachable
            and (self._task is None or self._task.done())
        ):
            self._task = self._kubelet.child_tasks.start(
                self._write_all(), f"pod statuses of {self._kubelet.machine.name}"
            )

    def clear(self) -> None:
        self._changed.clear()

    async def _write_all(self) -> None:
        await self._kubelet.clock.sleep(0)  # one write for all changes of this instant
        while self._changed and self._kubelet.machine.reachable:
            pod = next(iter(self._changed))
            del self._changed[pod]
            try:
                await self._write(pod)
            except (ApiError, OSError) as error:
                logger.warning(
                    "%s: the status of %s/%s: %s",
                    self._kubelet.machine.name,
                    pod.namespace,
                    pod.name,
                    error,
                )
                if is_retryable(error):
                    self._changed[pod] = None
                    await self._kubelet.clock.sleep(RETRY_DELAY)
                else:
                    self._kubelet.child_tasks.start(
                        self._enqueue_later(pod), f"what was refused of {pod.namespace}/{pod.name}"
                    )

    async def _enqueue_later(self, pod: PodWorker) -> None:
        """Retry a refused status after 10 s, as the real kubelet's periodic synchronisation
        does. A pod that is gone by then is skipped.
        """
        await self._kubelet.clock.sleep(REFUSED_RETRY_DELAY, background=True)
        if self._kubelet.has_worker(pod):
            self.enqueue(pod)

    async def _write(self, worker: PodWorker) -> None:
        if not self._kubelet.has_worker(worker):
            return
        status = worker.status()
        try:
            if status != worker.pod.get("status"):
                live = await self._kubelet.api.update(
                    PODS, {**worker.pod, "status": status}, subresource="status"
                )
                worker.pod_changed(live, is_written=live["status"] == status)
            if worker.is_done and worker.pod["metadata"].get("deletionTimestamp"):
                metadata = worker.pod["metadata"]
                await self._kubelet.api.delete(
                    PODS,
                    worker.name,
                    worker.namespace,
                    grace_period=0,
                    precondition_uid=metadata["uid"],
                )
        except NotFound:
            self._kubelet.remove_worker(worker)
        except Conflict:
            live = await self._kubelet.api.get(PODS, worker.name, worker.namespace)
            if live["metadata"]["uid"] != worker.uid:
                self._kubelet.remove_worker(worker)
            else:
                worker.pod_changed(live)
                self._changed[worker] = None


def is_retryable(error: ApiError | OSError) -> bool:
    """Return True if the same request may succeed later: no answer, too many requests, or a
    server error.
    """
    return not isinstance(error, ApiError) or error.code in RETRYABLE_CODES


LEASE_NAMESPACE = "kube-node-lease"


class Kubelet:
    """Agent of one machine. Owns the machine's pods, its Node's status and its lease.

    Methods are called by `nodes.Kubelets` in event order; none may be called while the machine is
    unreachable except `halt`.
    """

    def __init__(self, services: KubeletServices, machine: Machine) -> None:
        self.machine = machine
        self.api = services.api
        self.clock = services.clock
        self.images = services.images
        self.logs = services.logs
        self.mounter = services.mounter
        self.child_tasks = services.child_tasks
        self.hosts = services.hosts
        self.recorder = services.recorder.on(machine.name)
        self.usage = NodeUsage()
        self.status_manager = StatusManager(self)
        self.node: Obj = {}
        self._pods: dict[str, PodWorker] = {}
        self._lease: Obj = {}
        self._heartbeats = 0
        self._checked: tuple[Obj, int] = ({}, 0)
        self._allocatable_amounts: tuple[object, Amounts] = (None, {})

    async def register(self) -> None:
        try:
            node = await self.api.create(NODES, new_node(self.machine, self.timestamp()))
        except AlreadyExists:
            node = await self.api.get(NODES, self.machine.name)
        await self.take_over_node(node, since_now=True)

    async def take_over_node(self, node: Obj, *, since_now: bool = False) -> None:
        """Report for this Node from now on: it is new, was created by another client, or the
        machine was unreachable.

        `since_now` is set if the kubelet has just registered it.
        """
        self.node, self._lease = node, {}
        self.machine.set_pod_network((node.get("spec") or {}).get("podCIDR", ""))
        boot = ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID")
        if since_now or boot != self.machine.boot_id:
            self.recorder.normal(node, "Starting", "Starting kubelet.")
        if boot and boot != self.machine.boot_id:
            message = f"Node {self.machine.name} has been rebooted, boot id: {self.machine.boot_id}"
            self.recorder.warning(node, "Rebooted", message)
        missing = {
            key: value
            for key, value in standard_labels(self.machine).items()
            if key not in (node["metadata"].get("labels") or {})
        }
        if missing:
            self.node = await self.api.patch(
                NODES, self.machine.name, {"metadata": {"labels": missing}}
            )
        was_ready = is_true(node, "Ready") and not since_now
        await self.write_node_status()
        if not was_ready:
            message = f"Node {self.machine.name} status is now: NodeReady"
            self.recorder.normal(self.node, "NodeReady", message)
        await self._renew()

    async def write_node_status(self) -> None:
        """Write the node's status unless it is unchanged; up to three attempts on conflicts."""
        for _ in range(3):
            status = status_of(self.machine, self.node, self.timestamp())
            if status == self.node.get("status"):
                return
            try:
                self.node = await self.api.update(
                    NODES, {**self.node, "status": status}, subresource="status"
                )
            except Conflict:
                self.node = await self.api.get(NODES, self.machine.name)
            else:
                return

    async def heartbeat(self) -> None:
        """Renew the lease. Write the status as well if it has changed or every `STATUS_PERIOD`
        leases.
        """
        self._heartbeats += 1
        if self._heartbeats % STATUS_PERIOD == 0 or not self._is_node_current():
            with contextlib.suppress(ApiError, OSError):  # retried with the next heartbeat
                await self.write_node_status()
        await self._renew()

    def _is_node_current(self) -> bool:
        """Return True if the Node shows what its kubelet would report. A version that was
        checked is not checked again.
        """
        checked = self.node["status"], len(self.machine.images)
        if self._checked[0] is checked[0] and self._checked[1] == checked[1]:
            return True
        self._checked = checked if is_up_to_date(self.machine, self.node) else ({}, 0)
        return self._checked is checked

    async def _renew(self) -> None:
        """Renew the lease as last seen. After a failure the next heartbeat reads it again."""
        name, now = self.machine.name, timestamp_of(self.clock.now(), micro=True)
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION, "renewTime": now}
        try:
            try:
                lease = self._lease or await self.api.get(LEASES, name, LEASE_NAMESPACE)
            except NotFound:
                uid = self.node["metadata"]["uid"]
                owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
                metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
                new = {
                    "apiVersion": LEASES.api_version,
                    "kind": "Lease",
                    "metadata": metadata,
                    "spec": spec,
                }
                self._lease = await self.api.create(LEASES, new)
            else:
                self._lease = await self.api.update(LEASES, {**lease, "spec": spec})
        except (ApiError, OSError):
            self._lease = {}

    def update_node(self, node: Obj) -> None:
        self.node = node

    @property
    def address(self) -> str:
        for address in (self.node.get("status") or {}).get("addresses") or ():
            if address["type"] == "InternalIP":
                return str(address["address"])
        return self.machine.address

    @property
    def allocatable(self) -> Obj:
        return node_capacity(self.node, self.machine)[1]

    def timestamp(self) -> str:
        return timestamp_of(self.clock.now())

    def halt(self) -> None:
        """Stop all pods without any report: the machine has lost its power. Their statuses stay
        as they are until power returns.
        """
        for worker in self._pods.values():
            worker.halt()
        self._pods.clear()
        self.status_manager.clear()

    def pod_changed(self, pod: Obj) -> None:
        """Process the present version of a pod bound to this node; an unknown pod is admitted.
        Called in event order.
        """
        worker = self._pods.get(pod["metadata"]["uid"])
        if worker is None:
            worker = self._pods[pod["metadata"]["uid"]] = PodWorker(self, pod)
            worker.admit()
        else:
            worker.pod_changed(pod)

    def pod_deleted(self, pod: Obj) -> None:
        """Stop the worker of a pod that the API server no longer has. Its containers get a
        short grace period.
        """
        if worker := self._pods.pop(pod["metadata"]["uid"], None):
            worker.pod_deleted()

    def remove_worker(self, worker: PodWorker) -> None:
        self.pod_deleted(worker.pod)

    def has_worker(self, worker: PodWorker) -> bool:
        return self._pods.get(worker.uid) is worker

    def resync(self, pods: list[Obj]) -> None:
        """Process all pods of the node after the machine was unreachable, and write the pending
        statuses.
        """
        present = {pod["metadata"]["uid"] for pod in pods}
        for worker in [worker for uid, worker in self._pods.items() if uid not in present]:
            self.remove_worker(worker)
        for pod in pods:
            self.pod_changed(pod)
        self.status_manager.flush()

    def worker_of(self, uid: str) -> PodWorker | None:
        return self._pods.get(uid)

    def worker_at(self, address: str) -> PodWorker | None:
        return next(
            (
                worker
                for worker in self._pods.values()
                if worker.address == address and not worker.is_done
            ),
            None,
        )

    def check_admission(self, worker: PodWorker) -> PodFailureReason | None:
        status = self.node.get("status")
        if self._allocatable_amounts[0] is not status:
            self._allocatable_amounts = (
                status,
                allocatable_of({"status": {"allocatable": self.allocatable}}),
            )
        return admission_failure(
            worker.pod, worker.demand, self.node, self.usage, self._allocatable_amounts[1]
        )


@dataclass(frozen=True, slots=True)
class KubeletServices:
    """Objects that all kubelets of a cluster share. Built once by `nodes.Kubelets`: API client,
    clock, recorder, images, logs, mounter, child tasks, hosts.
    """

    api: Api
    clock: Clock
    recorder: EventRecorder
    images: Images
    logs: Logs
    mounter: Mounter
    child_tasks: ChildTasks
    hosts: NetworkHosts
