"""State of one container as its kubelet records it, and the process of its current run.

`ContainerRecord` produces the ContainerStatus of the API; `ContainerProcess` runs a behaviour until
it ends or is killed. Used by `container`, `pod` and `pod_status`.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.kubelet.images import SimulationError
from pytest_kscen.embedded.kubelet.images.context import canonical_image
from pytest_kscen.embedded.pod_resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.objects.resources import Obj


LOST_WITH_MACHINE = {
    "exitCode": 255,
    "reason": "Unknown",
}  # a run lost with its machine's power


@dataclass(slots=True, eq=False)
class ContainerRecord:
    """Recorded state of one container of one pod: current and last state, restarts, and readiness.

    `state` and `last_state` are the API's own dicts; they are replaced, never changed, because
    statuses share them.
    """

    spec: Obj
    field_path: str
    is_init: bool
    state: Obj
    last_state: Obj = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False
    id: str = ""
    image: str = ""
    process: ContainerProcess | None = None
    must_restart: bool = False
    remark: str = ""
    """Note about the current run, shown in the pod's status."""

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        return self.is_init and is_sidecar(self.spec)

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the last run that ended. None if a later one has begun or
        none has ended.
        """
        ended = (
            self.state.get("terminated")
            or ("waiting" in self.state and self.last_state.get("terminated"))
            or None
        )
        return ended["exitCode"] if ended else None

    def set_waiting(self, reason: str, message: str = "") -> None:
        """Set the state to waiting. A terminated state becomes the last state, as the kubelet
        keeps one former run.
        """
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def run(self, uid: str, now: str) -> None:
        if "terminated" in self.state:
            self.last_state = self.state
        self.restarts += bool(self.last_state)
        self.must_restart = False
        self.id = container_id(uid, self.name, self.restarts)
        self.image = self.spec["image"]
        self.state = {"running": {"startedAt": now}}
        self.remark = ""

    def end(self, code: int, reason: str, message: str, now: str) -> None:
        began = (self.state.get("running") or {}).get("startedAt", now)
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": began,
            "finishedAt": now,
            "containerID": self.id,
        }
        self.state = {"terminated": {**ended, **({"message": message} if message else {})}}
        self.ready = self.is_init and not self.is_sidecar and code == 0
        self.started = False
        self.process = None

    def status(self) -> Obj:
        status: Obj = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": canonical_image(self.image) if self.id else self.spec["image"],
            "imageID": image_id(self.image) if self.id else "",
            "started": self.started,
        }
        if self.id:
            status["containerID"] = self.id
            if resources := self.spec.get("resources"):
                status["resources"] = resources
                if "requests" in resources:
                    status["allocatedResources"] = resources["requests"]
        return status


def records_of(pod: Obj, now: str) -> list[ContainerRecord]:
    """Return records for the containers of a pod that its kubelet sees for the first time, init
    containers first.

    Runs in the pod's status belong to a machine that lost its power since: they count as lost.
    """
    status = pod.get("status") or {}
    before = {
        old["name"]: old
        for list_ in ("initContainerStatuses", "containerStatuses")
        for old in status.get(list_) or ()
    }
    inits = pod["spec"].get("initContainers") or ()
    waiting = {"waiting": {"reason": "PodInitializing" if inits else "ContainerCreating"}}
    records = [
        ContainerRecord(
            container, f"spec.{kind}{{{container['name']}}}", is_init=is_init, state=waiting
        )
        for kind, is_init in (("initContainers", True), ("containers", False))
        for container in pod["spec"].get(kind) or ()
    ]
    for record in records:
        if old := before.get(record.name):
            record.restarts = old.get("restartCount", 0)
            record.last_state = old.get("lastState") or {}
            if running := old["state"].get("running"):
                lost = {
                    **LOST_WITH_MACHINE,
                    "startedAt": running["startedAt"],
                    "finishedAt": now,
                    "containerID": old.get("containerID", ""),
                }
                record.last_state = {"terminated": lost}
            elif "terminated" in old["state"]:
                record.last_state = old["state"]
    return records


def container_id(uid: str, name: str, attempt: int) -> str:
    return "containerd://" + hashlib.sha256(f"{uid}/{name}/{attempt}".encode()).hexdigest()


@functools.lru_cache(maxsize=1024)
def image_id(image: str) -> str:
    name = canonical_image(image).rpartition(":")[0]
    return f"{name}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


logger = logging.getLogger(__name__)

SIGKILL_CODE = 137


class ContainerExit(NamedTuple):
    code: int
    reason: str


class ContainerProcess:
    """Process of one run of one container, started on construction as a task.

    A behaviour that only waits to be stopped has no task, as most containers of a large cluster are
    of that kind.
    """

    __slots__ = ("_exit", "_task", "_waiting", "context")

    def __init__(
        self, run: Callable[[ContainerContext], Awaitable[int]] | None, context: ContainerContext
    ) -> None:
        self.context = context
        self._exit: ContainerExit | SimulationError | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        if run:
            name = f"container {context.pod['metadata']['name']}/{context.name}"
            self._task = asyncio.get_running_loop().create_task(self._run(run), name=name)

    async def _run(self, run: Callable[[ContainerContext], Awaitable[int]]) -> None:
        context = self.context
        try:
            code = await run(context)
        except SimulationError as mistake:  # raised by `end`, instead of a crash of the container
            self._end(mistake)
            return
        except Exception as error:  # a crash ends the container, not the simulation
            context.write(f"{type(error).__name__}: {error}\n")
            logger.warning(
                "%s in %s crashed", context.name, context.pod["metadata"]["name"], exc_info=error
            )
            code = 1
        finally:
            self._task = None  # breaks a reference cycle through tracebacks
        self._end(ContainerExit(code, context.exit_reason or ("Error" if code else "Completed")))

    def _end(self, exit_: ContainerExit | SimulationError) -> None:
        if self._exit is None:
            self._exit = exit_
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)

    def terminate(self) -> None:
        """Send SIGTERM. A run without a behaviour ends at once with code 0."""
        self.context.terminate()
        if self._task is None:
            self._end(ContainerExit(0, "Completed"))

    def kill(self, code: int = SIGKILL_CODE, reason: str = "Error") -> None:
        """End the run at once with this code and reason, as SIGKILL or a machine without power
        does.
        """
        self._end(ContainerExit(code, reason))
        if self._task:
            self._task.cancel()

    async def end(self) -> ContainerExit:
        """Wait for the end and return the exit. Cancelling the caller does not stop the run.

        A `SimulationError` of the behaviour is raised here instead of ending the container.
        """
        while self._exit is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if isinstance(self._exit, SimulationError):
            raise self._exit
        return self._exit
