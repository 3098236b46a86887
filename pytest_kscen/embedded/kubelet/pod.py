"""Run one pod on one machine: admit or reject it, mount, start, stop and forget it.

One `PodWorker` per pod, created by its kubelet. Everything that happens is kept in records; each
change requests a status write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.kubelet import timings
from pytest_kscen.embedded.kubelet.container import ContainerWorker
from pytest_kscen.embedded.kubelet.container_status import records_of
from pytest_kscen.embedded.kubelet.pod_status import (
    TERMINAL,
    PodFacts,
    PodFailureReason,
    may_restart,
    rejected_status,
    status_of,
)
from pytest_kscen.embedded.pod_resources import demand_of
from pytest_kscen.kube.cache import is_newer
from pytest_kscen.objects.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.kubelet import Kubelet
    from pytest_kscen.embedded.kubelet.volumes import VolumeContent
    from pytest_kscen.objects.resources import Obj

DEADLINE_EXCEEDED = PodFailureReason(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)


class PodWorker:
    """Run one pod from the first event its kubelet receives until the API server has deleted it.

    Tasks it starts: the run, the stop, the deadline, and one per sidecar. Containers have workers
    of their own.
    """

    __slots__ = (
        "_containers", "_deadline_task", "_facts", "_rejection", "_running_task",
        "_stopping_task", "_was_finished", "demand", "is_done", "kubelet", "mounted", "name",
        "namespace", "pod", "uid",
    )  # fmt: skip

    def __init__(self, kubelet: Kubelet, pod: Obj) -> None:
        self.kubelet = kubelet
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.name: str = pod["metadata"]["name"]
        self.namespace: str = pod["metadata"].get("namespace", "")
        self.demand = demand_of(pod)
        self.mounted: dict[str, VolumeContent] = {}
        self.is_done = False
        """True when only the pod's removal is left."""
        self._was_finished = (pod.get("status") or {}).get("phase") in TERMINAL
        self._rejection: PodFailureReason | None = None
        started = (pod.get("status") or {}).get("startTime") or kubelet.timestamp()
        self._facts = PodFacts(records_of(pod, kubelet.timestamp()), kubelet.address, started)
        self._containers = {
            record.name: ContainerWorker(self, record) for record in self._facts.records
        }
        self._running_task: asyncio.Task[None] | None = None
        self._stopping_task: asyncio.Task[None] | None = None
        self._deadline_task: asyncio.Task[None] | None = None

    def admit(self) -> None:
        """Admit the pod and start it, or reject it. A pod that finished before is only reported."""
        if self._was_finished:
            self._finish()
            return
        self._rejection = self.kubelet.check_admission(self)
        if self._rejection:
            self.kubelet.recorder.warning(self.pod, *self._rejection)
            self._finish()
            return
        self.kubelet.usage.add(self.demand)
        self._running_task = self.start(self._run(), "life")
        self._watch_deadline()
        if self.pod["metadata"].get("deletionTimestamp"):
            self.stop()
        self.changed()

    def pod_changed(self, pod: Obj, *, is_written: bool = False) -> None:
        """Process a new version of the pod; older ones are ignored.

        `is_written` is set for a version that this kubelet has just written, which needs no further
        status write.
        """
        if not is_newer(
            pod["metadata"]["resourceVersion"], self.pod["metadata"]["resourceVersion"]
        ):
            return
        old, self.pod = self.pod, pod
        if self.is_done and pod["metadata"].get("deletionGracePeriodSeconds") == 0:
            return  # only other writers' finalizers hold it
        if pod["spec"] is not old["spec"]:
            self._apply_spec_change(pod, old)
        if pod["metadata"].get("annotations") != old["metadata"].get("annotations"):
            for container in self._containers.values():
                container.annotations_changed()
        if pod["metadata"].get("deletionTimestamp"):
            self.stop()
            # A second deletion may shorten the grace period of the first.
            grace, before = (
                one["metadata"].get("deletionGracePeriodSeconds") for one in (self.pod, old)
            )
            if grace is not None and before is not None and grace < before:
                self.start(self._kill_after(grace), "kill")
        elif (pod.get("status") or {}).get("phase") in TERMINAL:
            self.stop()
        if not is_written:
            self.changed()

    def pod_deleted(self) -> None:
        """Stop the pod, or forget it if it is done: the API server no longer has it."""
        if self.is_done:
            self._forget_pod()
        else:
            self.stop(grace=timings.KILL_ORPHAN)

    def halt(self) -> None:
        """Cancel everything at once, without any report: the machine has lost its power."""
        for task in (self._running_task, self._stopping_task, self._deadline_task):
            if task:
                task.cancel()
        for record in self._facts.records:
            if record.process:
                record.process.kill()
                record.process = None
        self._release_resources()
        self._drop_references()

    def kill(self, container: str, code: int, reason: str) -> None:
        worker = self._containers.get(container)
        if worker is None or worker.record.process is None:
            raise NotFound(f'container "{container}" of pod "{self.name}" does not run')
        worker.record.process.kill(code, reason)

    def running_containers(self) -> Iterator[tuple[Obj, ContainerContext]]:
        for record in self._facts.records:
            if record.process and record.is_running:
                yield record.spec, record.process.context

    def status(self) -> Obj:
        if self._was_finished:
            return self.pod["status"]  # type: ignore[no-any-return]
        if self._rejection:
            return rejected_status(self.pod, self._rejection)
        return status_of(self.pod, self._facts, self.kubelet.timestamp())

    @property
    def address(self) -> str:
        return self._facts.pod_ip

    def changed(self) -> None:
        self.kubelet.status_manager.enqueue(self)

    def with_addresses(self) -> Obj:
        """Return the pod with the addresses that its containers may read from its status."""
        facts = self._facts
        addresses = {"hostIP": facts.host_ip, "hostIPs": [{"ip": facts.host_ip}]}
        addresses |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
        return {**self.pod, "status": {**(self.pod.get("status") or {}), **addresses}}

    def start(self, coroutine: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        return self.kubelet.child_tasks.start(
            coroutine, f"{what} of pod {self.namespace}/{self.name}"
        )

    async def _run(self) -> None:
        """Run all containers until none needs another run, then stop the pod. Containers that
        were lost with the machine's power and must not restart are not run again.
        """
        if all(
            record.last_state and not may_restart(self.pod, record, record.exit_code)
            for record in self._facts.records
            if not record.is_init
        ):
            self.stop()
            return
        self.mounted = await self.kubelet.mounter.mount_all(
            self.pod, self.kubelet.recorder, self.kubelet.allocatable
        )
        await self.kubelet.clock.sleep(timings.SANDBOX)
        self._facts.pod_ip = (
            self._facts.host_ip
            if self.pod["spec"].get("hostNetwork")
            else self.kubelet.machine.allocate_address()
        )
        self._facts.has_sandbox = True
        sidecars: list[asyncio.Task[None]] = []
        try:
            if await self._initialize(sidecars):
                mains = [one for one in self._containers.values() if not one.record.is_init]
                await gather_all([one.keep() for one in mains])
        finally:
            for sidecar in sidecars:
                sidecar.cancel()
        self.stop()

    async def _initialize(self, sidecars: list[asyncio.Task[None]]) -> bool:
        """Run the init containers in order, and start sidecars among them. Return False if one
        has failed for good.
        """
        for container in self._containers.values():
            record = container.record
            if record.is_sidecar:
                sidecars.append(self.start(container.keep(), record.name))
                await container.wait_until_started()
            elif record.is_init:
                await container.keep()
                if record.exit_code:
                    return False
        return True

    def _watch_deadline(self) -> None:
        if self._deadline_task:
            self._deadline_task.cancel()
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            until = epoch_of(self._facts.start_time) + seconds
            self._deadline_task = self.start(self._expire(until), "deadline")

    async def _expire(self, until: float) -> None:
        await self.kubelet.clock.sleep(until - self.kubelet.clock.now())
        self.kubelet.recorder.normal(self.pod, *DEADLINE_EXCEEDED)
        self._facts.failure = DEADLINE_EXCEEDED
        self.stop()
        self.changed()

    def _apply_spec_change(self, pod: Obj, old: Obj) -> None:
        if pod["spec"].get("activeDeadlineSeconds") != old["spec"].get("activeDeadlineSeconds"):
            self._watch_deadline()
        for spec in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
            container = self._containers.get(spec["name"])
            if container is None:
                continue
            record, before = container.record, container.record.spec
            record.spec = spec
            if spec["image"] != before["image"] and record.process and not self._stopping_task:
                record.must_restart = True
                message = f"Container {record.name} definition changed, will be restarted"
                self.start(container.stop(self._grace(), message), "restart")

    def stop(self, grace: float | None = None) -> None:
        """Stop all containers, with this grace period (seconds) or the pod's own, and finish
        the pod.
        """
        if self._stopping_task is None and not self.is_done:
            self._stopping_task = self.start(self._stop(grace), "end")

    async def _stop(self, grace: float | None) -> None:
        if self._running_task:
            self._running_task.cancel()
        seconds = self._grace() if grace is None else grace
        running_containers = [one for one in self._containers.values() if one.record.process]
        mains = [one for one in running_containers if not one.record.is_sidecar]
        ends = self.kubelet.clock.now() + seconds
        await gather_all([self._stop_container(one, ends) for one in mains])
        for sidecar in reversed([one for one in running_containers if one.record.is_sidecar]):
            await self._stop_container(sidecar, ends)
        self._mark_over()
        if running_containers:
            # One status write for all containers, as the real kubelet does.
            self.changed()
            await self.kubelet.clock.sleep(timings.CLEAN_UP)
        self._finish()

    async def _stop_container(self, container: ContainerWorker, ends: float) -> None:
        await container.stop(
            max(0.0, ends - self.kubelet.clock.now()), f"Stopping container {container.record.name}"
        )

    async def _kill_after(self, seconds: float) -> None:
        await self.kubelet.clock.sleep(seconds)
        for record in self._facts.records:
            if record.process:
                record.process.kill()

    def _grace(self) -> float:
        deletion_grace = self.pod["metadata"].get("deletionGracePeriodSeconds")
        return float(
            self.pod["spec"].get("terminationGracePeriodSeconds", 30)
            if deletion_grace is None
            else deletion_grace
        )

    def _mark_over(self) -> None:
        """Record that no container of this pod will run again. The status reported from now on
        is final.
        """
        self._facts.over = True
        if self._deadline_task:
            self._deadline_task.cancel()
        self._release_resources()

    def _finish(self) -> None:
        self._mark_over()
        self.is_done = True
        if self.kubelet.has_worker(self):
            self.changed()
        else:
            self._forget_pod()

    def _release_resources(self) -> None:
        """Release requests and address, once: they may belong to another pod by the next call."""
        if self._running_task is None:
            return
        self.kubelet.usage.remove(self.demand)
        self._running_task = None
        if self._facts.pod_ip != self._facts.host_ip:
            self.kubelet.machine.release_address(self._facts.pod_ip)

    def _forget_pod(self) -> None:
        self.kubelet.logs.forget(self.pod)
        self._drop_references()

    def _drop_references(self) -> None:
        """Drop references to workers and tasks, so that finished pods do not need cyclic garbage
        collection.
        """
        self._containers, self._stopping_task, self._deadline_task = {}, None, None


async def gather_all(coroutines: list[Coroutine[Any, Any, None]]) -> None:
    """Run all coroutines at the same time. A single one, the usual case, is awaited directly."""
    if len(coroutines) == 1:
        await coroutines[0]
    elif coroutines:
        await asyncio.gather(*coroutines)
