"""Decoders of scalars, and of types that Kubernetes writes as scalars.

The result is what the real server would print. A decoder takes a value and the old object's value
at the same place; it returns None for what is not stored.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.schema.decode_errors import (
    DecodeError,
    InvalidBase64,
    TypeMismatch,
)
from pytest_kscen.embedded.apiserver.schema.formats import COMMON_TIMESTAMP
from pytest_kscen.objects.quantities import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    Decoder = Callable[[Any, Any], Any]


EMPTY: dict[str, Any] = {}
RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2}T)(\d{1,2}:\d{2}:\d{2})(?:[.,](\d+))?(?:(Z)|([+-])(\d{2}):(\d{2}))"
)
LAYOUT_PIECES = (
    *((r"\d{4}", "2006"), ("-", "-"), (r"\d{2}", "01"), ("-", "-"), (r"\d{2}", "02"), ("T", "T")),
    *((r"\d{1,2}", "15"), (":", ":"), (r"\d{2}", "04"), (":", ":"), (r"\d{2}", "05")),
)
LAYOUT_ENDS = {
    0: ((r"([.,]\d+)?(Z|[+-]\d{2}:\d{2})", "Z07:00"),),
    6: ((r"[.,]\d{6}", ".000000"), (r"Z|[+-]\d{2}:\d{2}", "Z07:00")),
}
LAYOUTS = {
    digits: "".join(piece for _, piece in (*LAYOUT_PIECES, *end))
    for digits, end in LAYOUT_ENDS.items()
}
BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def is_identical_json(value: Any, old: Any) -> bool:
    """Report whether two values have the same JSON text, with the same order of members and true
    distinct from 1.

    Two quick comparisons; no element is visited in Python.
    """
    try:
        return value == old and orjson.dumps(value) == orjson.dumps(old)
    except TypeError:  # not plain JSON
        return False


def string_decoder(go_type: str, *, keep: bool) -> Decoder:
    """Return the decoder of a string. An empty one decodes to None unless `keep` is set, because Go
    has a pointer to it.
    """

    def decode_value(value: Any, _: Any) -> Any:
        if type(value) is str:
            return value if value or keep else None
        if value is None:
            return None
        if isinstance(value, str):
            return str.__str__(value) or (value if keep else None)
        raise TypeMismatch(value, go_type, basic="string")

    return decode_value


def integer_decoder(go_type: str, bits: int, *, keep: bool) -> Decoder:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def decode_value(value: Any, _: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value if value or keep else None
        if value is None:
            return None
        raise TypeMismatch(value, go_type, literal=type(value) in {int, float}, basic=f"int{bits}")

    return decode_value


def boolean_decoder(go_type: str, *, keep: bool) -> Decoder:
    def decode_value(value: Any, _: Any) -> Any:
        if value is True:
            return True
        if value is False:
            return False if keep else None
        if value is None:
            return None
        raise TypeMismatch(value, go_type)

    return decode_value


def number_decoder(go_type: str, *, keep: bool) -> Decoder:
    def decode_value(value: Any, _: Any) -> Any:
        if type(value) in {int, float}:
            whole = int(value) if value == int(value) else value
            return whole if whole or keep else None
        if value is None:
            return None
        raise TypeMismatch(value, go_type)

    return decode_value


def bytes_decoder(go_type: str, *, keep: bool) -> Decoder:
    """Return the decoder of base64 text. Go accepts a list of numbers as well."""

    def decode_value(value: Any, _: Any) -> Any:
        if isinstance(value, str):
            return _canonical_base64(value) if value or keep else None
        if value is None:
            return None
        if isinstance(value, list):
            return base64.b64encode(bytes(map(_decode_byte, value))).decode()
        raise TypeMismatch(value, go_type)

    return decode_value


def _decode_byte(value: Any) -> int:
    if value is None:
        return 0
    if type(value) is not int or value not in range(256):
        raise TypeMismatch(value, "uint8", literal=type(value) in {int, float})
    return value


@lru_cache(maxsize=4096)
def _canonical_base64(value: str) -> str:
    try:
        decoded = base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidBase64(value, _first_bad_byte(value)) from None
    return base64.b64encode(decoded).decode()


def _first_bad_byte(value: str) -> int:
    """Return the position at which Go's decoder stops.

    This is the first foreign character, or the start of an unfinished group of four.
    """
    digits = 0
    for index, letter in enumerate(value):
        if letter in "\r\n":
            continue
        if letter == "=" and digits % 4 >= 2:  # noqa: PLR2004 - padding needs two digits before it
            rest = value[index + 1 :].replace("\n", "").replace("\r", "")
            wanted = 3 - digits % 4
            if len(rest) < wanted:
                return len(value)
            return index if wanted and rest[0] != "=" else index + 1 + wanted
        if letter not in BASE64:
            return index
        digits += 1
    return len(value) - digits % 4


def time_decoder(digits: int) -> Decoder:
    """Return the decoder of a timestamp, which is converted to UTC. `digits` is the number of
    digits in the fraction of a second.
    """
    length = len("2006-01-02T15:04:05.Z") + digits if digits else len("2006-01-02T15:04:05Z")

    def decode_value(value: Any, _: Any) -> Any:
        if type(value) is str:
            return (
                value
                if len(value) == length and COMMON_TIMESTAMP.fullmatch(value)
                else _to_utc(value, digits)
            )
        if value is None:
            return None
        raise TypeMismatch(value, "string", final=True)

    return decode_value


@lru_cache(maxsize=512)
def _to_utc(value: str, digits: int) -> str:
    parts = RFC3339.fullmatch(value)
    try:
        if parts is None or (digits and len(parts[3] or "") != digits):
            raise ValueError  # noqa: TRY301 - both refusals are worded below
        when = datetime.fromisoformat(f"{parts[1]}{parts[2]:0>8}")
        if parts[5]:
            offset = timedelta(hours=int(parts[6]), minutes=int(parts[7]))
            when += -offset if parts[5] == "+" else offset
    except (ValueError, OverflowError):
        raise DecodeError(_time_error(value, digits)) from None
    fraction = f".{parts[3]}" if digits else ""
    return f"{when.isoformat()}{fraction}Z"


def _time_error(value: str, digits: int) -> str:
    """Return the message of Go's time parser, which names the part of the layout that the text does
    not follow.
    """
    rest = value
    for pattern, piece in (*LAYOUT_PIECES, *LAYOUT_ENDS[digits]):
        found = re.match(pattern, rest)
        if found is None:
            return (
                f'parsing time "{value}" as "{LAYOUTS[digits]}": cannot parse "{rest}" as "{piece}"'
            )
        rest = rest[found.end() :]
    if rest:
        return f'parsing time "{value}": extra text: "{rest}"'
    limits = {"month": (5, 12), "hour": (11, 23), "minute": (14, 59), "second": (17, 59)}
    wrong = (part for part, (start, most) in limits.items() if int(value[start : start + 2]) > most)
    return f'parsing time "{value}": {next(wrong, "day")} out of range'


def decode_int_or_string(value: Any, _: Any) -> Any:
    if type(value) is str or value is None:
        return value
    if type(value) is int and -(1 << 31) <= value < 1 << 31:
        return value
    raise TypeMismatch(value, "int32", literal=type(value) in {int, float}, final=True)


def decode_duration(value: Any, _: Any) -> Any:
    """Decode a `metav1.Duration`, which is kept as written. The form of the text is not checked
    here.
    """
    if type(value) is str or value is None:
        return value
    raise TypeMismatch(value, "string", final=True)


def decode_raw(value: Any, old: Any) -> Any:
    """Copy any JSON, except the parts that are the old object's own: those stay shared."""
    if value is old:
        return value
    if type(value) is dict:
        before = old if type(old) is dict else EMPTY
        return {name: decode_raw(part, before.get(name)) for name, part in value.items()}
    if type(value) is list:
        return [decode_raw(part, None) for part in value]
    return value


META_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1"
APIEXTENSIONS_V1 = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"


def decode_quantity(value: Any, _: Any) -> Any:
    if value is None:
        return None
    if type(value) not in {str, int, float}:
        raise DecodeError(QUANTITY_FORMAT_ERROR)
    try:
        return canonical(str(value))
    except ValueError as error:
        raise DecodeError(str(error)) from None


QUANTITY_FORMAT_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SPECIAL_DECODERS: dict[str, Decoder] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": decode_quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": decode_int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": decode_raw,
    f"{META_V1}.Time": time_decoder(0),
    f"{META_V1}.MicroTime": time_decoder(6),
    f"{META_V1}.Duration": decode_duration,
    f"{META_V1}.FieldsV1": decode_raw,
    f"{APIEXTENSIONS_V1}.JSON": decode_raw,
}
SPECIAL_ZERO_VALUES: dict[str, Callable[[], Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda: "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": lambda: 0,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": lambda: None,
    f"{META_V1}.Time": lambda: None,
    f"{APIEXTENSIONS_V1}.JSON": lambda: None,
}
