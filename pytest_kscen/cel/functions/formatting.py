"""`'%s has %d'.format([...])`: CEL's own formatting verbs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.values import shown
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

VERB = re.compile(r"%(?:(%)|(?:\.(\d+))?([sdfeboxX])|(.?))")
DIGITS = 6


def formatted(form: str, values: list[Any]) -> str:
    given = iter(values)

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        if match[3] is None:
            raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{match[4]}"')
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError(f"index {len(values)} out of range") from None
        return VERBS[match[3]](value, int(match[2]) if match[2] else DIGITS)

    return VERB.sub(replaced, form)


def _text(value: Any, _: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_inner(part) for part in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_inner(name)}:{_inner(part)}" for name, part in value.items())) + "}"
    return "null" if value is None else shown(value)


def _inner(value: Any) -> str:
    """As CEL itself would write it."""
    if isinstance(value, (str, bytes)):
        return f"b{quoted(shown(value))}" if isinstance(value, bytes) else quoted(value)
    if isinstance(value, float):
        return f"{value:.{DIGITS}f}"
    if isinstance(value, datetime):
        return f'timestamp("{shown(value)}")'
    return f'duration("{shown(value)}")' if isinstance(value, timedelta) else _text(value, 0)


def _wrong(words: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {words}, was given {NAMES.get(type(value), 'dyn')}")


def _fixed(value: Any, digits: int) -> str:
    """In English: with a comma at the thousands."""
    if type(value) is not float:
        raise _wrong("fixed-point clause can only be used on doubles", value)
    return f"{value:,.{digits}f}"


def _scientific(value: Any, _: int) -> str:
    """In English too; cel-go takes the digits that are asked for as a width."""
    if type(value) is not float:
        raise _wrong("scientific clause can only be used on doubles", value)
    number, _e, power = f"{value:.{DIGITS}e}".partition("e")
    return f"{number}\N{MULTIPLICATION SIGN}10{power.removeprefix('+').translate(RAISED)}"


def _whole(verb: str, words: str, others: tuple[type, ...] = ()) -> Callable[[Any, int], str]:
    def show(value: Any, _: int) -> str:
        if type(value) in others:
            return _hexadecimal(value, verb) if isinstance(value, (str, bytes)) else str(int(value))
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(words, value)
        return f"{value:{verb}}"

    return show


def _hexadecimal(value: str | bytes, verb: str) -> str:
    digits = (value.encode() if isinstance(value, str) else value).hex()
    return digits.upper() if verb == "X" else digits


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
    "f": _fixed,
    "e": _scientific,
    "d": _whole("d", "decimal clause can only be used on integers"),
    "o": _whole("o", "octal clause can only be used on integers"),
    "b": _whole("b", "only integers and bools can be formatted as binary", (bool,)),
    "x": _whole("x", IN_HEX, (str, bytes)),
    "X": _whole("X", IN_HEX, (str, bytes)),
}
