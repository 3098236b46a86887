"""The life of one pod on one machine: taken in or refused, mounted, given an address, run, stopped,
forgotten.

What happens is written down in records; each change of them makes the kubelet write the pod's
status anew."""

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
    """One pod, from when the kubelet first sees it until the API has forgotten it."""

    __slots__ = (
        "_containers", "_deadline", "_ended_before", "_facts", "_living", "_refused", "_stopping",
        "demand", "host", "is_done", "mounted", "name", "namespace", "pod", "uid",
    )  # fmt: skip

    def __init__(self, host: Kubelet, pod: Obj) -> None:
        self.host = host
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.name: str = pod["metadata"]["name"]
        self.namespace: str = pod["metadata"].get("namespace", "")
        self.demand = demand_of(pod)
        self.mounted: dict[str, VolumeContent] = {}
        self.is_done = False
        """All that will ever be done for this pod is done; what is left is to forget it."""
        self._ended_before = (pod.get("status") or {}).get("phase") in TERMINAL
        self._refused: PodFailureReason | None = None
        started = (pod.get("status") or {}).get("startTime") or host.timestamp()
        self._facts = PodFacts(records_of(pod, host.timestamp()), host.address, started)
        self._containers = {
            record.name: ContainerWorker(self, record) for record in self._facts.records
        }
        self._living: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._deadline: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Take the pod in, or refuse it."""
        if self._ended_before:
            self._settle()
            return
        self._refused = self.host.refusal(self)
        if self._refused:
            self.host.recorder.warning(self.pod, *self._refused)
            self._settle()
            return
        self.host.load.add(self.demand)
        self._living = self.start(self._live(), "life")
        self._watch_deadline()
        if self.pod["metadata"].get("deletionTimestamp"):
            self.stop()
        self.changed()

    def see(self, pod: Obj, *, is_told: bool = False) -> None:
        """The API shows the pod as it is now; if all has been told of it just so, there is
        nothing to write.
        """
        if not is_newer(
            pod["metadata"]["resourceVersion"], self.pod["metadata"]["resourceVersion"]
        ):
            return
        old, self.pod = self.pod, pod
        if self.is_done and pod["metadata"].get("deletionGracePeriodSeconds") == 0:
            return  # the kubelet has let go of it: it is gone as soon as nobody else holds it
        if pod["spec"] is not old["spec"]:
            self._respect(pod, old)
        if pod["metadata"].get("annotations") != old["metadata"].get("annotations"):
            for container in self._containers.values():
                container.look_again()
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
        if not is_told:
            self.changed()

    def vanish(self) -> None:
        """The API has forgotten the pod."""
        if self.is_done:
            self._forget()
        else:
            self.stop(grace=timings.KILL_ORPHAN)

    def halt(self) -> None:
        """The machine has lost its power: nothing ends well, and nobody hears of it."""
        for task in (self._living, self._stopping, self._deadline):
            if task:
                task.cancel()
        for record in self._facts.records:
            if record.process:
                record.process.kill()
                record.process = None
        self._free()
        self._let_go()

    def kill(self, container: str, code: int, reason: str) -> None:
        """End a container's run from outside."""
        life = self._containers.get(container)
        if life is None or life.record.process is None:
            raise NotFound(f'container "{container}" of pod "{self.name}" does not run')
        life.record.process.kill(code, reason)

    def running(self) -> Iterator[tuple[Obj, ContainerContext]]:
        """The specs of the containers that run, and what they know."""
        for record in self._facts.records:
            if record.process and record.is_running:
                yield record.spec, record.process.context

    def status(self) -> Obj:
        if self._ended_before:
            return self.pod["status"]  # type: ignore[no-any-return]
        if self._refused:
            return rejected_status(self.pod, self._refused)
        return status_of(self.pod, self._facts, self.host.timestamp())

    @property
    def address(self) -> str:
        return self._facts.pod_ip

    def changed(self) -> None:
        self.host.statuses.mark(self)

    def with_addresses(self) -> Obj:
        """The pod with what its containers may ask of its status."""
        facts = self._facts
        addresses = {"hostIP": facts.host_ip, "hostIPs": [{"ip": facts.host_ip}]}
        addresses |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
        return {**self.pod, "status": {**(self.pod.get("status") or {}), **addresses}}

    def start(self, coroutine: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Let something of this pod live for itself."""
        return self.host.brood.start(coroutine, f"{what} of pod {self.namespace}/{self.name}")

    async def _live(self) -> None:
        mains = [record for record in self._facts.records if not record.is_init]
        if not all(
            record.last_state and not may_restart(self.pod, record, record.exit_code)
            for record in mains
        ):
            await self._run()
        self.stop()

    async def _run(self) -> None:
        self.mounted = await self.host.mounter.mounted(
            self.pod, self.host.recorder, self.host.allocatable
        )
        await self.host.clock.sleep(timings.SANDBOX)
        self._facts.pod_ip = (
            self._facts.host_ip
            if self.pod["spec"].get("hostNetwork")
            else self.host.machine.take_address()
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

    async def _initialize(self, sidecars: list[asyncio.Task[None]]) -> bool:
        """Init containers, one after the other; False if one has failed for good."""
        for container in self._containers.values():
            record = container.record
            if record.is_sidecar:
                sidecars.append(self.start(container.keep(), record.name))
                await container.begun()
            elif record.is_init:
                await container.keep()
                if record.exit_code:
                    return False
        return True

    def _watch_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            until = epoch_of(self._facts.start_time) + seconds
            self._deadline = self.start(self._expire(until), "deadline")

    async def _expire(self, until: float) -> None:
        await self.host.clock.sleep(until - self.host.clock.now())
        self.host.recorder.normal(self.pod, *DEADLINE_EXCEEDED)
        self._facts.verdict = DEADLINE_EXCEEDED
        self.stop()
        self.changed()

    def _respect(self, pod: Obj, old: Obj) -> None:
        """What may change in a running pod's spec: images, and the deadline."""
        if pod["spec"].get("activeDeadlineSeconds") != old["spec"].get("activeDeadlineSeconds"):
            self._watch_deadline()
        for spec in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
            container = self._containers.get(spec["name"])
            if container is None:
                continue
            record, before = container.record, container.record.spec
            record.spec = spec
            if spec["image"] != before["image"] and record.process and not self._stopping:
                record.must_restart = True
                why = f"Container {record.name} definition changed, will be restarted"
                self.start(container.stop(self._grace(), why), "restart")

    def stop(self, grace: float | None = None) -> None:
        """End all containers and be done with the pod."""
        if self._stopping is None and not self.is_done:
            self._stopping = self.start(self._stop(grace), "end")

    async def _stop(self, grace: float | None) -> None:
        if self._living:
            self._living.cancel()
        seconds = self._grace() if grace is None else grace
        running = [one for one in self._containers.values() if one.record.process]
        mains = [one for one in running if not one.record.is_sidecar]
        ends = self.host.clock.now() + seconds
        await gather_all([self._end(one, ends) for one in mains])
        for sidecar in reversed([one for one in running if one.record.is_sidecar]):
            await self._end(sidecar, ends)
        self._conclude()
        if running:
            # of all of them at once, as the real one, which tells nothing while it kills
            self.changed()
            await self.host.clock.sleep(timings.CLEAN_UP)
        self._settle()

    async def _end(self, container: ContainerWorker, ends: float) -> None:
        await container.stop(
            max(0.0, ends - self.host.clock.now()), f"Stopping container {container.record.name}"
        )

    async def _kill_after(self, seconds: float) -> None:
        await self.host.clock.sleep(seconds)
        for record in self._facts.records:
            if record.process:
                record.process.kill()

    def _grace(self) -> float:
        asked = self.pod["metadata"].get("deletionGracePeriodSeconds")
        return float(
            self.pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
        )

    def _conclude(self) -> None:
        """Nothing of this pod runs any more: what is told of it from now on is its last."""
        self._facts.over = True
        if self._deadline:
            self._deadline.cancel()
        self._free()

    def _settle(self) -> None:
        self._conclude()
        self.is_done = True
        if self.host.knows(self):
            self.changed()
        else:
            self._forget()

    def _free(self) -> None:
        """Once: what it had may be another's by the next time."""
        if self._living is None:
            return
        self.host.load.remove(self.demand)
        self._living = None
        if self._facts.pod_ip != self._facts.host_ip:
            self.host.machine.give_back(self._facts.pod_ip)

    def _forget(self) -> None:
        self.host.logs.forget(self.pod)
        self._let_go()

    def _let_go(self) -> None:
        """Nobody knows it any more, and it no longer holds what holds it: so many end that
        nobody is to search for them.
        """
        self._containers, self._stopping, self._deadline = {}, None, None


async def gather_all(lives: list[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of them, which live at once; most pods have but one container."""
    if len(lives) == 1:
        await lives[0]
    elif lives:
        await asyncio.gather(*lives)
