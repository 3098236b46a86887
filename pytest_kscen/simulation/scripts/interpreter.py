"""Runs a script's tree. Commands take no time but sleep; a turn of a loop takes a moment, so that time always moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scripts.expansion import Names
from pytest_kscen.simulation.scripts.parser import Branches, Chain, For, Not, Sequence, Simple, While, parse
from pytest_kscen.simulation.scripts.programs import PROGRAMS, Exit, Leap
from pytest_kscen.simulation.scripts.words import ScriptError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_kscen.simulation.scripts.parser import Command

NOT_UNDERSTOOD = 127
MOMENT = 0.01  # seconds of a loop's turn


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
        self.names = Names(dict(variables or {}), list(arguments))
        self.traps: dict[str, str] = {}
        self.stops_on_error = False
        self._is_stopping = is_stopping

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
            return self.names.status

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
                self.names.status = await self._simple(command)
            case Sequence():
                await self._sequence(command)
            case Chain():
                await self._chain(command)
            case Not():
                self.names.status = 0 if await self._command(command.command) else 1
            case Branches():
                await self._branches(command)
            case While():
                await self._while(command)
            case For():
                await self._for(command)
        return self.names.status

    async def _sequence(self, sequence: Sequence) -> None:
        self.names.status = 0 if not sequence.commands else self.names.status
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
        self.names.status = last

    async def _for(self, loop: For) -> None:
        words = self.names.expand(loop.words) if loop.words else self.names.arguments
        last = 0
        for word in words:
            self.names.variables[loop.name] = word
            try:
                last = await self._command(loop.body)
            except Leap as leap:
                last = 0
                if leap.ends:
                    break
        self.names.status = last

    async def _quietly(self, condition: Command) -> int:
        """A condition may fail without ending the script."""
        strict, self.stops_on_error = self.stops_on_error, False
        try:
            return await self._command(condition)
        finally:
            self.stops_on_error = strict

    async def _simple(self, command: Simple) -> int:
        for name, word in command.assignments:
            self.names.variables[name] = self.names.text(word)
        words = self.names.expand(command.words)
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
