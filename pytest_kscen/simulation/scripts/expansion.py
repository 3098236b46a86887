"""From words to text: what variables, arguments and sums stand for when a command is about to run.

Substitutions have been replaced by what they wrote before that (`Written`).
"""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.scripts.words import Arithmetic, Literal, ScriptError, Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.simulation.scripts.words import Part, Word

ALL_ARGUMENTS = (Literal("", quoted=True), Variable("@", quoted=True))


@dataclass(frozen=True, slots=True)
class Written(Literal):
    """What a substitution wrote."""


@dataclass(slots=True)
class Names:
    """What a script knows by name: its variables and arguments, and how its last command ended."""

    variables: dict[str, str]
    arguments: list[str]
    exported: dict[str, None]
    status: int = 0

    def copy(self) -> Names:
        return Names(dict(self.variables), list(self.arguments), dict(self.exported), self.status)

    def environment(self) -> dict[str, str]:
        """What a program that is called inherits."""
        return {name: value for name, value in self.variables.items() if name in self.exported}

    def expand(self, words: tuple[Word, ...]) -> list[str]:
        """A command's words."""
        found: list[str] = []
        for word in words:
            if word == ALL_ARGUMENTS:
                found += self.arguments
            elif any(map(_falls_apart, word)):
                found += self._split(word)
            else:
                found.append(self.text(word))
        return found

    def text(self, word: Word) -> str:
        """One word that stays whole."""
        return "".join(map(self._part, word))

    def value(self, name: str) -> str:
        if name in _SPECIAL:
            return _SPECIAL[name](self)
        if name.isdigit():
            return "".join(self.arguments[int(name) - 1 : int(name)])
        return self.variables.get(name, "")

    def _split(self, word: Word) -> list[str]:
        """What comes from a variable or a substitution without quotes falls apart at blanks."""
        fields, is_quoted = [""], False
        for part in word:
            if _falls_apart(part):
                first, *others = re.split(r"\s+", self._part(part))
                fields[-1] += first
                fields += others
            else:
                fields[-1] += self._part(part)
                is_quoted = is_quoted or (isinstance(part, Literal) and part.quoted)
        return [field for field in fields if field or is_quoted]

    def _part(self, part: Part) -> str:
        match part:
            case Literal():
                return part.text
            case Arithmetic():
                return str(self._sum(part.expression))
            case Variable():
                return self.value(part.name) or part.default
        raise ScriptError("a substitution cannot stand here")

    def _sum(self, expression: str) -> int:
        text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda match: self.value(match[1]) or "0", expression)
        try:
            return _calculate(ast.parse(text.replace("/", "//").strip(), mode="eval").body)
        except (SyntaxError, KeyError, ValueError, ZeroDivisionError) as error:
            raise ScriptError(f"the sum $(({expression})) is not understood here") from error


def _falls_apart(part: Part) -> bool:
    return isinstance(part, Variable | Written) and not part.quoted


_SPECIAL: dict[str, Callable[[Names], str]] = {
    "?": lambda names: str(names.status),
    "#": lambda names: str(len(names.arguments)),
    "@": lambda names: " ".join(names.arguments),
    "*": lambda names: " ".join(names.arguments),
    "$": lambda _: "1",
    "0": lambda _: "sh",
}
_SUMS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
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
