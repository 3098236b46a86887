"""Texts: CEL's own functions, the strings extension, and Kubernetes' regular expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.functions.formatting import formatted
from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.re2 import BadPattern, compiled
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def _within(place: int, text: str) -> None:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    _within(place, text)
    return text[place : place + 1]


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    _within(start, text)
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(wanted)
    _within(start, text)
    return text.rfind(wanted, 0, start + len(wanted))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        _within(start, text)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _within(start, text)
    _within(end, text)
    return text[start:end]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if by:
        return text.split(by, most - 1 if most > 0 else -1)
    return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _joined(elements: list[str], by: str = "") -> str:
    for element in elements:
        if type(element) is not str:
            raise EvaluationError(f"join: invalid input: {element}")
    return by.join(elements)


def _pattern(pattern: str, refusal: str = "") -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except BadPattern as mistake:
        raise EvaluationError(f"{refusal}{mistake}") from None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern, "Illegal regex: ").search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match[0] for match in _pattern(pattern, "Illegal regex: ").finditer(text)]
    return found if most < 0 else found[:most]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches(string, string) bool": lambda text, pattern: _pattern(pattern).search(text) is not None,
    "strings.quote(string) string": quoted,
}
METHODS: dict[str, Callable[..., Any]] = {
    "string::matches(string) bool": lambda text, pattern: _pattern(pattern).search(text) is not None,
    "string::startsWith(string) bool": str.startswith,
    "string::endsWith(string) bool": str.endswith,
    "string::contains(string) bool": lambda text, wanted: wanted in text,
    "string::charAt(int) string": _char_at,
    "string::indexOf(string) int": _index_of,
    "string::indexOf(string, int) int": _index_of,
    "string::lastIndexOf(string) int": _last_index_of,
    "string::lastIndexOf(string, int) int": _last_index_of,
    "string::lowerAscii() string": lambda text: text.translate(LOWER),
    "string::upperAscii() string": lambda text: text.translate(UPPER),
    "string::replace(string, string) string": _replace,
    "string::replace(string, string, int) string": _replace,
    "string::split(string) list(string)": _split,
    "string::split(string, int) list(string)": _split,
    "string::substring(int) string": _substring,
    "string::substring(int, int) string": _substring,
    "string::trim() string": str.strip,
    "string::format(list(dyn)) string": formatted,
    "list(string)::join() string": _joined,
    "list(string)::join(string) string": _joined,
    "string::find(string) string": _find,
    "string::findAll(string) list(string)": _find_all,
    "string::findAll(string, int) list(string)": _find_all,
}
