"""Run a script's tree. Time passes only in `sleep` and in commands that take time, and a moment in
each turn of a loop.

The commands of a pipeline run one after the other, each on the complete output of the one before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pytest_kscen.embedded.kubelet.shell.builtin_commands import LoopControl, ShellExit
from pytest_kscen.embedded.kubelet.shell.parser import (
    Branches,
    Chain,
    For,
    Not,
    Pipeline,
    Redirected,
    Sequence,
    Simple,
    Subshell,
    While,
    parse,
)
from pytest_kscen.embedded.kubelet.shell.programs import PROGRAMS
from pytest_kscen.embedded.kubelet.shell.words import (
    ScriptError,
    ShellScope,
    Substitution,
    SubstitutionOutput,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from pytest_kscen.embedded.kubelet.shell.parser import Command
    from pytest_kscen.embedded.kubelet.shell.programs import Program
    from pytest_kscen.embedded.kubelet.shell.words import Word


WriteText: TypeAlias = Callable[[str], None]


class TextBuffer:
    """Text that one command writes and others read, each from where the last one stopped."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._at = 0

    def add(self, text: str) -> None:
        self._text += text

    def rest(self) -> str:
        found, self._at = self._text[self._at :], len(self._text)
        return found

    def line(self) -> str | None:
        if self._at >= len(self._text):
            return None
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        found, self._at = self._text[self._at : end], end + 1
        return found


def redirect(
    write: WriteText, write_error: WriteText, redirections: tuple[str, ...]
) -> tuple[WriteText, WriteText]:
    streams = {"1": write, "2": write_error, "null": lambda _: None}
    for redirection in redirections:
        source, target = redirection.split(">")
        for one in "12" if source == "&" else source:
            streams[one] = streams[target]
    return streams["1"], streams["2"]


NOT_UNDERSTOOD = 127
LOOP_DELAY = 0.01  # seconds per turn of a loop
STRICT_COMMANDS = (
    Simple,
    Redirected,
    Pipeline,
    Subshell,
)  # their failure ends a script with `set -e`


