"""Parse tokens into a tree of commands.

Supports lists, && and ||, pipelines, redirections, if, while, until, for, braces and parentheses.
Trees are cached by script.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TypeAlias

from pytest_kscen.embedded.kubelet.shell.words import (
    LiteralText,
    ScriptError,
    ShellLexer,
    ShellToken,
    Word,
)


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Redirected:
    command: Command
    redirections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    command: Command


@dataclass(frozen=True, slots=True)
class Sequence:
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Command followed by others that run if the one before succeeded (&&) or failed (||)."""

    first: Command
    rest: tuple[tuple[str, Command], ...]


@dataclass(frozen=True, slots=True)
class Not:
    command: Command


@dataclass(frozen=True, slots=True)
class Branches:
    branches: tuple[tuple[Command, Command], ...]
    otherwise: Command | None


@dataclass(frozen=True, slots=True)
class While:
    condition: Command
    body: Command
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    name: str
    words: tuple[Word, ...]
    body: Command


Command: TypeAlias = (
    Simple | Redirected | Pipeline | Subshell | Sequence | Chain | Not | Branches | While | For
)


_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_SEQUENCE_ENDS = ("then", "elif", "else", "fi", "do", "done", "}", ")")


@functools.lru_cache(maxsize=32)
def parse(script: str) -> Command:
    parser = _ShellParser(ShellLexer(script).tokens())
    tree = parser.sequence()
    parser.expect_end()
    return tree


class _ShellParser:
    def __init__(self, tokens: list[ShellToken]) -> None:
        self._tokens = tokens
        self._at = 0

    def sequence(self) -> Sequence:
        commands: list[Command] = []
        while True:
            while self._operator(";"):
                pass
            if self._next() is None or self._peek() in _SEQUENCE_ENDS:
                return Sequence(tuple(commands))
            first = self._negatable()
            rest: list[tuple[str, Command]] = []
            while operator := self._operator("&&", "||"):
                while self._operator(";"):
                    pass
                rest.append((operator, self._negatable()))
            commands.append(Chain(first, tuple(rest)) if rest else first)

    def expect_end(self) -> None:
        if self._next() is not None:
            raise ScriptError(f"unexpected {self._peek()!r}")

    def _negatable(self) -> Command:
        if self._keyword("!"):
            return Not(self._pipe())
        return self._pipe()

    def _pipe(self) -> Command:
        commands = [self._redirected()]
        while self._operator("|"):
            while self._operator(";"):
                pass
            commands.append(self._redirected())
        return Pipeline(tuple(commands)) if len(commands) > 1 else commands[0]

    def _redirected(self) -> Command:
        before = self._redirections()
        command = self._command()
        if isinstance(command, Redirected):
            return Redirected(command.command, (*before, *command.redirections))
        redirections = (*before, *self._redirections())
        return Redirected(command, redirections) if redirections else command

    def _redirections(self) -> tuple[str, ...]:
        found: list[str] = []
        while (token := self._next()) and ">" in token.operator:
            found.append(token.operator)
            self._at += 1
        return tuple(found)

    def _command(self) -> Command:
        if self._keyword("if"):
            return self._branches()
        for keyword in ("while", "until"):
            if self._keyword(keyword):
                condition = self.sequence()
                return While(condition, self._block(), keyword == "until")
        if self._keyword("for"):
            name = self._peek()
            self._at += 1
            words: list[Word] = []
            if self._keyword("in"):
                while (token := self._next()) and token.word:
                    words.append(token.word)
                    self._at += 1
            while self._operator(";"):
                pass
            return For(name, tuple(words), self._block())
        for open_, close in ("{", "}"), ("(", ")"):
            if self._peek() == open_:
                self._at += 1
                body = self.sequence()
                self._expect(close)
                return Subshell(body) if open_ == "(" else body
        return self._simple()

    def _branches(self) -> Branches:
        branches: list[tuple[Command, Command]] = []
        otherwise: Command | None = None
        while True:
            condition = self.sequence()
            self._expect("then")
            branches.append((condition, self.sequence()))
            if self._keyword("elif"):
                continue
            if self._keyword("else"):
                otherwise = self.sequence()
            self._expect("fi")
            return Branches(tuple(branches), otherwise)

    def _block(self) -> Command:
        self._expect("do")
        body = self.sequence()
        self._expect("done")
        return body

    def _simple(self) -> Command:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirections: list[str] = []
        while (token := self._next()) and (token.word or ">" in token.operator):
            assigned = None if words or not token.word else _assignment(token.word)
            if assigned:
                assignments.append(assigned)
            elif token.word:
                words.append(token.word)
            else:
                redirections.append(token.operator)
            self._at += 1
        if not assignments and not words:
            raise ScriptError(f"unexpected {self._peek() or 'the end'!r}")
        simple = Simple(tuple(assignments), tuple(words))
        return Redirected(simple, tuple(redirections)) if redirections else simple

    def _next(self) -> ShellToken | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _peek(self) -> str:
        token = self._next()
        return (token.operator or token.plain) if token else ""

    def _operator(self, *operators: str) -> str:
        token = self._next()
        if token and token.operator in operators:
            self._at += 1
            return token.operator
        return ""

    def _keyword(self, keyword: str) -> bool:
        token = self._next()
        found = token is not None and token.plain == keyword
        self._at += found
        return found

    def _expect(self, keyword: str) -> None:
        if self._peek() != keyword:
            raise ScriptError(f"{keyword!r} is missing before {self._peek() or 'the end'!r}")
        self._at += 1


def _assignment(word: Word) -> tuple[str, Word] | None:
    head = word[0]
    match = (
        _ASSIGNMENT.fullmatch(head.text)
        if isinstance(head, LiteralText) and not head.quoted
        else None
    )
    if match is None:
        return None
    return match["name"], (LiteralText(match["value"]), *word[1:])
