"""Programs that scripts may call: a table of functions on the shell that runs them.

Containers call them directly as well, if their command is one of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.kubelet.shell.builtin_commands import BUILTINS
from pytest_kscen.embedded.kubelet.shell.filters import FILTERS
from pytest_kscen.embedded.kubelet.shell.words import ScriptError

if TYPE_CHECKING:
    from pytest_kscen.embedded.kubelet.shell.interpreter import Shell

Program: TypeAlias = Callable[["Shell", list[str]], Awaitable[int]]

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
FOREVER = 10.0 * 365 * 86400
TIMED_OUT = 124
SHELLS = ("ash", "bash", "dash", "sh")


def _ends_with(status: int) -> Program:
    async def run(_: Shell, __: list[str]) -> int:
        return status

    return run


def _filter(name: str) -> Program:
    async def run(shell: Shell, arguments: list[str]) -> int:
        written, status = FILTERS[name](arguments, shell.input.rest())
        shell.write(written)
        return status

    return run


PROGRAMS: dict[str, Program] = {
    **BUILTINS,
    **{name: _filter(name) for name in FILTERS},
    ":": _ends_with(0),
    "false": _ends_with(1),
    "true": _ends_with(0),
}


def _program(*names: str) -> Callable[[Program], Program]:
    """Add the decorated function to the table, under these names."""

    def register(program: Program) -> Program:
        PROGRAMS.update(dict.fromkeys(names, program))
        return program

    return register


@_program("date")
async def _date(shell: Shell, arguments: list[str]) -> int:
    shell.write(f"{int(shell.now())}\n" if "+%s" in arguments else timestamp_of(shell.now()) + "\n")
    return 0


@_program("hostname")
async def _hostname(shell: Shell, _: list[str]) -> int:
    shell.write(shell.scope.variables.get("HOSTNAME", "localhost") + "\n")
    return 0


@_program("echo")
async def _echo(shell: Shell, arguments: list[str]) -> int:
    ends_line = escapes = False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        ends_line = ends_line or "n" in arguments[0]
        escapes = escapes or "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    shell.write((_unescaped(text) if escapes else text) + ("" if ends_line else "\n"))
    return 0


@_program("printf")
async def _printf(shell: Shell, arguments: list[str]) -> int:
    if not arguments:
        raise ScriptError("printf: a format is missing")
    values = iter(arguments[1:])
    shell.write(
        re.sub(r"%[sd]", lambda _: next(values, ""), _unescaped(arguments[0])).replace("%%", "%")
    )
    return 0


@_program("sleep")
async def _sleep(shell: Shell, arguments: list[str]) -> int:
    seconds = 0.0
    for word in arguments:
        wait = _seconds(word)
        if wait is None:
            shell.write_error(f"sleep: invalid number '{word}'\n")
            return 1
        seconds += wait
    await shell.sleep(seconds)
    return 0


def _seconds(word: str) -> float | None:
    match = _DURATION.fullmatch(word)
    if match is None:
        return FOREVER if word in {"inf", "infinity"} else None
    return float(match[1]) * _UNITS[match[2]]


@_program("timeout")
async def _timeout(shell: Shell, arguments: list[str]) -> int:
    """Run a program with a time limit, as GNU's and busybox's do without options."""
    if len(arguments) < 2 or (seconds := _seconds(arguments[0])) is None:  # noqa: PLR2004
        raise ScriptError(
            f"timeout: {' '.join(arguments)} is not supported (supported: a duration and a program)"
        )
    try:
        async with asyncio.timeout(seconds or None):
            return await shell.subshell().call(arguments[1:])
    except TimeoutError:
        return TIMED_OUT


@_program(*SHELLS)
async def _sh(shell: Shell, arguments: list[str]) -> int:
    """Run a shell in the shell: `-c` and a script, or a script from the input."""
    flags: list[str] = []
    while arguments and arguments[0].startswith(("-", "+")):
        flags.append(arguments.pop(0))
    has_script = any("c" in flag for flag in flags)
    if not has_script and arguments:
        raise ScriptError(f"sh: a file ({arguments[0]}) is not supported")
    script = arguments[0] if has_script and arguments else shell.input.rest()
    inner = shell.child_process(arguments[2:])
    inner.stops_on_error = any("e" in flag for flag in flags)
    return await inner.run(script)


@_program("cat")
async def _cat(shell: Shell, arguments: list[str]) -> int:
    status = 0
    if not arguments:
        shell.write(shell.input.rest())
    for name in arguments:
        if name == "-":
            shell.write(shell.input.rest())
        elif name in shell.files:
            shell.write(shell.files[name])
        else:
            shell.write_error(f"cat: can't open '{name}': No such file or directory\n")
            status = 1
    return status


@_program("env")
async def _env(shell: Shell, arguments: list[str]) -> int:
    if arguments:
        raise ScriptError(f"env: arguments ({' '.join(arguments)}) are not supported")
    for name, value in sorted(shell.scope.environment().items()):
        shell.write(f"{name}={value}\n")
    return 0


@_program("tail")
async def _tail(shell: Shell, arguments: list[str]) -> int:
    """Run `tail`. With -f it waits for ever, which containers use to stay alive."""
    if any(re.fullmatch("-[fF]", word) for word in arguments):
        await shell.sleep(FOREVER)
    return await _filter("tail")(shell, arguments)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([ntr\\])", lambda match: _ESCAPES[match[1]], text)
