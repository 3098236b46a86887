"""The life of one container: its image is pulled, it starts, it ends, and by its policy it waits and starts again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.simulation.images import ContainerContext
from pytest_kscen.simulation.images.builtin import why_unending
from pytest_kscen.simulation.kubelet import timings
from pytest_kscen.simulation.kubelet.backoff import Backoff, go_duration
from pytest_kscen.simulation.kubelet.environment import MissingError, environment_of, expand
from pytest_kscen.simulation.kubelet.images import have_image
from pytest_kscen.simulation.kubelet.pod_status import may_restart
from pytest_kscen.simulation.kubelet.process import Exit, Process
from pytest_kscen.simulation.kubelet.readiness import HttpReadiness
from pytest_kscen.simulation.kubelet.volumes import Files

if TYPE_CHECKING:
    from pytest_kscen.simulation.kubelet.pod import PodLife
    from pytest_kscen.simulation.kubelet.records import Record

LOG_TAIL, LOG_TAIL_BYTES = 80, 2048  # of a log that stands for a termination message


class ContainerLife:
    """Keeps one container as its pod wants it."""

    __slots__ = ("_begun", "_pod", "_readiness", "_restarts", "host", "record")

    def __init__(self, pod: PodLife, record: Record) -> None:
        self.record = record
        self._begun: asyncio.Future[None] | None = None
        self._readiness: HttpReadiness | None = None
        self.host = pod.host
        self._pod = pod
        self._restarts = Backoff()

    async def keep(self) -> None:
        """From the first start to the end for which there is no restart."""
        record = self.record
        if not record.is_init and record.last_state and not may_restart(self._pod.pod, record, record.exit_code):
            return  # it was lost with the machine's power, and may not run twice
        while True:
            await have_image(self)
            env = await self._configured()
            await self.host.clock.sleep(timings.START)
            exit_ = await self._run(env)
            if not may_restart(self._pod.pod, record, exit_.code):
                return
            if not record.must_restart:
                await self._back_off()

    async def begun(self) -> None:
        """Wait until the container has started, its startup probe included."""
        if not self.record.started:
            self._begun = asyncio.get_running_loop().create_future()
            await self._begun

    # --- before it runs ---

    async def _configured(self) -> dict[str, str]:
        while True:
            try:
                return await environment_of(self.host.api, self._pod.with_addresses(), self.record.spec, self.host.allocatable)
            except MissingError as error:
                self.complain("Failed", f"Error: {error}")
                self.wait("CreateContainerConfigError", str(error))
                await self.host.clock.sleep(timings.CONFIG_AGAIN)

    # --- while it runs ---

    async def _run(self, env: dict[str, str]) -> Exit:
        record = self.record
        record.run(self._pod.uid, self.host.timestamp())
        self.say("Created", "Container created")
        self.say("Started", "Container started")
        context = self._context(env)
        program = self.host.images.program_of(context)
        record.process = Process(program, context)
        record.remark = "" if program else why_unending(context)
        probes = self._probe()
        self._pod.changed()
        try:
            exit_ = await record.process.end()
        finally:
            if probes:
                probes.cancel()
        self.ended(exit_)
        self._pod.changed()
        return exit_

    def ended(self, exit_: Exit) -> None:
        """Write down how the run ended."""
        process = self.record.process
        if process is not None:
            process.context.log.end()
            self.record.end(exit_.code, exit_.reason, self._last_words(process, exit_), self.host.timestamp())
            if self.record.must_restart:
                self.record.wait("ContainerCreating")  # that it has ended nobody may see: some pods' containers end but once

    def _context(self, env: dict[str, str]) -> ContainerContext:
        record = self.record
        return ContainerContext(
            name=record.name,
            image=record.spec["image"],
            command=[expand(word, env) for word in record.spec.get("command") or ()],
            args=[expand(word, env) for word in record.spec.get("args") or ()],
            env=env,
            files=Files(record.spec, self._pod.mounted),
            pod=self._pod.pod,
            address=self._pod.address,
            node=self.host.machine.name,
            attempt=record.restarts,
            clock=self.host.clock,
            api=self.host.api,
            log=self.host.logs.begin(self._pod.pod, record.name),
            set_ready=self._set_ready,
            host=self.host.hosts.of(self.host.machine, self._pod.pod, record.spec, self._pod.address),
        )

    def _probe(self) -> asyncio.Task[None] | None:
        """Probes pass as soon as they are asked; until then a container that has them is not started, or not ready."""
        startup = _first_pass(self.record.spec.get("startupProbe"))
        readiness = _first_pass(self.record.spec.get("readinessProbe"))
        if startup is None and readiness is None:
            self._passed(ready=True)
            return None
        return self._pod.start(self._pass_probes(startup, readiness), f"probes of {self.record.name}")

    async def _pass_probes(self, startup: float | None, readiness: float | None) -> None:
        if startup:
            await self.host.clock.sleep(startup)
        self._passed(ready=readiness is None)
        if readiness is not None:
            await self.host.clock.sleep(max(0.0, readiness - (startup or 0.0)))
            probe, process = self.record.spec["readinessProbe"], self.record.process
            if "httpGet" not in probe or process is None:
                self._set_ready(True)
                return
            context, images = process.context, self.host.images
            self._readiness = HttpReadiness(probe, self.record.spec, context, images, lambda: self._pod.pod)
            try:
                await self._readiness.keep()
            finally:
                self._readiness = None

    def look_again(self) -> None:
        """The pod's annotations have changed."""
        if self._readiness:
            self._readiness.wake()

    def _passed(self, *, ready: bool) -> None:
        self.record.started = True
        self.record.ready = ready and (self.record.is_sidecar or not self.record.is_init)
        if self._begun and not self._begun.done():
            self._begun.set_result(None)
        self._pod.changed()

    def _set_ready(self, ready: bool) -> None:  # noqa: FBT001  # what a program calls
        if self.record.is_running and self.record.ready != ready:
            self.record.ready = ready
            self._pod.changed()

    # --- after it ran ---

    async def _back_off(self) -> None:
        now = self.host.clock.now()
        delay = self._restarts.next(now)
        if delay <= 0:
            return
        await self.host.clock.sleep(timings.NOTICE)
        name, pod = self.record.name, self._pod
        where = f"{pod.name}_{pod.namespace}({pod.uid})"
        self.complain("BackOff", f"Back-off restarting failed container {name} in pod {where}")
        self.wait("CrashLoopBackOff", f"back-off {go_duration(delay)} restarting failed container={name} pod={where}")
        await self.host.clock.sleep(delay - timings.NOTICE)

    async def stop(self, grace: float, why: str) -> None:
        """SIGTERM, and SIGKILL when the grace period is over."""
        process = self.record.process
        if process is None:
            return
        self.say("Killing", why)
        first = min(_pre_stop(self.record), grace)
        if first:
            await self.host.clock.sleep(first)
        process.ask_to_stop()
        patience = asyncio.get_running_loop().call_later(grace - first, process.kill)
        try:
            self.ended(await process.end())
        finally:
            patience.cancel()

    def _last_words(self, process: Process, exit_: Exit) -> str:
        if exit_.code and self.record.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return process.context.termination_message or process.context.log.tail(LOG_TAIL, LOG_TAIL_BYTES)
        return process.context.termination_message

    def wait(self, reason: str, message: str) -> None:
        """Not running, and why."""
        self.record.wait(reason, message)
        self.host.logs.wait(self._pod.pod, self.record.name, reason)
        self._pod.changed()

    def say(self, reason: str, message: str) -> None:
        self.host.recorder.normal(self._pod.pod, reason, message, field_path=self.record.field_path)

    def complain(self, reason: str, message: str) -> None:
        self.host.recorder.warning(self._pod.pod, reason, message, field_path=self.record.field_path)


def _first_pass(probe: dict[str, int] | None) -> float | None:
    """Seconds from a container's start to its first success."""
    if probe is None:
        return None
    return float(probe.get("initialDelaySeconds", 0) + (probe.get("successThreshold", 1) - 1) * probe.get("periodSeconds", 10))


def _pre_stop(record: Record) -> float:
    hook = (record.spec.get("lifecycle") or {}).get("preStop") or {}
    return float((hook.get("sleep") or {}).get("seconds", 0))