class Shell:
    """Shell of one run of one script, with its variables, input, output and traps.

    `traps` holds the script to run when the container receives SIGTERM. Subshells are copies.
    """

    def __init__(
        self,
        write: WriteText,
        sleep: Callable[[float], Awaitable[None]],
        *,
        variables: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        files: Mapping[str, str] | None = None,
        programs: Mapping[str, Program] | None = None,
        now: Callable[[], float] = lambda: 0.0,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.write = write
        self.write_error = write
        self.input = TextBuffer()
        self.sleep = sleep
        self.now = now
        self.files = files or {}
        self.programs = {**PROGRAMS, **(programs or {})}
        self.scope = ShellScope(
            dict(variables or {}), list(arguments), dict.fromkeys(variables or ())
        )
        self.traps: dict[str, str] = {}
        self.stops_on_error = False
        self._is_stopping = is_stopping

    async def run(self, script: str) -> int:
        """Run a script and return its exit code; 127 for unsupported syntax."""
        try:
            return await self._command(parse(script))
        except ScriptError as error:
            self.write_error(f"sh: {error}\n")
            return NOT_UNDERSTOOD
        except ShellExit as exit_:
            return exit_.code
        except LoopControl:
            return self.scope.status

    async def call(self, words: list[str]) -> int:
        """Run one command whose words are not expanded, and return its exit code."""
        try:
            return await self.program(words)
        except ScriptError as error:
            self.write_error(f"{error}\n")
            return NOT_UNDERSTOOD
        except ShellExit as exit_:
            return exit_.code

    async def program(self, words: list[str]) -> int:
        program = self.programs.get(words[0].rpartition("/")[2])
        if program is None:
            raise ScriptError(
                f"{words[0]}: not found (supported: {', '.join(sorted(self.programs))})"
            )
        return await program(self, words[1:])

    def subshell(self) -> Shell:
        other = copy.copy(self)
        other.scope = self.scope.copy()
        other.traps = {}
        return other

    def child_process(self, arguments: list[str]) -> Shell:
        other = self.subshell()
        other.scope = ShellScope(self.scope.environment(), arguments, self.scope.exported)
        other.stops_on_error = False
        return other

    async def _command(self, command: Command) -> int:
        self.scope.status = await self._RUNS[type(command)](self, command)
        return self.scope.status

    async def _sequence(self, sequence: Sequence) -> int:
        status = 0
        for command in sequence.commands:
            status = await self._command(command)
            if status and self.stops_on_error and isinstance(command, STRICT_COMMANDS):
                raise ShellExit(status)
        return status

    async def _chain(self, chain: Chain) -> int:
        status = await self._run_condition(chain.first)
        for joint, command in chain.rest:
            if (status == 0) is (joint == "&&"):
                is_last = command is chain.rest[-1][1]
                status = await (self._command(command) if is_last else self._run_condition(command))
                if status and self.stops_on_error and is_last:
                    raise ShellExit(status)
        return status

    async def _not(self, negation: Not) -> int:
        return 0 if await self._run_condition(negation.command) else 1

    async def _branches(self, branches: Branches) -> int:
        for condition, body in branches.branches:
            if await self._run_condition(condition) == 0:
                return await self._command(body)
        return await self._command(branches.otherwise) if branches.otherwise else 0

    async def _while(self, loop: While) -> int:
        last = 0
        while (await self._run_condition(loop.condition) != 0) is loop.until:
            try:
                last = await self._command(loop.body)
            except LoopControl as leap:
                last = 0
                if leap.stops_loop:
                    break
            await self.sleep(LOOP_DELAY)
        return last

    async def _for(self, loop: For) -> int:
        words = await self._expanded(loop.words) if loop.words else self.scope.arguments
        last = 0
        for word in words:
            self.scope.variables[loop.name] = word
            try:
                last = await self._command(loop.body)
            except LoopControl as leap:
                last = 0
                if leap.stops_loop:
                    break
        return last

    async def _run_condition(self, condition: Command) -> int:
        """Run a condition, whose failure does not end a script with `set -e`."""
        strict, self.stops_on_error = self.stops_on_error, False
        try:
            return await self._command(condition)
        finally:
            self.stops_on_error = strict

    async def _redirected(self, command: Redirected) -> int:
        before = self.write, self.write_error
        self.write, self.write_error = redirect(self.write, self.write_error, command.redirections)
        try:
            return await self._command(command.command)
        finally:
            self.write, self.write_error = before

    async def _pipe(self, pipe: Pipeline) -> int:
        *first, last = pipe.commands
        flowing = self.input
        for command in first:
            part, written = self.subshell(), TextBuffer()
            part.input, part.write = flowing, written.add
            await self._isolated(part, command)
            flowing = written
        part = self.subshell()
        part.input = flowing
        return await self._isolated(part, last)

    async def _isolated(self, shell: Shell, command: Command) -> int:
        try:
            return await shell._command(command)
        except ShellExit as exit_:
            return exit_.code

    async def _simple(self, command: Simple) -> int:
        self.scope.status = 0 if not command.words else self.scope.status
        for name, word in command.assignments:
            self.scope.variables[name] = self.scope.text(await self._substituted(word))
        words = await self._expanded(command.words)
        if not words:
            return self.scope.status
        status = await self.program(words)
        # A shell as process 1 ignores SIGTERM unless it has a trap.
        if self.traps and self._is_stopping():
            script = self.traps.pop("TERM", None)
            if script is not None:
                await self._command(parse(script))
        return status

    async def _expanded(self, words: tuple[Word, ...]) -> list[str]:
        return self.scope.expand(tuple([await self._substituted(word) for word in words]))

    async def _substituted(self, word: Word) -> Word:
        if not any(isinstance(part, Substitution) for part in word):
            return word
        parts = list(word)
        for place, part in enumerate(word):
            if isinstance(part, Substitution):
                shell, written = self.subshell(), TextBuffer()
                shell.write = written.add
                self.scope.status = await self._isolated(shell, parse(part.script))
                parts[place] = SubstitutionOutput(written.rest().rstrip("\n"), part.quoted)
        return tuple(parts)

    _RUNS: ClassVar[dict[type[Any], Callable[[Any, Any], Awaitable[int]]]] = {
        Simple: _simple,
        Redirected: _redirected,
        Pipeline: _pipe,
        Subshell: lambda self, node: self._isolated(self.subshell(), node.command),
        Sequence: _sequence,
        Chain: _chain,
        Not: _not,
        Branches: _branches,
        While: _while,
        For: _for,
    }
