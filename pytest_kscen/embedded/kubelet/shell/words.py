"""Split a script into tokens, and expand words into text.

A word keeps its parts until the command runs, as variables and substitutions are known only then.
"""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


class ScriptError(Exception):
    """Syntax, option or command that the simulated shell does not support, or an error in the
    script.
    """


@dataclass(frozen=True, slots=True)
class LiteralText:
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class ShellVariable:
    name: str
    default: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    expression: str


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`: replaced by the output of the script, without trailing line ends."""

    script: str
    quoted: bool = False


Part: TypeAlias = "LiteralText | ShellVariable | Arithmetic | Substitution"
Word: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ShellToken:
    """Word or operator. A line end is ";", and a redirection names source and target: "1>null",
    "2>1".
    """

    operator: str = ""
    word: Word = ()

    @property
    def plain(self) -> str:
        """Return the text of a word without quotes and variables, as keywords are; "" for other
        words.
        """
        if (
            len(self.word) == 1
            and isinstance(self.word[0], LiteralText)
            and not self.word[0].quoted
        ):
            return self.word[0].text
        return ""


_BLANK = re.compile(r"[ \t]+|\\\n|#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||[;\n()|]")
_REDIRECTION = re.compile(
    r"(?P<source>[12&]?)>>?\s*(?:&(?P<stream>[12])|/dev/(?P<device>null|stdout|stderr)\b)"
    r"|<\s*/dev/null\b"
)
_DEVICES = {"null": "null", "stdout": "1", "stderr": "2"}
_REFUSED = re.compile(r"<<|[0-9]*[<>]|&")
_BRACED = re.compile(r"\$\{(?P<name>\w+|[?#@*])(?::?-(?P<default>[^}]*))?\}")
_NAMED = re.compile(r"\$(?P<name>[A-Za-z_]\w*|[0-9?#@*$])")
_ARITHMETIC = re.compile(r"\$\(\((?P<expression>.*?)\)\)", re.DOTALL)
_PLAIN = re.compile(r"[^\s;&|<>()$`'\"\\]+")
_IN_QUOTES = re.compile(r"[^\"$`\\]+")
_OPERATOR_MEANINGS = {"\n": ";", "&&": "&&", "||": "||"}
_UNSUPPORTED = {"<<": "a here-document", "&": "a background job"}


class ShellLexer:
    """Read a script, or the script of a substitution, once from its start to its end."""

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self._at = at

    def tokens(self) -> list[ShellToken]:
        found: list[ShellToken] = []
        while self._at < len(self._text):
            if token := self._token():
                found.append(token)
        return found

    def end_of_substitution(self) -> int:
        """Return the position of the parenthesis that closes the one just before the start."""
        depth = 1
        while self._at < len(self._text):
            token = self._token()
            depth += {"(": 1, ")": -1}.get(token.operator, 0) if token else 0
            if not depth:
                return self._at - 1
        raise ScriptError("the substitution $( is not closed")

    def _token(self) -> ShellToken | None:
        if self._take(_BLANK):
            return None
        if redirection := self._take(_REDIRECTION):
            # Input from /dev/null is the default: empty.
            if redirection[0].startswith("<"):
                return None
            target = redirection["stream"] or _DEVICES[redirection["device"]]
            return ShellToken(operator=f"{redirection['source'] or '1'}>{target}")
        if operator := self._take(_OPERATOR):
            return ShellToken(operator=_OPERATOR_MEANINGS.get(operator[0], operator[0]))
        return ShellToken(word=self._word())

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _word(self) -> Word:
        parts: list[Part] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if _OPERATOR.match(self._text, self._at) or _REDIRECTION.match(self._text, self._at):
                break
            if refused := _REFUSED.match(self._text, self._at):
                raise self._refusal(refused[0])
            if character == "'":
                parts.append(LiteralText(self._until("'"), quoted=True))
            elif character == '"':
                parts.extend(self._quoted())
            elif character == "\\":
                parts.append(
                    LiteralText(
                        self._text[self._at + 1 : self._at + 2].replace("\n", ""), quoted=True
                    )
                )
                self._at += 2
            elif character in "$`":
                parts.append(self._expansion(quoted=False))
            elif plain := self._take(_PLAIN):
                parts.append(LiteralText(plain[0]))
            else:
                break
        return tuple(parts)

    def _until(self, end: str) -> str:
        close = self._text.find(end, self._at + 1)
        if close < 0:
            raise ScriptError(f"line {self._line()}: the quote {end} is not closed")
        found = self._text[self._at + 1 : close]
        self._at = close + 1
        return found

    def _quoted(self) -> list[Part]:
        parts: list[Part] = [LiteralText("", quoted=True)]
        start, self._at = self._at, self._at + 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return parts
            if character == "\\":
                escaped = self._text[self._at + 1 : self._at + 2]
                parts.append(
                    LiteralText(escaped if escaped in '"$`\\' else "\\" + escaped, quoted=True)
                )
                self._at += 2
            elif character in "$`":
                parts.append(self._expansion(quoted=True))
            elif plain := self._take(_IN_QUOTES):
                parts.append(LiteralText(plain[0], quoted=True))
        self._at = start
        raise ScriptError(f'line {self._line()}: the quote " is not closed')

    def _expansion(self, *, quoted: bool) -> Part:
        if self._text[self._at] == "`":
            return Substitution(self._until("`").replace("\\`", "`"), quoted)
        if match := self._take(_ARITHMETIC):
            return Arithmetic(match["expression"])
        if match := self._take(_BRACED):
            return ShellVariable(match["name"], match["default"] or "", quoted)
        if match := self._take(_NAMED):
            return ShellVariable(match["name"], "", quoted)
        if self._text.startswith("$(", self._at):
            start = self._at + 2
            end = ShellLexer(self._text, start).end_of_substitution()
            self._at = end + 1
            return Substitution(self._text[start:end], quoted)
        if self._text.startswith("${", self._at):
            raise self._refusal("${")
        self._at += 1
        return LiteralText("$", quoted)

    def _refusal(self, what: str) -> ScriptError:
        name = _UNSUPPORTED.get(
            what, "a redirection" if what.strip("0123456789") in "<>" else "this expansion"
        )
        return ScriptError(f"line {self._line()}: {name} ({what}) is not supported")

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1


