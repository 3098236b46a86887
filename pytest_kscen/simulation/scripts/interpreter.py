"""Runs a script's tree. Commands take no time but sleep; a turn of a loop takes a moment, so that time always moves."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING

from pytest_kscen.simulation.scripts.parser import Branches, Chain, For, Not, Sequence, Simple, While, parse
from pytest_kscen.simulation.scripts.programs import PROGRAMS, Exit, Leap
from pytest_kscen.simulation.scripts.words import Arithmetic, Literal, ScriptError, Variable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_kscen.simulation.scripts.parser import Command
    from pytest_kscen.simulation.scripts.words import Word

NOT_UNDERSTOOD = 127
_ALL_ARGUMENTS = (Literal("", quoted=True), Variable("@", quoted=True))
MOMENT = 0.01  # seconds of a loop's turn
_SUMS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class Shell:
    """One run of one script. `traps` may set what is to be done when the container is asked to stop."""

    def __init__(
        self,
        write: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]],
        *,
        variables: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        files: Mapping[str, str] | None = None,
        now: Callable[[], float] = lambda: 0.0,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.write = write
        self.sleep = sleep
        self.now = now
        self.files = files or {}
        self.variables = dict(variables or {})
        self.arguments = list(arguments)
        self.traps: dict[str, str] = {}
        self.stops_on_error = False
        self._is_stopping = is_stopping
        self.status = 0

    async def run(self, script: str) -> int:
        """The exit code of a script."""
        try:
            return await self._command(parse(script))
        except ScriptError as error:
            self.write(f"sh: {error}\n")
            return NOT_UNDERSTOOD
        except Exit as exit_:
            return exit_.code
        except Leap:
            return self.status

    async def call(self, words: list[str]) -> int:
        """The exit code of one command, its words as they are."""
        try:
            return await self._program(words)
        except ScriptError as error:
            self.write(f"{error}\n")
            return NOT_UNDERSTOOD
        except Exit as exit_:
            return exit_.code

    # --- the tree ---

    async def _command(self, command: Command) -> int:
        match command:
            case Simple():
                self.status = await self._simple(command)
            case Sequence():
                await self._sequence(command)
            case Chain():
                await self._chain(command)
            case Not():
                self.status = 0 if await self._command(command.command) else 1
            case Branches():
                await self._branches(command)
            case While():
                await self._while(command)
            case For():
                await self._for(command)
        return self.status

    async def _sequence(self, sequence: Sequence) -> None:
        self.status = 0 if not sequence.commands else self.status
        for command in sequence.commands:
            status = await self._command(command)
            if status and self.stops_on_error and isinstance(command, Simple):
                raise Exit(status)

    async def _chain(self, chain: Chain) -> None:
        status = await self._command(chain.first)
        for joint, command in chain.rest:
            if (status == 0) is (joint == "&&"):
                status = await self._command(command)
                if status and self.stops_on_error and command is chain.rest[-1][1]:
                    raise Exit(status)

    async def _branches(self, branches: Branches) -> None:
        for condition, body in branches.branches:
            if await self._quietly(condition) == 0:
                await self._command(body)
                return
        self.status = 0
        if branches.otherwise:
            await self._command(branches.otherwise)

    async def _while(self, loop: While) -> None:
        last = 0
        while (await self._quietly(loop.condition) != 0) is loop.until:
            try:
                last = await self._command(loop.body)
            except Leap as leap:
                last = 0
                if leap.ends:
                    break
            await self.sleep(MOMENT)
        self.status = last

    async def _for(self, loop: For) -> None:
        words = self._expand(loop.words) if loop.words else self.arguments
        last = 0
        for word in words:
            self.variables[loop.name] = word
            try:
                last = await self._command(loop.body)
            except Leap as leap:
                last = 0
                if leap.ends:
                    break
        self.status = last

    async def _quietly(self, condition: Command) -> int:
        """A condition may fail without ending the script."""
        strict, self.stops_on_error = self.stops_on_error, False
        try:
            return await self._command(condition)
        finally:
            self.stops_on_error = strict

    async def _simple(self, command: Simple) -> int:
        for name, word in command.assignments:
            self.variables[name] = "".join(self._text(part) for part in word)
        words = self._expand(command.words)
        if not words:
            return 0
        heard, self.write = self.write, (lambda _: None) if command.silent else self.write
        try:
            status = await self._program(words)
        finally:
            self.write = heard
        await self._heed_stop()
        return status

    async def _program(self, words: list[str]) -> int:
        program = PROGRAMS.get(words[0].rpartition("/")[2])
        if program is None:
            raise ScriptError(f"{words[0]}: not found (understood are {', '.join(sorted(PROGRAMS))})")
        return await program(self, words[1:])

    async def _heed_stop(self) -> None:
        """SIGTERM goes unnoticed by a shell that is process 1, unless a trap waits for it."""
        if self.traps and self._is_stopping():
            script = self.traps.pop("TERM", None)
            if script is not None:
                await self._command(parse(script))

    # --- words ---

    def _expand(self, words: tuple[Word, ...]) -> list[str]:
        found: list[str] = []
        for word in words:
            if word == _ALL_ARGUMENTS:
                found += self.arguments
            elif any(isinstance(part, Variable) and not part.quoted for part in word):
                found += self._split(word)
            else:
                found.append("".join(self._text(part) for part in word))
        return found

    def _split(self, word: Word) -> list[str]:
        """What comes from a variable without quotes falls apart at blanks."""
        fields, open_ = [""], False
        for part in word:
            text = self._text(part)
            if isinstance(part, Variable) and not part.quoted:
                first, *others = re.split(r"\s+", text)
                fields[-1] += first
                fields += others
            else:
                fields[-1] += text
                open_ = open_ or (isinstance(part, Literal) and part.quoted)
        return [field for field in fields if field or open_]

    def _text(self, part: Literal | Variable | Arithmetic) -> str:
        if isinstance(part, Literal):
            return part.text
        if isinstance(part, Arithmetic):
            return str(int(self._sum(part.expression)))
        return self._value(part.name) or part.default

    def _value(self, name: str) -> str:
        if name in _SPECIAL:
            return _SPECIAL[name](self)
        if name.isdigit():
            return "".join(self.arguments[int(name) - 1 : int(name)])
        return self.variables.get(name, "")

    def _sum(self, expression: str) -> int:
        text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda match: self._value(match[1]) or "0", expression)
        try:
            return _calculate(ast.parse(text.replace("/", "//").strip(), mode="eval").body)
        except (SyntaxError, KeyError, ValueError, ZeroDivisionError) as error:
            raise ScriptError(f"the sum $(({expression})) is not understood here") from error


_SPECIAL: dict[str, Callable[[Shell], str]] = {
    "?": lambda shell: str(shell.status),
    "#": lambda shell: str(len(shell.arguments)),
    "@": lambda shell: " ".join(shell.arguments),
    "*": lambda shell: " ".join(shell.arguments),
    "$": lambda _: "1",
    "0": lambda _: "sh",
}


def _calculate(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_calculate(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return int(_SUMS[type(op)](_calculate(left), _calculate(right)))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_SUMS[type(op)](_calculate(left), _calculate(right)))
    raise ValueError(ast.dump(node))
