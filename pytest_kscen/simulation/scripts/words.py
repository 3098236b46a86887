"""From a script's text to its words and operators. A word keeps its parts apart until the variables are known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


class ScriptError(Exception):
    """The script says something that is not understood here."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, `${name}`, `${name:-default}`."""

    name: str
    default: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`."""

    expression: str


Word: TypeAlias = tuple["Literal | Variable | Arithmetic", ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or an operator: a line's end is ";", and ">" stands for output that nobody reads."""

    operator: str = ""
    word: Word = ()

    @property
    def plain(self) -> str:
        """The text of a word without quotes or variables, as keywords are."""
        if len(self.word) == 1 and isinstance(self.word[0], Literal) and not self.word[0].quoted:
            return self.word[0].text
        return ""


_BLANK = re.compile(r"[ \t]+|\\\n|#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||[;\n()]|[1&]?>\s*/dev/null")
_NO_EFFECT = re.compile(r"2>\s*/dev/null|[12]?>&[12]|<\s*/dev/null")  # both streams are one log, and nothing is read
_REFUSED = re.compile(r"`|\$\((?!\()|<<|[0-9]*[<>]|\||&")
_BRACED = re.compile(r"\$\{(?P<name>\w+|[?#@*])(?::?-(?P<default>[^}]*))?\}")
_NAMED = re.compile(r"\$(?P<name>[A-Za-z_]\w*|[0-9?#@*$])")
_SUM = re.compile(r"\$\(\((?P<expression>.*?)\)\)", re.DOTALL)
_PLAIN = re.compile(r"[^\s;&|<>()$`'\"\\]+")
_IN_QUOTES = re.compile(r"[^\"$`\\]+")
_MEANT = {"\n": ";", "&&": "&&", "||": "||"}
_NAMES = {
    "`": "command substitution", "$(": "command substitution", "<<": "a here-document", "|": "a pipe", "&": "a background job"
}  # fmt: skip


class Reader:
    """Reads a script once, from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while self._at < len(self._text):
            if self._take(_BLANK) or self._take(_NO_EFFECT):
                continue
            if operator := self._take(_OPERATOR):
                found.append(Token(operator=_MEANT.get(operator[0], operator[0].lstrip("1&")[:1])))
            else:
                found.append(Token(word=self._word()))
        return found

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _word(self) -> Word:
        parts: list[Literal | Variable | Arithmetic] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if _OPERATOR.match(self._text, self._at):
                break
            if refused := _REFUSED.match(self._text, self._at):
                raise self._refusal(refused[0])
            if character == "'":
                parts.append(Literal(self._until("'"), quoted=True))
            elif character == '"':
                parts.extend(self._quoted())
            elif character == "\\":
                parts.append(Literal(self._text[self._at + 1 : self._at + 2].replace("\n", ""), quoted=True))
                self._at += 2
            elif character == "$":
                parts.append(self._expansion(quoted=False))
            elif plain := self._take(_PLAIN):
                parts.append(Literal(plain[0]))
            else:
                break
        return tuple(parts)

    def _until(self, end: str) -> str:
        close = self._text.find(end, self._at + 1)
        if close < 0:
            raise ScriptError(f"line {self._line()}: a quotation that begins with {end} does not end")
        found = self._text[self._at + 1 : close]
        self._at = close + 1
        return found

    def _quoted(self) -> list[Literal | Variable | Arithmetic]:
        parts: list[Literal | Variable | Arithmetic] = [Literal("", quoted=True)]
        start, self._at = self._at, self._at + 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return parts
            if character == "\\":
                escaped = self._text[self._at + 1 : self._at + 2]
                parts.append(Literal(escaped if escaped in '"$`\\' else "\\" + escaped, quoted=True))
                self._at += 2
            elif character == "$":
                parts.append(self._expansion(quoted=True))
            elif character == "`":
                raise self._refusal("`")
            elif plain := self._take(_IN_QUOTES):
                parts.append(Literal(plain[0], quoted=True))
        self._at = start
        raise ScriptError(f'line {self._line()}: a quotation that begins with " does not end')

    def _expansion(self, *, quoted: bool) -> Literal | Variable | Arithmetic:
        if match := self._take(_SUM):
            return Arithmetic(match["expression"])
        if match := self._take(_BRACED):
            return Variable(match["name"], match["default"] or "", quoted)
        if match := self._take(_NAMED):
            return Variable(match["name"], "", quoted)
        if self._text.startswith(("$(", "${"), self._at):
            raise self._refusal(self._text[self._at : self._at + 2])
        self._at += 1
        return Literal("$", quoted)

    def _refusal(self, what: str) -> ScriptError:
        name = _NAMES.get(what, "a redirection" if what.strip("0123456789") in "<>" else "this expansion")
        return ScriptError(f"line {self._line()}: {name} ({what}) is not understood here")

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
