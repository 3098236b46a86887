"""Tokens of an expression, and errors that point into its text."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

LONGEST_SHOWN = 200


class ExpressionError(ValueError):
    """Report that an expression cannot be read, or has no value."""


class PositionedError(Exception):
    """Error at an offset of the text; `within` makes an ExpressionError of it once the text is
    known.
    """

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at

    def within(self, text: str) -> ExpressionError:
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        place = "" if self.at is None else f", column {self.at + 1}"
        return ExpressionError(f"expression {shown!r}{place}: {self.why}")


LONGEST = 4096
WORDS = frozenset({"and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith"})
"""Operators that are words; they are names after a dot."""
TOKEN = re.compile(
    r"""(?P<number>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|"""
    r"""(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)(?!\w)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<name>[A-Za-z_$][\w$]*)"""
    r"""|(?P<sign>\*\*|\.\.|\?\.|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,#()\[\]{}])""",
    re.ASCII,
)
SPACE = re.compile(r"\s*", re.ASCII)
NOT_IN = re.compile(r"\s+in\b", re.ASCII)
ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
ESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}
SUGGESTIONS = {"=": "==", "&": "&&", "|": "||", "^": "**", "`": "'"}
"""Operators of other languages that users write by mistake, with the correct ones."""
INT64 = range(-(2**63), 2**63)


class ExpressionToken(NamedTuple):
    """Token with its offset; `sort` is one of number, string, name, sign, end."""

    sort: str
    text: str
    at: int
    value: Any = None

    def __str__(self) -> str:
        return "the end" if self.sort == "end" else repr(self.text)


def tokens_of(text: str) -> list[ExpressionToken]:
    if len(text) > LONGEST:
        raise PositionedError(f"it has {len(text)} characters; at most {LONGEST} are read")
    tokens: list[ExpressionToken] = []
    at = SPACE.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            letter, meant = text[at], SUGGESTIONS.get(text[at])
            if letter in "\"'":
                raise PositionedError(f"the string has no closing {letter}", at)
            if letter.isdigit() or letter == ".":
                piece = text[at : at + 20].split(maxsplit=1)[0]
                raise PositionedError(f"{piece!r} is not a number", at)
            hint = f" (did you mean {meant!r}?)" if meant else ""
            raise PositionedError(f"{letter!r} is unknown here{hint}", at)
        sort, piece, end = str(found.lastgroup), found[0], found.end()
        if sort == "number":
            token, at = ExpressionToken(sort, piece, at, _number(piece, at)), end
        elif sort == "string":
            token, at = ExpressionToken(sort, piece, at, _unescaped(piece[1:-1], at)), end
        elif piece == "not" and (more := NOT_IN.match(text, end)):
            token, at = ExpressionToken("sign", "not in", at), more.end()
        else:
            token, at = ExpressionToken("sign" if piece in WORDS else sort, piece, at), end
        tokens.append(token)
        at = SPACE.match(text, at).end()  # type: ignore[union-attr]
    return [*tokens, ExpressionToken("end", "", len(text))]


def _number(piece: str, at: int) -> int | float:
    plain = piece.replace("_", "")
    if plain[:2].lower() in {"0x", "0o", "0b"}:
        value: int | float = int(plain, 0) if plain[2:] else -(2**64)
    elif set(plain) & set(".eE"):
        value = float(plain)
        if value == float("inf"):
            raise PositionedError(f"{piece} is beyond a 64-bit number", at)
        return value
    else:
        value = int(plain) if len(plain) < 400 else 2**64  # noqa: PLR2004  # bounds the time
    if value not in INT64:
        raise PositionedError(f"{piece} is not a 64-bit whole number", at)
    return value


def _unescaped(inside: str, at: int) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code or found[4]:
            number = int(code, 16) if code else int(found[4], 8)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:  # noqa: PLR2004
                raise PositionedError(f"{found[0]} is not a character", at)
            return chr(number)
        if found[5] not in ESCAPED:
            raise PositionedError(
                f"{found[0]!r} is not an escape: write '\\\\' for a backslash",
                at + 1 + found.start(),
            )
        return ESCAPED[found[5]]

    return ESCAPE.sub(one, inside)
