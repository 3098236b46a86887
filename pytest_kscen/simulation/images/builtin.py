"""What images do that nobody registered: those with a shell run their command, all others run until they are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.images.names import names_of
from pytest_kscen.simulation.network.programs import NAMES, programs_on
from pytest_kscen.simulation.scripts import NOT_UNDERSTOOD, PROGRAMS, SHELLS, Shell

if TYPE_CHECKING:
    from pytest_kscen.simulation.images.context import ContainerContext

UNDERSTOOD = (*PROGRAMS, *NAMES)
WITH_SHELL = ("alpine", "bash", "busybox", "debian", "iperf3", "ubuntu")


def waits_to_be_stopped(container: ContainerContext) -> bool:
    """Whether it is a server that nobody here knows: it runs until SIGTERM comes."""
    if names_of(container.image)[2] in WITH_SHELL:
        return False
    return not container.command or _program(container.command) not in UNDERSTOOD


def why_unending(container: ContainerContext) -> str:
    """What to know of one that waits to be stopped in a pod that is to come to an end; empty if it will."""
    if not waits_to_be_stopped(container) or container.pod["spec"].get("restartPolicy", "Always") == "Always":
        return ""
    what = f"the command {container.command[0]!r}" if container.command else f"the image {container.image!r}"
    how = "the annotations kscen.io/exit-code, kscen.io/exit-after and kscen.io/log say what comes of it"
    return f"container {container.name} runs until it is stopped, as {what} is not simulated: {how}"


async def built_in(container: ContainerContext) -> int:
    """Run the command of an image that has a shell, or a command that is one."""
    try:
        return await _run(container)
    finally:
        if container.host:
            container.host.close()


async def _run(container: ContainerContext) -> int:
    words = [*container.command, *container.args]
    if not words:
        return 0  # a shell that nobody types to
    if _program(words) in SHELLS:
        return await _script(container, words)
    return await _shell(container).call(words)


def _program(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


async def _script(container: ContainerContext, words: list[str]) -> int:
    flags, rest = [], words[1:]
    while rest and rest[0].startswith(("-", "+")):
        flags.append(rest.pop(0))
    if not any("c" in flag for flag in flags) or not rest:
        script = container.files.get(rest[0]) if rest else ""
        if script is None:
            container.write(f"{words[0]}: can't open '{rest[0]}': No such file or directory\n")
            return NOT_UNDERSTOOD
        return await _shell(container, tuple(rest[1:])).run(script)
    shell = _shell(container, tuple(rest[2:]))
    shell.stops_on_error = any("e" in flag for flag in flags)
    return await shell.run(rest[0])


def _shell(container: ContainerContext, arguments: tuple[str, ...] = ()) -> Shell:
    return Shell(
        container.write,
        container.sleep,
        variables=container.env,
        arguments=arguments,
        files=container.files,
        programs=programs_on(container.host) if container.host else {},
        now=container.clock.now,
        is_stopping=lambda: container.is_stopping,
    )
