"""What a script is made of: commands, and commands of commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pytest_kscen.simulation.scripts.words import Word


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, and a command with its arguments."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Redirected:
    """A command whose output goes elsewhere."""

    command: Command
    redirections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands of which each reads what the one before has written."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    """Commands whose variables and whose exit are their own."""

    command: Command


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A command, then others that run if the one before succeeded (&&) or failed (||)."""

    first: Command
    rest: tuple[tuple[str, Command], ...]


@dataclass(frozen=True, slots=True)
class Not:
    command: Command


@dataclass(frozen=True, slots=True)
class Branches:
    """if, elif, else."""

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


Command: TypeAlias = Simple | Redirected | Pipe | Subshell | Sequence | Chain | Not | Branches | While | For
