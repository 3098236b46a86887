"""JSON and YAML parsing as in Go: duplicate fields, numbers and messages for malformed text.

Called by `bodies` and `protobuf`. Returns plain values; must not depend on kinds or schemas.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


_SPACE = re.compile(rb"[ \t\r\n]*")
_NUMBER = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_BRACKETS = {ord("{"): b"}", ord("["): b"]"}
_GO_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\v": r"\v",
    "\f": r"\f",
    "\r": r"\r",
    "\\": r"\\",
    "'": r"\'",
}
_HEX = b"0123456789abcdefABCDEF"
END = "unexpected end of JSON input"
ASCII = 0x80  # characters below have one byte
DEEPEST = 10_000


class _JsonSyntaxError(Exception):
    pass


def syntax_error(text: bytes) -> str:
    """Return the message of Go's JSON scanner, or an empty string for valid JSON."""
    try:
        position = _Scanner(text).value(0, "looking for beginning of value")
        position = _skip(text, position)
        if position < len(text):
            raise _invalid(text, position, "after top-level value")
    except _JsonSyntaxError as refusal:
        return str(refusal)
    except RecursionError:
        return "exceeded max depth"
    return ""


def _skip(text: bytes, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _invalid(text: bytes, position: int, where: str) -> _JsonSyntaxError:
    if position >= len(text):
        return _JsonSyntaxError(END)
    code = text[position]
    letter = chr(code)
    escaped = f"\\x{code:02x}" if code < ASCII else f"\\u{code:04x}"
    shown = _GO_ESCAPES.get(letter) or (letter if letter.isprintable() else escaped)
    return _JsonSyntaxError(f"invalid character '{shown}' {where}")


class _Scanner:
    """Scanner that follows a text as long as it is JSON and raises at the first error."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def value(self, position: int, where: str) -> int:
        text = self._text
        position = _skip(text, position)
        first = text[position] if position < len(text) else -1
        if first in _BRACKETS:
            return self._entries(position + 1, _BRACKETS[first])
        if first == ord('"'):
            return self._string(position + 1)
        if first in _WORDS:
            word = _WORDS[first]
            for offset, letter in enumerate(word):
                if text[position + offset : position + offset + 1] != bytes([letter]):
                    expected = f"in literal {word.decode()} (expecting '{chr(letter)}')"
                    raise _invalid(text, position + offset, expected)
            return position + len(word)
        if first == ord("-") or ord("0") <= first <= ord("9"):
            found = _NUMBER.match(self._text, position)
            if not found:
                raise _invalid(self._text, position + 1, "in numeric literal")
            rest = self._text[found.end() : found.end() + 1]
            if rest == b"." or (rest in (b"e", b"E") and not found[3]):
                broken_at = found.end()
                if rest == b".":
                    raise _invalid(
                        self._text, broken_at + 1, "after decimal point in numeric literal"
                    )
                signed = self._text[broken_at + 1 : broken_at + 2] in (b"+", b"-")
                raise _invalid(self._text, broken_at + 1 + signed, "in exponent of numeric literal")
            return found.end()
        raise _invalid(text, position, where)

    def _entries(self, position: int, end: bytes) -> int:
        """Return the position behind the members of an object, or the elements of an array.

        `end` is the closing bracket, which distinguishes the two.
        """
        text, is_object = self._text, end == b"}"
        position = _skip(text, position)
        if text[position : position + 1] == end:
            return position + 1
        while True:
            if is_object:
                position = _skip(text, position)
                if text[position : position + 1] != b'"':
                    raise _invalid(text, position, "looking for beginning of object key string")
                position = _skip(text, self._string(position + 1))
                if text[position : position + 1] != b":":
                    raise _invalid(text, position, "after object key")
                position += 1
            position = _skip(text, self.value(position, "looking for beginning of value"))
            if text[position : position + 1] == end:
                return position + 1
            if text[position : position + 1] != b",":
                what = "object key:value pair" if is_object else "array element"
                raise _invalid(text, position, f"after {what}")
            position += 1

    def _string(self, position: int) -> int:
        text = self._text
        while position < len(text):
            code = text[position]
            if code == ord('"'):
                return position + 1
            if code < ord(" "):
                raise _invalid(text, position, "in string literal")
            position = self._escape(position + 1) if code == ord("\\") else position + 1
        raise _JsonSyntaxError(END)

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


# Duplicate fields: values are merged as in Go, and the client is warned.


DUPLICATES_LIMIT = 100
_ODD_KEY = re.compile(rb'"[ \t\r\n]+:|\\u')


class JsonPairs(list[tuple[str, Any]]):
    """JSON object as a list of its members in source order, with duplicates."""


def parse_json(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of a body, and its duplicates as `duplicate field "a.b"`.

    The fast parser is used unless a count of colons shows that a key was lost.
    """
    parsed = orjson.loads(body)
    if not _ODD_KEY.search(body) and body.count(b'":') == orjson.dumps(parsed).count(b'":'):
        return parsed, []
    written = json.loads(body, object_pairs_hook=JsonPairs)
    duplicates = [f'duplicate field "{path}"' for path in _duplicates(written, "")][
        :DUPLICATES_LIMIT
    ]
    return (_merge(written) if duplicates else parsed), duplicates


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, JsonPairs):
        seen: dict[str, None] = {}
        for name, part in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield here
            seen[name] = None
            yield from _duplicates(part, here)
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _duplicates(part, f"{path}[{position}]")


