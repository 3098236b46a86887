"""Which behaviour a container has: what its annotations tell, what a test registered, what its
command or image is.
"""

from __future__ import annotations

import fnmatch
import functools
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
    """Whether it is a server that nobody here knows: it runs until SIGTERM comes."""
    if image_names(container.image)[2] in SHELL_IMAGES:
        return False
    return not container.command or _program(container.command) not in SUPPORTED_COMMANDS


def unsimulated_remark(container: ContainerContext) -> str:
    """What to know of one that waits to be stopped in a pod that is to come to an end; empty if
    it will.
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
    how = (
        "the annotations kscen.io/exit-code, kscen.io/exit-after and kscen.io/log say what "
        "comes of it"
    )
    return f"container {container.name} runs until it is stopped, as {what} is not simulated: {how}"


async def run_command(container: ContainerContext) -> int:
    """Run the command of an image that has a shell, or a command that is one."""
    try:
        words = [*container.command, *container.args]
        if not words:
            return 0  # a shell that nobody types to
        if _program(words) in SHELLS:
            flags, rest = [], words[1:]
            while rest and rest[0].startswith(("-", "+")):
                flags.append(rest.pop(0))
            if not any("c" in flag for flag in flags) or not rest:
                script = container.files.get(rest[0]) if rest else ""
                if script is None:
                    container.write(
                        f"{words[0]}: can't open '{rest[0]}': No such file or directory\n"
                    )
                    return NOT_UNDERSTOOD
                return await _shell(container, tuple(rest[1:])).run(script)
            shell = _shell(container, tuple(rest[2:]))
            shell.stops_on_error = any("e" in flag for flag in flags)
            return await shell.run(rest[0])
        return await _shell(container).call(words)
    finally:
        if container.host:
            container.host.close()


def _program(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


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
"""`async def run(container) -> int`: its end is the container's, its value the exit code."""


RuleT = TypeVar("RuleT")


@dataclass(frozen=True, slots=True)
class ImageRule(Generic[RuleT]):
    """A behaviour and the containers that it is for, as shell patterns."""

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
    """The registry of behaviours. What was registered last is asked first."""

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
        """Let containers that match do this from their next start on; what is returned takes it
        back.

        An image matches by its whole name, or without its tag, or by its last part alone:
        `*/nginx:*`, `nginx`."""
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
        """Let containers that match answer this over HTTP, at this port or any; what is returned
        takes it back.

        Instead of an answer it may be an `async def serve(call, container) -> HttpAnswer`.
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
        """Tell whenever what some container answers may have changed; what is returned ends
        that.
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
        """What a test has taught this container to answer."""
        return next(
            (
                rule.run
                for rule, served_port in self._services
                if served_port in (None, port) and rule.is_for(container)
            ),
            None,
        )

    def fail_pulls(self, image: str) -> Callable[[], None]:
        """Let pulls of images that match fail; what is returned takes it back."""
        self._missing[image] = None
        return lambda: self._missing.pop(image, None)

    def can_be_pulled(self, image: str) -> bool:
        """Images of a registry under `.invalid`, a domain that never is, cannot."""
        registry = image.split("/", 1)[0].split(":", maxsplit=1)[0]
        if "/" in image and registry.endswith(".invalid"):
            return False
        return not any(
            fnmatch.fnmatchcase(name, pattern)
            for pattern in self._missing
            for name in image_names(image)
        )

    def program_of(self, container: ContainerContext) -> Behaviour | None:
        """What this container does; None if it only waits to be stopped."""
        try:
            annotated = annotated_run(container)
        except ValueError as error:
            return functools.partial(_refuse, str(error))
        if annotated.log:
            container.write(annotated.log)
        if annotated.ends:
            return annotated.run
        for rule in self._rules:
            if rule.is_for(container):
                return rule.run
        return None if runs_until_stopped(container) else run_command


async def _refuse(why: str, _: ContainerContext) -> int:
    raise ValueError(why)


class SimulationError(Exception):  # it is told as what it is
    """A program of the simulation's own failed, and nobody had refused it anything."""


def simulation_program(run: Behaviour, *ends: type[Exception]) -> Behaviour:
    """The same behaviour, in which only refusals and these are a crash of the container."""

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
