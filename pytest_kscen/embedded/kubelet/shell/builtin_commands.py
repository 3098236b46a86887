"""Built-in commands of the shell, which change its state or its control flow, and `test`.

A table of functions on the shell, merged into `programs.PROGRAMS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.shell.words import ScriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.kubelet.shell.interpreter import Shell
    from pytest_kscen.embedded.kubelet.shell.programs import Program


def evaluate_test(arguments: list[str], files: Mapping[str, str]) -> bool:
    match arguments:
        case [] | [_]:
            return bool(arguments and arguments[0])
        case ["-n" | "-z" as operator, word]:
            return bool(word) is (operator == "-n")
        case ["-f" | "-e" | "-s" | "-r", word]:
            return word in files
        case [left, "=" | "==" | "!=" as operator, right]:
            return (left == right) is (operator != "!=")
        case [left, operator, right] if operator in _NUMBERS:
            return _NUMBERS[operator](_number(left), _number(right))
    raise ScriptError(f"test: {' '.join(arguments)} is not supported")


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ScriptError(f"test: {text!r} is not a number") from error


class ShellExit(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(Exception):
    def __init__(self, *, stops_loop: bool) -> None:
        super().__init__()
        self.stops_loop = stops_loop


def _leave_turn(*, stops_loop: bool) -> Program:
    async def run(_: Shell, __: list[str]) -> int:
        raise LoopControl(stops_loop=stops_loop)

    return run


BUILTINS: dict[str, Program] = {
    "break": _leave_turn(stops_loop=True),
    "continue": _leave_turn(stops_loop=False),
}


def _builtin(*names: str) -> Callable[[Program], Program]:
    """Add the decorated function to the table, under these names."""

    def register(program: Program) -> Program:
        BUILTINS.update(dict.fromkeys(names, program))
        return program

    return register


@_builtin("read")
async def _read(shell: Shell, arguments: list[str]) -> int:
    """Read a line into variables; the last one gets the rest of the line. Return 1 at the end
    of the input.
    """
    names = [word for word in arguments if not word.startswith("-")] or ["REPLY"]
    line = shell.input.line()
    fields = (line or "").split(None, len(names) - 1)
    for number, name in enumerate(names):
        shell.scope.variables[name] = fields[number].rstrip() if number < len(fields) else ""
    return 1 if line is None else 0


@_builtin("exit")
async def _exit(shell: Shell, arguments: list[str]) -> int:
    if arguments and not arguments[0].isdigit():
        raise ScriptError(f"exit: {arguments[0]} is not a number")
    raise ShellExit(int(arguments[0]) % 256 if arguments else shell.scope.status)


@_builtin("export")
async def _export(shell: Shell, arguments: list[str]) -> int:
    for word in arguments:
        name, given, value = word.partition("=")
        shell.scope.exported[name] = None
        if given:
            shell.scope.variables[name] = value
    return 0


@_builtin("set")
async def _set(shell: Shell, arguments: list[str]) -> int:
    for word in arguments:
        if word.startswith(("-", "+")) and "e" in word:
            shell.stops_on_error = word.startswith("-")
    return 0


@_builtin("trap")
async def _trap(shell: Shell, arguments: list[str]) -> int:
    script, *signals = arguments or ["", "EXIT"]
    for signal in signals:
        name = signal.removeprefix("SIG")
        if name not in {"TERM", "15", "INT", "2"}:
            raise ScriptError(f"trap: {signal} is not supported (supported: TERM and INT)")
        if name in {"TERM", "15"} and script:
            shell.traps["TERM"] = script
    return 0


@_builtin("[", "test")
async def _test(shell: Shell, arguments: list[str]) -> int:
    if arguments and arguments[-1] == "]":
        arguments = arguments[:-1]
    if arguments and arguments[0] == "!":
        return 1 if evaluate_test(arguments[1:], shell.files) else 0
    return 0 if evaluate_test(arguments, shell.files) else 1


@_builtin("exec")
async def _exec(shell: Shell, arguments: list[str]) -> int:
    raise ShellExit(await shell.call(arguments))