def _merge(value: Any, into: Any = None) -> Any:
    """Merge duplicate objects; of other duplicates the last one counts."""
    if isinstance(value, JsonPairs):
        found = into if isinstance(into, dict) else {}
        for name, part in value:
            found[name] = _merge(part, found.get(name))
        return found
    return [_merge(part) for part in value] if isinstance(value, list) else value


# Numbers as Go writes them in JSON.


EXPONENT_LIMIT = 1e21  # larger numbers have an exponent


def go_number(number: float) -> float:
    """Return an integer for a number without fraction, as Go's JSON writes it.

    From 1e21 on Go writes an exponent, and the number stays a float.
    """
    return int(number) if number.is_integer() and abs(number) < EXPONENT_LIMIT else number


# YAML as in Kubernetes: the first document; string keys; no dates and no base-60 numbers.


BOOL, INT, FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_LETTER = re.compile(r"^[yYnN]$")
_WHOLE = re.compile(r"^[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_REAL = re.compile(r"^[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$")
_DROPPED = (INT, FLOAT, "tag:yaml.org,2002:timestamp")


def load_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of the first document, and a text with the line of each duplicate key.

    Raises yaml.YAMLError, also for keys that JSON cannot have.
    """
    loader = _loader()(body)
    try:
        return (loader.get_data() if loader.check_data() else None), loader.duplicates
    except (ValueError, TypeError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # the base is chosen when it runs
        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.duplicates: list[str] = []

        def construct_mapping(
            self,
            node: yaml.MappingNode,
            deep: bool = False,  # noqa: FBT001, FBT002, ARG002  # PyYAML's signature
        ) -> dict[str, Any]:
            self.flatten_mapping(node)
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise yaml.YAMLError("invalid map key: keys are texts, numbers or booleans")
                read_key = self.construct_object(key_node, deep=True)
                if isinstance(read_key, bool):
                    key = "true" if read_key else "false"
                else:
                    key = "null" if read_key is None else str(read_key)
                value = self.construct_object(value_node, deep=True)
                if key in found:
                    self.duplicates.append(
                        f'line {key_node.start_mark.line + 1}: key "{key}" already set in map'
                    )
                found[key] = value
            return found

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if tag not in _DROPPED]
        for first, patterns in base.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(BOOL, _LETTER, list("yYnN"))
    Loader.bool_values = {**base.bool_values, "y": True, "n": False}
    Loader.add_implicit_resolver(INT, _WHOLE, list("-+0123456789"))
    Loader.add_implicit_resolver(FLOAT, _REAL, list("-+.0123456789"))
    Loader.add_constructor(INT, _whole)
    Loader.add_constructor(FLOAT, _real)
    for tag in ("merge", "value"):
        Loader.add_constructor(
            f"tag:yaml.org,2002:{tag}", lambda loader, node: loader.construct_scalar(node)
        )
    Loader.add_constructor(
        "tag:yaml.org,2002:binary", lambda loader, node: loader.construct_yaml_binary(node).decode()
    )
    Loader.add_constructor(
        "tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node)
    )
    return Loader


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    number = int(digits, 8) if octal else int(digits, 0)
    return -number if text.startswith("-") else number


def _real(loader: Any, node: yaml.ScalarNode) -> float | str:
    """Return a number as Go's JSON writes it; infinities stay text."""
    text = str(loader.construct_scalar(node))
    number = float(text.replace("_", ""))
    if math.isinf(number):
        return text
    return go_number(number)
