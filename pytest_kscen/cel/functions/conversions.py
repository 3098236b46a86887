"""Type conversions, timestamps and durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pytest_kscen.cel.errors import EvaluationError
from pytest_kscen.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    UInt,
)
from pytest_kscen.cel.values import INT_MAX, INT_MIN, UINT_MAX, checked_uint, to_string

if TYPE_CHECKING:
    from collections.abc import Callable


RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|z|[+-]\d{2}:\d{2})", re.ASCII
)
PIECE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def timestamp(text: str) -> datetime:
    found = RFC3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)  # noqa: TRY301 - both refusals are worded below
        zone = "+00:00" if found[4] in "Zz" else found[4]
        return datetime.fromisoformat(
            f"{found[1]}T{found[2]}.{(found[3] or '0')[:6]:0<6}{zone}"
        ).astimezone(UTC)
    except ValueError:
        raise EvaluationError(
            "type conversion error from 'string' to 'google.protobuf.Timestamp'"
        ) from None


def duration(text: str) -> timedelta:
    body = text[1:] if text[:1] in "+-" else text
    pieces = PIECE.findall(body)
    if body != "0" and (not pieces or "".join(number + unit for number, unit in pieces) != body):
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in pieces)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def seconds_of(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))


def _zone(name: str) -> tzinfo:
    if found := re.fullmatch(r"([+-])?(\d{2}):(\d{2})", name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _part_getter(part: Callable[[datetime], int]) -> Callable[..., int]:
    """Return a function for a part of a timestamp, in UTC or a given time zone."""
    return lambda moment, zone="UTC": part(moment.astimezone(_zone(zone) if zone != "UTC" else UTC))


PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
SPANS = {"getHours": 3600.0, "getMinutes": 60.0, "getSeconds": 1.0, "getMilliseconds": 0.001}


def _in_units(unit: float) -> Callable[[timedelta], int]:
    return lambda span: int(span.total_seconds() / unit)


TIME_FUNCTIONS: dict[str, Callable[..., Any]] = {}
TIME_METHODS: dict[str, Callable[..., Any]] = {
    **{f"timestamp::{name}() int": _part_getter(part) for name, part in PARTS.items()},
    **{f"timestamp::{name}(string) int": _part_getter(part) for name, part in PARTS.items()},
    **{f"duration::{name}() int": _in_units(unit) for name, unit in SPANS.items()},
}


# From one type to another, and the types themselves.


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


def _unconvertible(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _int_of_text(text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit() and INT_MIN <= int(text) <= INT_MAX):
        raise _unconvertible("int")
    return int(text)


def _uint_of_text(text: str) -> UInt:
    if not (text.isascii() and text.isdigit() and int(text) <= UINT_MAX):
        raise _unconvertible("uint")
    return UInt(int(text))


def _int_of_float(value: float) -> int:
    if not INT_MIN < value < INT_MAX:
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


CONVERSION_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "type(A) type(A)": (
        lambda value: (
            next((type_ for class_, type_ in TYPES if isinstance(value, class_)), None)
            or Type(getattr(value, "cel_type", "type"))
        )
    ),
    "dyn(A) dyn": _same,
    **{
        f"{kind}({kind}) {kind}": _same
        for kind in ("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration")
    },
    "int(string) int": _int_of_text,
    "int(double) int": _int_of_float,
    "int(uint) int": lambda value: _int_of_float(value) if value > INT_MAX else int(value),
    "int(timestamp) int": seconds_of,
    "int(duration) int": lambda value: round(value.total_seconds() * 1_000_000_000),
    "uint(string) uint": _uint_of_text,
    "uint(int) uint": checked_uint,
    "uint(double) uint": lambda value: checked_uint(int(value)),
    "double(string) double": _float_of_text,
    "double(int) double": float,
    "double(uint) double": float,
    **{
        f"string({kind}) string": to_string
        for kind in ("int", "uint", "double", "bool", "timestamp", "duration")
    },
    "string(bytes) string": _text,
    "bytes(string) bytes": str.encode,
    "bool(string) bool": _bool,
    "timestamp(string) timestamp": timestamp,
    "timestamp(int) timestamp": lambda seconds: (
        timestamp("1970-01-01T00:00:00Z") + timedelta(seconds=seconds)
    ),
    "duration(string) duration": duration,
    "duration(int) duration": lambda nanos: timedelta(microseconds=nanos / 1000),
    "size(string) int": len,
    "size(bytes) int": len,
    "size(list(A)) int": len,
    "size(map(A, B)) int": len,
}
CONVERSION_METHODS: dict[str, Callable[..., Any]] = {
    "string::size() int": len,
    "bytes::size() int": len,
    "list(A)::size() int": len,
    "map(A, B)::size() int": len,
}