ALL_ARGUMENTS = (LiteralText("", quoted=True), ShellVariable("@", quoted=True))


@dataclass(frozen=True, slots=True)
class SubstitutionOutput(LiteralText):
    """Output of a substitution, which is split at blanks unless quoted."""


@dataclass(slots=True)
class ShellScope:
    """Names of a script: variables, arguments, exported names, and the status of the last
    command.
    """

    variables: dict[str, str]
    arguments: list[str]
    exported: dict[str, None]
    status: int = 0

    def copy(self) -> ShellScope:
        return ShellScope(
            dict(self.variables), list(self.arguments), dict(self.exported), self.status
        )

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if name in self.exported}

    def expand(self, words: tuple[Word, ...]) -> list[str]:
        """Return the words of a command as text; unquoted variables are split at blanks."""
        found: list[str] = []
        for word in words:
            if word == ALL_ARGUMENTS:
                found += self.arguments
            elif any(map(_is_split, word)):
                # Unquoted variables and substitutions are split at blanks.
                fields, is_quoted = [""], False
                for part in word:
                    if _is_split(part):
                        first, *others = re.split(r"\s+", self._part(part))
                        fields[-1] += first
                        fields += others
                    else:
                        fields[-1] += self._part(part)
                        is_quoted = is_quoted or (isinstance(part, LiteralText) and part.quoted)
                found += [field for field in fields if field or is_quoted]
            else:
                found.append(self.text(word))
        return found

    def text(self, word: Word) -> str:
        return "".join(map(self._part, word))

    def value(self, name: str) -> str:
        if name in _SPECIAL:
            return _SPECIAL[name](self)
        if name.isdigit():
            return "".join(self.arguments[int(name) - 1 : int(name)])
        return self.variables.get(name, "")

    def _part(self, part: Part) -> str:
        match part:
            case LiteralText():
                return part.text
            case Arithmetic():
                expression = re.sub(
                    r"\$?\{?([A-Za-z_]\w*)\}?",
                    lambda match: self.value(match[1]) or "0",
                    part.expression,
                ).replace("/", "//")
                try:
                    return str(_calculate(ast.parse(expression.strip(), mode="eval").body))
                except (SyntaxError, KeyError, ValueError, ZeroDivisionError) as error:
                    raise ScriptError(f"the sum $(({part.expression})) is not supported") from error
            case ShellVariable():
                return self.value(part.name) or part.default
        raise ScriptError("a substitution cannot stand here")


def _is_split(part: Part) -> bool:
    return isinstance(part, ShellVariable | SubstitutionOutput) and not part.quoted


_SPECIAL: dict[str, Callable[[ShellScope], str]] = {
    "?": lambda names: str(names.status),
    "#": lambda names: str(len(names.arguments)),
    "@": lambda names: " ".join(names.arguments),
    "*": lambda names: " ".join(names.arguments),
    "$": lambda _: "1",
    "0": lambda _: "sh",
}
_OPERATORS = {
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
            return int(_OPERATORS[type(op)](_calculate(left), _calculate(right)))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_OPERATORS[type(op)](_calculate(left), _calculate(right)))
    raise ValueError(ast.dump(node))
