"""Choose the behaviour of a container: annotations first, then registrations, then its command or
image.

`Images` is part of a cluster's `Site`; tests and simulated third parties register behaviours with
it, and workers look it up before each run.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.embedded.kubelet.images.annotations import annotated_run
from pytest_kscen.embedded.kubelet.images.context import ContainerContext, image_names
from pytest_kscen.embedded.kubelet.network.hosts import NETWORK_PROGRAMS, network_programs
from pytest_kscen.embedded.kubelet.shell import NOT_UNDERSTOOD, PROGRAMS, SHELLS, Shell
from pytest_kscen.kube.api import HttpAnswer, HttpCall
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from pytest_kscen.embedded.kubelet.images.annotations import Service


SUPPORTED_COMMANDS = (*PROGRAMS, *NETWORK_PROGRAMS)
SHELL_IMAGES = ("alpine", "bash", "busybox", "debian", "iperf3", "ubuntu")


def runs_until_stopped(container: ContainerContext) -> bool:
    """Return True if nothing is known about the container's program, so it runs until SIGTERM."""
    if image_names(container.image)[2] in SHELL_IMAGES:
        return False
    return not container.command or _program(container.command) not in SUPPORTED_COMMANDS


def unsimulated_remark(container: ContainerContext) -> str:
    """Return a remark for a pod that should end but runs an unknown program, or "" otherwise.

    It names the annotations that declare an ending, as such a pod would run for ever.
    """
    if (
        not runs_until_stopped(container)
        or container.pod["spec"].get("restartPolicy", "Always") == "Always"
    ):
        return ""
    what = (
        f"the command {container.command[0]!r}"
        if container.command
        else f"the image {container.image!r}"
    )
    return (
        f"container {container.name} runs until it is stopped: {what} is not simulated. Declare "
        "its result with the annotations kscen.io/exit-code, kscen.io/exit-after and kscen.io/log"
    )


async def run_command(container: ContainerContext) -> int:
    """Run the command of a container and return its exit code. The image has a shell, or the
    command is supported itself.
    """
    try:
        command_line = [*container.command, *container.args]
        if not command_line:
            return 0  # an interactive shell without input ends
        if _program(command_line) in SHELLS:
            flags, rest = [], command_line[1:]
            while rest and rest[0].startswith(("-", "+")):
                flags.append(rest.pop(0))
            if not any("c" in flag for flag in flags) or not rest:
                script = container.files.get(rest[0]) if rest else ""
                if script is None:
                    container.write(
                        f"{command_line[0]}: can't open '{rest[0]}': No such file or directory\n"
                    )
                    return NOT_UNDERSTOOD
                return await _shell(container, tuple(rest[1:])).run(script)
            shell = _shell(container, tuple(rest[2:]))
            shell.stops_on_error = any("e" in flag for flag in flags)
            return await shell.run(rest[0])
        return await _shell(container).call(command_line)
    finally:
        if container.host:
            container.host.close()


def _program(command_line: list[str]) -> str:
    return command_line[0].rpartition("/")[2]


def _shell(container: ContainerContext, arguments: tuple[str, ...] = ()) -> Shell:
    return Shell(
        container.write,
        container.sleep,
        variables=container.env,
        arguments=arguments,
        files=container.files,
        programs=network_programs(container.host) if container.host else {},
        now=container.clock.now,
        is_stopping=lambda: container.is_stopping,
    )


Behaviour = Callable[[ContainerContext], Awaitable[int]]
"""Behaviour of a container: `async def run(container) -> int`. Its return ends the run with
that exit code.
"""


RuleT = TypeVar("RuleT")


@dataclass(frozen=True, slots=True)
class ImageRule(Generic[RuleT]):
    """Behaviour and the containers it applies to, given as shell patterns for image, container,
    pod and namespace.
    """

    run: RuleT
    image: str
    container: str
    pod: str
    namespace: str

    def is_for(self, container: ContainerContext) -> bool:
        metadata = container.pod["metadata"]
        return (
            any(fnmatch.fnmatchcase(name, self.image) for name in image_names(container.image))
            and fnmatch.fnmatchcase(container.name, self.container)
            and fnmatch.fnmatchcase(metadata["name"], self.pod)
            and fnmatch.fnmatchcase(metadata.get("namespace", ""), self.namespace)
        )


