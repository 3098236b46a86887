"""String functions: formatting (`'%s has %d'.format([...])`), the strings extension, regexes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.errors import EvaluationError
from pytest_kscen.cel.re2 import BadPattern, compile_pattern
from pytest_kscen.cel.values import to_string
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable


VERB = re.compile(r"%(?:(%)|(?:\.(\d+))?([sdfeboxX])|(.?))")
DIGITS = 6


def format_string(form: str, values: list[Any]) -> str:
    given = iter(values)

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        if match[3] is None:
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{match[4]}"'
            )
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError(f"index {len(values)} out of range") from None
        return VERBS[match[3]](value, int(match[2]) if match[2] else DIGITS)

    return VERB.sub(replaced, form)


def _text(value: Any, _: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested_text(part) for part in value)}]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                sorted(f"{_nested_text(name)}:{_nested_text(part)}" for name, part in value.items())
            )
            + "}"
        )
    return "null" if value is None else to_string(value)


def _nested_text(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        return f"b{quoted(to_string(value))}" if isinstance(value, bytes) else quoted(value)
    if isinstance(value, float):
        return f"{value:.{DIGITS}f}"
    if isinstance(value, datetime):
        return f'timestamp("{to_string(value)}")'
    return f'duration("{to_string(value)}")' if isinstance(value, timedelta) else _text(value, 0)


def _format_error(message: str, value: Any) -> EvaluationError:
    return EvaluationError(
        f"error during formatting: {message}, was given {NAMES.get(type(value), 'dyn')}"
    )


def _fixed_point(value: Any, digits: int) -> str:
    """Return a fixed-point number in English notation, with commas at the thousands."""
    if type(value) is not float:
        raise _format_error("fixed-point clause can only be used on doubles", value)
    return f"{value:,.{digits}f}"


def _scientific(value: Any, _: int) -> str:
    """Return a number in English scientific notation; like cel-go, ignores the requested
    precision.
    """
    if type(value) is not float:
        raise _format_error("scientific clause can only be used on doubles", value)
    number, _e, power = f"{value:.{DIGITS}e}".partition("e")
    return f"{number}\N{MULTIPLICATION SIGN}10{power.removeprefix('+').translate(RAISED)}"


def _whole(verb: str, message: str, others: tuple[type, ...] = ()) -> Callable[[Any, int], str]:
    def show(value: Any, _: int) -> str:
        if type(value) in others:
            if not isinstance(value, (str, bytes)):
                return str(int(value))
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
        if isinstance(value, bool) or not isinstance(value, int):
            raise _format_error(message, value)
        return f"{value:{verb}}"

    return show


RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
NAMES = {
    str: "string",
    bytes: "bytes",
    bool: "bool",
    int: "int",
    float: "double",
    list: "list",
    dict: "map",
    type(None): "null_type",
}
IN_HEX = "only integers, byte buffers, and strings can be formatted as hex"
VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _text,
    "f": _fixed_point,
    "e": _scientific,
    "d": _whole("d", "decimal clause can only be used on integers"),
    "o": _whole("o", "octal clause can only be used on integers"),
    "b": _whole("b", "only integers and bools can be formatted as binary", (bool,)),
    "x": _whole("x", IN_HEX, (str, bytes)),
    "X": _whole("X", IN_HEX, (str, bytes)),
}


# Texts: CEL's own functions, the strings extension, and Kubernetes' regular expressions.


UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def _check_index(place: int, text: str) -> None:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    _check_index(place, text)
    return text[place : place + 1]


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    _check_index(start, text)
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(wanted)
    _check_index(start, text)
    return text.rfind(wanted, 0, start + len(wanted))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        _check_index(start, text)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _check_index(start, text)
    _check_index(end, text)
    return text[start:end]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if by:
        return text.split(by, most - 1 if most > 0 else -1)
    return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _join(elements: list[str], by: str = "") -> str:
    for element in elements:
        if type(element) is not str:
            raise EvaluationError(f"join: invalid input: {element}")
    return by.join(elements)


def _pattern(pattern: str, refusal: str = "") -> re.Pattern[str]:
    try:
        return compile_pattern(pattern)
    except BadPattern as error:
        raise EvaluationError(f"{refusal}{error}") from None


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match[0] for match in _pattern(pattern, "Illegal regex: ").finditer(text)]
    return found if most < 0 else found[:most]


STRING_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches(string, string) bool": lambda text, pattern: (
        _pattern(pattern).search(text) is not None
    ),
    "strings.quote(string) string": quoted,
}
STRING_METHODS: dict[str, Callable[..., Any]] = {
    "string::matches(string) bool": lambda text, pattern: (
        _pattern(pattern).search(text) is not None
    ),
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
    "string::format(list(dyn)) string": format_string,
    "list(string)::join() string": _join,
    "list(string)::join(string) string": _join,
    "string::find(string) string": lambda text, pattern: (
        found[0] if (found := _pattern(pattern, "Illegal regex: ").search(text)) else ""
    ),
    "string::findAll(string) list(string)": _find_all,
    "string::findAll(string, int) list(string)": _find_all,
}
