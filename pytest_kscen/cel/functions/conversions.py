"""From one type to another, and the types themselves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.functions.times import duration, seconds_of, timestamp
from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT, Type, UInt
from pytest_kscen.cel.values import LARGEST, LARGEST_UNSIGNED, SMALLEST, shown, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

TRUE, FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}
TYPES: list[tuple[type, Type]] = [
    (bool, BOOL),
    (UInt, UINT),
    (int, INT),
    (float, DOUBLE),
    (str, STRING),
    (bytes, BYTES),
    (type(None), NULL),
    (datetime, TIMESTAMP),
    (timedelta, DURATION),
    (list, Type("list")),
    (dict, Type("map")),
]


def _type(value: Any) -> Type:
    found = next((type_ for class_, type_ in TYPES if isinstance(value, class_)), None)
    return found or Type(getattr(value, "cel_type", "type"))


def _unconvertible(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _int_of_text(text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit() and SMALLEST <= int(text) <= LARGEST):
        raise _unconvertible("int")
    return int(text)


def _uint_of_text(text: str) -> UInt:
    if not (text.isascii() and text.isdigit() and int(text) <= LARGEST_UNSIGNED):
        raise _unconvertible("uint")
    return UInt(int(text))


def _int_of_float(value: float) -> int:
    if not SMALLEST < value < LARGEST:
        raise EvaluationError("integer overflow")
    return int(value)


def _float_of_text(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unconvertible("double") from None


def _bool(text: str) -> bool:
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise _unconvertible("bool")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Any) -> Any:
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "type(A) type(A)": _type,
    "dyn(A) dyn": _same,
    **{f"{kind}({kind}) {kind}": _same for kind in ("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration")},
    "int(string) int": _int_of_text,
    "int(double) int": _int_of_float,
    "int(uint) int": lambda value: _int_of_float(value) if value > LARGEST else int(value),
    "int(timestamp) int": seconds_of,
    "int(duration) int": lambda value: round(value.total_seconds() * 1_000_000_000),
    "uint(string) uint": _uint_of_text,
    "uint(int) uint": unsigned,
    "uint(double) uint": lambda value: unsigned(int(value)),
    "double(string) double": _float_of_text,
    "double(int) double": float,
    "double(uint) double": float,
    **{f"string({kind}) string": shown for kind in ("int", "uint", "double", "bool", "timestamp", "duration")},
    "string(bytes) string": _text,
    "bytes(string) bytes": str.encode,
    "bool(string) bool": _bool,
    "timestamp(string) timestamp": timestamp,
    "timestamp(int) timestamp": lambda seconds: timestamp("1970-01-01T00:00:00Z") + timedelta(seconds=seconds),
    "duration(string) duration": duration,
    "duration(int) duration": lambda nanos: timedelta(microseconds=nanos / 1000),
    "size(string) int": len,
    "size(bytes) int": len,
    "size(list(A)) int": len,
    "size(map(A, B)) int": len,
}
METHODS: dict[str, Callable[..., Any]] = {
    "string::size() int": len,
    "bytes::size() int": len,
    "list(A)::size() int": len,
    "map(A, B)::size() int": len,
}