class Images:
    """Registry of behaviours, HTTP answers and images that cannot be pulled. Later
    registrations precede earlier ones.
    """

    def __init__(self) -> None:
        self._rules: list[ImageRule[Behaviour]] = []
        self._services: list[tuple[ImageRule[Service], int | None]] = []
        self._missing: dict[str, None] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()

    def register(
        self,
        run: Behaviour,
        *,
        image: str = "*",
        container: str = "*",
        pod: str = "*",
        namespace: str = "*",
    ) -> Callable[[], None]:
        """Set the behaviour of matching containers from their next start on. Return a function that
        removes it.

        An image matches by its whole name, without its tag, or by its last part: `*/nginx:*`,
        `nginx`.
        """
        rule = ImageRule(run, image, container, pod, namespace)
        self._rules.insert(0, rule)
        return lambda: self._rules.remove(rule)

    def serve(
        self,
        answer: HttpAnswer | Service,
        *,
        image: str = "*",
        container: str = "*",
        pod: str = "*",
        namespace: str = "*",
        port: int | None = None,
    ) -> Callable[[], None]:
        """Set the HTTP answer of matching containers, at one port or at any. Return a function that
        removes it.

        Instead of a fixed answer, an `async def serve(call, container) -> HttpAnswer` may be given.
        """

        async def always(_: HttpCall, __: ContainerContext) -> HttpAnswer:
            return answer  # type: ignore[return-value]  # else it is a service

        entry = (
            ImageRule(
                always if isinstance(answer, HttpAnswer) else answer,
                image,
                container,
                pod,
                namespace,
            ),
            port,
        )
        self._services.insert(0, entry)
        self._notify()

        def unregister() -> None:
            self._services.remove(entry)
            self._notify()

        return unregister

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener whenever the HTTP answers of some container may have changed.
        Return a function that ends this.
        """
        number = next(self._numbers)
        self._listeners[number] = listener

        def unregister() -> None:
            del self._listeners[number]

        return unregister

    def _notify(self) -> None:
        for listener in list(self._listeners.values()):
            listener()

    def service_of(self, container: ContainerContext, port: int) -> Service | None:
        return next(
            (
                rule.run
                for rule, served_port in self._services
                if served_port in (None, port) and rule.is_for(container)
            ),
            None,
        )

    def fail_pulls(self, image: str) -> Callable[[], None]:
        """Let pulls of matching images fail. Return a function that ends this; containers that
        wait for the image then continue after their back-off.
        """
        self._missing[image] = None
        return lambda: self._missing.pop(image, None)

    def can_be_pulled(self, image: str) -> bool:
        """Return False for images registered with `fail_pulls`, and for registries under the
        reserved domain `.invalid`.
        """
        registry = image.split("/", 1)[0].split(":", maxsplit=1)[0]
        if "/" in image and registry.endswith(".invalid"):
            return False
        return not any(
            fnmatch.fnmatchcase(name, pattern)
            for pattern in self._missing
            for name in image_names(image)
        )

    def program_of(self, container: ContainerContext) -> Behaviour | None:
        """Return the behaviour of a container, or None if it only waits for SIGTERM. Writes the
        annotated log text first.
        """
        try:
            annotated = annotated_run(container)
        except ValueError as error:
            why = str(error)

            async def refuse(_: ContainerContext) -> int:
                raise ValueError(why)

            return refuse
        if annotated.log:
            container.write(annotated.log)
        if annotated.ends:
            return annotated.run
        for rule in self._rules:
            if rule.is_for(container):
                return rule.run
        return None if runs_until_stopped(container) else run_command


class SimulationError(Exception):
    """Failure of a simulated third party's own program that no refusal explains. Ends the
    simulation.

    A restart of its container would hide it, and a run without its work could count as valid.
    """


def simulation_program(run: Behaviour, *ends: type[Exception]) -> Behaviour:
    """Return the behaviour wrapped so that unexpected exceptions end the simulation.

    API errors, OS errors and the exceptions in `ends` still count as a crash of the container.
    """

    refusals: tuple[type[Exception], ...] = (ApiError, OSError, *ends)

    async def program(container: ContainerContext) -> int:
        try:
            return await run(container)
        except refusals:
            raise
        except Exception as error:
            pod = container.pod["metadata"]["name"]
            raise SimulationError(
                f"the simulated {container.name} in {pod} failed: {error!r}"
            ) from error

    return program
