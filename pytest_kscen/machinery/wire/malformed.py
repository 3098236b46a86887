"""Why Go's JSON scanner refuses a text: the words that clients of Kubernetes see."""

from __future__ import annotations

import re

_SPACE = re.compile(rb"[ \t\r\n]*")
_NUMBER = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_HEX = b"0123456789abcdefABCDEF"
END = "unexpected end of JSON input"
DEEPEST = 10_000


class _Refusal(Exception):
    pass


def why_malformed(text: bytes) -> str:
    """The scanner's complaint; empty if it has none."""
    try:
        position = _Scanner(text).value(0, "looking for beginning of value")
        position = _skip(text, position)
        if position < len(text):
            raise _invalid(text, position, "after top-level value")
    except _Refusal as refusal:
        return str(refusal)
    except RecursionError:
        return "exceeded max depth"
    return ""


def _skip(text: bytes, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _invalid(text: bytes, position: int, where: str) -> _Refusal:
    if position >= len(text):
        return _Refusal(END)
    code = text[position]
    shown = {ord("'"): r"'\''", ord('"'): "'\"'"}.get(code) or f"'{_quoted(code)}'"
    return _Refusal(f"invalid character {shown} {where}")


def _quoted(code: int) -> str:
    known = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 92: r"\\"}
    if code in known:
        return known[code]
    letter = chr(code)
    return letter if letter.isprintable() else f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"  # noqa: PLR2004  # ASCII


class _Scanner:
    """Walks a text as far as it is JSON."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def value(self, position: int, where: str) -> int:
        text = self._text
        position = _skip(text, position)
        first = text[position] if position < len(text) else -1
        if first == ord("{"):
            return self._members(position + 1)
        if first == ord("["):
            return self._items(position + 1)
        if first == ord('"'):
            return self._string(position + 1)
        if first in _WORDS:
            return self._word(position, _WORDS[first])
        if first == ord("-") or ord("0") <= first <= ord("9"):
            return self._number(position)
        raise _invalid(text, position, where)

    def _members(self, position: int) -> int:
        text = self._text
        position = _skip(text, position)
        if text[position : position + 1] == b"}":
            return position + 1
        while True:
            position = _skip(text, position)
            if text[position : position + 1] != b'"':
                raise _invalid(text, position, "looking for beginning of object key string")
            position = _skip(text, self._string(position + 1))
            if text[position : position + 1] != b":":
                raise _invalid(text, position, "after object key")
            position = _skip(text, self.value(position + 1, "looking for beginning of value"))
            following = text[position : position + 1]
            position += 1
            if following == b"}":
                return position
            if following != b",":
                raise _invalid(text, position - 1, "after object key:value pair")

    def _items(self, position: int) -> int:
        text = self._text
        position = _skip(text, position)
        if text[position : position + 1] == b"]":
            return position + 1
        while True:
            position = _skip(text, self.value(position, "looking for beginning of value"))
            following = text[position : position + 1]
            position += 1
            if following == b"]":
                return position
            if following != b",":
                raise _invalid(text, position - 1, "after array element")

    def _string(self, position: int) -> int:
        text = self._text
        while position < len(text):
            code = text[position]
            if code == ord('"'):
                return position + 1
            if code < ord(" "):
                raise _invalid(text, position, "in string literal")
            position = self._escape(position + 1) if code == ord("\\") else position + 1
        raise _Refusal(END)

    def _escape(self, position: int) -> int:
        text = self._text
        if text[position : position + 1] == b"u":
            for place in range(position + 1, position + 5):
                if text[place : place + 1] not in [bytes([digit]) for digit in _HEX]:
                    raise _invalid(text, place, "in \\u hexadecimal character escape")
            return position + 5
        if text[position : position + 1] not in [bytes([letter]) for letter in b'bfnrt\\/"']:
            raise _invalid(text, position, "in string escape code")
        return position + 1

    def _word(self, position: int, word: bytes) -> int:
        for offset, letter in enumerate(word):
            if self._text[position + offset : position + offset + 1] != bytes([letter]):
                where = f"in literal {word.decode()} (expecting '{chr(letter)}')"
                raise _invalid(self._text, position + offset, where)
        return position + len(word)

    def _number(self, position: int) -> int:
        found = _NUMBER.match(self._text, position)
        if not found:
            raise _invalid(self._text, position + 1, "in numeric literal")
        rest = self._text[found.end() : found.end() + 1]
        if rest == b"." or (rest in (b"e", b"E") and not found[3]):
            return self._broken_number(found.end(), rest)
        return found.end()

    def _broken_number(self, position: int, rest: bytes) -> int:
        if rest == b".":
            raise _invalid(self._text, position + 1, "after decimal point in numeric literal")
        signed = self._text[position + 1 : position + 2] in (b"+", b"-")
        raise _invalid(self._text, position + 1 + signed, "in exponent of numeric literal")
