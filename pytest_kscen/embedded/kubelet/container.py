"""Run one container: pull its image, start it, probe it, and restart it by its policy.

One `ContainerWorker` per container, started by the pod's worker. Everything visible is written to
the container's record; the pod's worker reports it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet import timings
from pytest_kscen.embedded.kubelet.container_status import ContainerExit, ContainerProcess
from pytest_kscen.embedded.kubelet.environment import MissingReferenceError, environment_of, expand
from pytest_kscen.embedded.kubelet.images import ContainerContext
from pytest_kscen.embedded.kubelet.images.annotations import annotated_service
from pytest_kscen.embedded.kubelet.images.context import canonical_image
from pytest_kscen.embedded.kubelet.images.registry import unsimulated_remark
from pytest_kscen.embedded.kubelet.node_status import IMAGE_SIZE
from pytest_kscen.embedded.kubelet.pod_status import may_restart
from pytest_kscen.embedded.kubelet.timings import RestartBackoff, go_duration
from pytest_kscen.embedded.kubelet.volumes import ContainerFiles
from pytest_kscen.kube.api import HttpCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.kubelet.container_status import ContainerRecord
    from pytest_kscen.embedded.kubelet.images import Images
    from pytest_kscen.embedded.kubelet.images.annotations import Service
    from pytest_kscen.embedded.kubelet.pod import PodWorker
    from pytest_kscen.objects.resources import Obj


async def ensure_image(container: ContainerWorker) -> None:
    """Wait until the container's image is on its machine, and record the real kubelet's Events
    about it.

    An image that cannot be pulled is retried with back-off for ever.
    """
    image, images = container.record.spec["image"], container.kubelet.machine.images
    policy = container.record.spec.get("imagePullPolicy", "IfNotPresent")
    if policy == "Never":
        # The image may still arrive with another pod.
        message = f'Container image "{image}" is not present with pull policy of Never'
        while image not in container.kubelet.machine.images:
            container.record_warning("ErrImageNeverPull", message)
            container.record_warning("Failed", "Error: ErrImageNeverPull")
            container.set_waiting("ErrImageNeverPull", message)
            await container.kubelet.clock.sleep(timings.CONFIG_RETRY)
    if image in images and policy != "Always":
        container.record_event(
            "Pulled",
            f'Container image "{image}" already present on machine and can be accessed by the pod',
        )
    else:
        seconds = timings.PULL_PRESENT if image in images else timings.PULL
        backoff = RestartBackoff()
        container.record_event("Pulling", f'Pulling image "{image}"')
        await container.kubelet.clock.sleep(seconds)
        while not container.kubelet.images.can_be_pulled(image):
            backoff.next(container.kubelet.clock.now())
            name = canonical_image(image)
            why = (
                f'failed to pull and unpack image "{name}": failed to resolve reference '
                f'"{name}": not found'
            )
            container.record_warning("Failed", f'Failed to pull image "{image}": {why}')
            container.record_warning("Failed", "Error: ErrImagePull")
            container.set_waiting("ErrImagePull", why)
            await container.kubelet.clock.sleep(timings.SYNC_DELAY)
            container.record_event("BackOff", f'Back-off pulling image "{image}"')
            container.record_warning("Failed", "Error: ImagePullBackOff")
            container.set_waiting(
                "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}'
            )
            await container.kubelet.clock.sleep(backoff.delay - timings.SYNC_DELAY)
            await container.kubelet.clock.sleep(seconds)
        container.kubelet.machine.images[image] = None
        duration = f"{go_duration(seconds)} ({go_duration(seconds)} including waiting)"
        container.record_event(
            "Pulled",
            f'Successfully pulled image "{image}" in {duration}. Image size: {IMAGE_SIZE} bytes.',
        )


SUCCESS_CODES = range(200, 400)


class HttpReadinessProbe:
    """HTTP readiness probe of one run of one container.

    The probe passes while no behaviour for its port is registered or annotated, and costs nothing
    then. Otherwise the container is called at each period; a change of behaviour wakes the probe.
    """

    def __init__(
        self,
        probe: Obj,
        spec: Obj,
        context: ContainerContext,
        images: Images,
        pod: Callable[[], Obj],
    ) -> None:
        self._probe = probe
        port = probe["httpGet"]["port"]
        if isinstance(port, int):
            self._port = port
        else:
            self._port = next(
                (
                    each["containerPort"]
                    for each in spec.get("ports") or ()
                    if each.get("name") == port
                ),
                0,
            )
        self._context = context
        self._images = images
        self._pod = pod
        self._changed = asyncio.Event()
        self._is_ready = False

    def wake(self) -> None:
        self._changed.set()

    async def keep(self) -> None:
        """Probe from the first due time until cancelled, with the thresholds and timeouts of
        the spec. Calls `set_ready` on each change.
        """
        began = self._context.clock.now()
        period = float(self._probe.get("periodSeconds", 10))
        in_a_row = 0
        forget = self._images.on_change(self.wake)
        try:
            while True:
                self._changed.clear()
                service: Service | None = annotated_service(
                    self._pod(), self._context
                ) or self._images.service_of(self._context, self._port)
                passed = True
                if service is not None:
                    target = self._probe["httpGet"].get("path", "/")
                    try:
                        async with asyncio.timeout(self._probe.get("timeoutSeconds", 1)):
                            answer = await service(HttpCall("GET", target), self._context)
                        passed = answer.status in SUCCESS_CODES
                    except TimeoutError:
                        passed = False
                in_a_row = 0 if passed == self._is_ready else in_a_row + 1
                if in_a_row >= (
                    int(self._probe.get("failureThreshold", 3)) if self._is_ready else 1
                ):
                    self._is_ready, in_a_row = passed, 0
                    self._context.set_ready(passed)
                if service is None and self._is_ready:
                    await self._changed.wait()
                await self._context.sleep(period - (self._context.clock.now() - began) % period)
        finally:
            forget()


FALLBACK_LINES, FALLBACK_BYTES = 80, 2048  # of a log used as termination message


class ContainerWorker:
    """Keep one container in the state that its pod's spec and restart policy require, until it
    needs no further run.
    """

    __slots__ = ("_pod", "_readiness", "_restarts", "_started", "kubelet", "record")

    def __init__(self, pod: PodWorker, record: ContainerRecord) -> None:
        self.record = record
        self._started: asyncio.Future[None] | None = None
        self._readiness: HttpReadinessProbe | None = None
        self.kubelet = pod.kubelet
        self._pod = pod
        self._restarts = RestartBackoff()

    async def keep(self) -> None:
        """Run the container again and again until its restart policy ends it.

        Between runs it waits with back-off. A run lost with the machine's power counts, so a
        container that must not restart is not started twice.
        """
        record = self.record
        if (
            not record.is_init
            and record.last_state
            and not may_restart(self._pod.pod, record, record.exit_code)
        ):
            return  # lost with the machine's power; must not run twice
        while True:
            await ensure_image(self)
            env = await self._resolve_environment()
            await self.kubelet.clock.sleep(timings.START)
            exit_ = await self._run(env)
            if not may_restart(self._pod.pod, record, exit_.code):
                return
            if not record.must_restart:
                now = self.kubelet.clock.now()
                delay = self._restarts.next(now)
                if delay <= 0:
                    continue
                await self.kubelet.clock.sleep(timings.SYNC_DELAY)
                name, pod = self.record.name, self._pod
                where = f"{pod.name}_{pod.namespace}({pod.uid})"
                self.record_warning(
                    "BackOff", f"Back-off restarting failed container {name} in pod {where}"
                )
                self.set_waiting(
                    "CrashLoopBackOff",
                    f"back-off {go_duration(delay)} restarting failed container={name} pod={where}",
                )
                await self.kubelet.clock.sleep(delay - timings.SYNC_DELAY)

    async def wait_until_started(self) -> None:
        """Wait until the container has started, which includes its startup probe. Init sidecars
        are awaited this way; one waiter at a time.
        """
        if not self.record.started:
            self._started = asyncio.get_running_loop().create_future()
            await self._started

    async def _resolve_environment(self) -> dict[str, str]:
        while True:
            try:
                return await environment_of(
                    self.kubelet.api,
                    self._pod.with_addresses(),
                    self.record.spec,
                    self.kubelet.allocatable,
                )
            except MissingReferenceError as error:
                self.record_warning("Failed", f"Error: {error}")
                self.set_waiting("CreateContainerConfigError", str(error))
                await self.kubelet.clock.sleep(timings.CONFIG_RETRY)

    async def _run(self, env: dict[str, str]) -> ContainerExit:
        record = self.record
        record.run(self._pod.uid, self.kubelet.timestamp())
        self.record_event("Created", "Container created")
        self.record_event("Started", "Container started")
        context = self._context(env)
        program = self.kubelet.images.program_of(context)
        record.process = ContainerProcess(program, context)
        record.remark = "" if program else unsimulated_remark(context)
        # Simulated probes succeed at their first due time.
        startup = _seconds_to_success(self.record.spec.get("startupProbe"))
        readiness = _seconds_to_success(self.record.spec.get("readinessProbe"))
        if startup is None and readiness is None:
            self._set_started(ready=True)
            probes: asyncio.Task[None] | None = None
        else:
            probes = self._pod.start(
                self._run_probes(startup, readiness), f"probes of {self.record.name}"
            )
        self._pod.changed()
        try:
            exit_ = await record.process.end()
        finally:
            if probes:
                probes.cancel()
        self.record_end(exit_)
        self._pod.changed()
        return exit_

    def record_end(self, exit_: ContainerExit) -> None:
        """Record the end of the current run, with its exit code and termination message, and
        close its log.
        """
        process = self.record.process
        if process is not None:
            process.context.log.end()
            message = process.context.termination_message
            policy = self.record.spec.get("terminationMessagePolicy")
            if not message and exit_.code and policy == "FallbackToLogsOnError":
                message = process.context.log.tail(FALLBACK_LINES, FALLBACK_BYTES)
            self.record.end(exit_.code, exit_.reason, message, self.kubelet.timestamp())
            if self.record.must_restart:
                # Statuses must not show this end: some pods' containers may end only once.
                self.record.set_waiting("ContainerCreating")

    def _context(self, env: dict[str, str]) -> ContainerContext:
        record = self.record
        return ContainerContext(
            name=record.name,
            image=record.spec["image"],
            command=[expand(word, env) for word in record.spec.get("command") or ()],
            args=[expand(word, env) for word in record.spec.get("args") or ()],
            env=env,
            files=ContainerFiles(record.spec, self._pod.mounted),
            pod=self._pod.pod,
            address=self._pod.address,
            node=self.kubelet.machine.name,
            attempt=record.restarts,
            clock=self.kubelet.clock,
            api=self.kubelet.api,
            log=self.kubelet.logs.begin(self._pod.pod, record.name),
            set_ready=self._set_ready,
            host=self.kubelet.hosts.of(
                self.kubelet.machine, self._pod.pod, record.spec, self._pod.address
            ),
        )

    async def _run_probes(self, startup: float | None, readiness: float | None) -> None:
        if startup:
            await self.kubelet.clock.sleep(startup)
        self._set_started(ready=readiness is None)
        if readiness is not None:
            await self.kubelet.clock.sleep(max(0.0, readiness - (startup or 0.0)))
            probe, process = self.record.spec["readinessProbe"], self.record.process
            if "httpGet" not in probe or process is None:
                self._set_ready(True)
                return
            context, images = process.context, self.kubelet.images
            self._readiness = HttpReadinessProbe(
                probe, self.record.spec, context, images, lambda: self._pod.pod
            )
            try:
                await self._readiness.keep()
            finally:
                self._readiness = None

    def annotations_changed(self) -> None:
        """Evaluate the readiness probe again, as its answers may come from the pod's
        annotations.
        """
        if self._readiness:
            self._readiness.wake()

    def _set_started(self, *, ready: bool) -> None:
        self.record.started = True
        self.record.ready = ready and (self.record.is_sidecar or not self.record.is_init)
        if self._started and not self._started.done():
            self._started.set_result(None)
        self._pod.changed()

    def _set_ready(self, ready: bool) -> None:  # noqa: FBT001  # the signature behaviours call
        if self.record.is_running and self.record.ready != ready:
            self.record.ready = ready
            self._pod.changed()

    async def stop(self, grace: float, why: str) -> None:
        """Run the preStop sleep, send SIGTERM, and kill the container when the grace period
        (seconds) is over.
        """
        process = self.record.process
        if process is None:
            return
        self.record_event("Killing", why)
        hook = (self.record.spec.get("lifecycle") or {}).get("preStop") or {}
        first = min(float((hook.get("sleep") or {}).get("seconds", 0)), grace)
        if first:
            await self.kubelet.clock.sleep(first)
        process.terminate()
        timer = asyncio.get_running_loop().call_later(grace - first, process.kill)
        try:
            self.record_end(await process.end())
        finally:
            timer.cancel()

    def set_waiting(self, reason: str, message: str) -> None:
        """Mark the container as waiting, with the reason that its status and `pods/log` show.
        Requests a status write.
        """
        self.record.set_waiting(reason, message)
        self.kubelet.logs.set_waiting(self._pod.pod, self.record.name, reason)
        self._pod.changed()

    def record_event(self, reason: str, message: str) -> None:
        self.kubelet.recorder.normal(
            self._pod.pod, reason, message, field_path=self.record.field_path
        )

    def record_warning(self, reason: str, message: str) -> None:
        self.kubelet.recorder.warning(
            self._pod.pod, reason, message, field_path=self.record.field_path
        )


def _seconds_to_success(probe: dict[str, int] | None) -> float | None:
    """Return the seconds from a container's start to the probe's first success; None without a
    probe.
    """
    if probe is None:
        return None
    return float(
        probe.get("initialDelaySeconds", 0)
        + (probe.get("successThreshold", 1) - 1) * probe.get("periodSeconds", 10)
    )
