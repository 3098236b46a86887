"""From an expression's text to its words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pytest_kscen.cel.mistakes import Mistake, Mistakes
from pytest_kscen.cel.types import UInt

QUOTED = r"""\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
BARE = r"""\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*'"""
TOKEN = re.compile(
    rf"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<integer>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
      | (?P<raw>[rR][bB]?|[bB][rR])(?:{BARE})
      | (?P<text>[bB]?(?:{QUOTED}))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | `(?P<escaped>[A-Za-z0-9_.\-/ ]+)`
      | (?P<operator>==|!=|<=|>=|&&|\|\||[-+*/%<>=!?:.,\[\](){{}}])""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(r"""\\(?:([abfnrtv\\?"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))""")
PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
WORDS = {"true": True, "false": False, "null": None}
END = "<EOF>"


class Token(NamedTuple):
    """`kind` is an operator itself, or: literal, word, end."""

    kind: str
    text: str
    at: int
    value: Any = None


def tokens_of(source: str, mistakes: list[Mistake]) -> list[Token]:
    """The words; what is none is told, and passed over."""
    found, at = [], 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None:
            unread = source[at:] if source[at] in "\"'" else source[at : at + 1 + (source[at] in "&|")]
            mistakes.append(Mistake(at, f"Syntax error: token recognition error at: '{unread}'"))
            at += len(unread)
            continue
        if match["space"] is None:
            found.append(_token(match, source))
        at = match.end()
    return [*found, Token("end", END, len(source))]


def _token(match: re.Match[str], source: str) -> Token:
    text, at = match[0], match.start()
    if match["operator"]:
        return Token(text, text, at)
    if match["word"]:
        return Token("literal", text, at, WORDS[text]) if text in WORDS else Token("word", text, at)
    if match["escaped"]:
        return Token("escaped", match["escaped"], at)
    try:
        return Token("literal", text, at, _value(match, text))
    except ValueError as mistake:
        raise Mistakes(source, [Mistake(at, str(mistake))]) from None


def _value(match: re.Match[str], text: str) -> Any:
    if match["float"]:
        return float(text)
    if match["integer"]:
        number = int(match["integer"], 0 if match["integer"].startswith("0x") else 10)
        if match["unsigned"]:
            if number >= 1 << 64:
                raise ValueError("invalid uint literal")
            return UInt(number)
        if number > 1 << 63:  # the smallest integer is written as a negated literal
            raise ValueError("invalid int literal")
        return number
    return _string(text)


def _string(text: str) -> Any:
    prefix = text[: min(text.find(quote) for quote in "\"'" if quote in text)].lower()
    body = text[len(prefix) :]
    size = 3 if body[:3] in {'"""', "'''"} and len(body) >= 6 else 1  # noqa: PLR2004 - two triple quotes
    body = body[size:-size].replace("\r\n", "\n")
    if "b" in prefix:
        return _octets(body, raw="r" in prefix)
    return body if "r" in prefix else _unescaped(body)


def _unescaped(body: str) -> str:
    return "".join(piece if type(piece) is str else chr(piece) for piece in _pieces(body))


def _octets(body: str, *, raw: bool) -> bytes:
    if raw:
        return body.encode()
    return b"".join(piece.encode() if type(piece) is str else bytes([piece]) for piece in _pieces(body))


def _pieces(body: str) -> list[Any]:
    """Plain text, and the numbers that stand for characters (or octets)."""
    found: list[Any] = []
    at = 0
    while at < len(body):
        if body[at] != "\\":
            end = body.find("\\", at)
            end = len(body) if end < 0 else end
            found.append(body[at:end])
            at = end
            continue
        match = ESCAPE.match(body, at)
        if match is None:
            raise ValueError("unable to unescape string")
        if match[1]:
            found.append(PLAIN.get(match[1], match[1]))
        else:
            digits = next(group for group in match.groups() if group)
            found.append(int(digits, 8 if match[5] else 16))
        at = match.end()
    return found
