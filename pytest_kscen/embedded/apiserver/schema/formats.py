"""String formats of custom schemas, as the real server validates them."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

HEX8, HEX4, HEX12 = "[0-9a-f]{8}", "[0-9a-f]{4}", "[0-9a-f]{12}"
VARIANT = "[89ab][0-9a-f]{3}"
DECIMAL_BYTE = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
SHORT_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
GO_DURATION = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
    r"((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|[-+]?0",
    re.ASCII,
)
SCALA_DURATION = re.compile(
    r"(\d+)\s*(d|h|m|s|w|ms|us|µs|ns|days?|hours?|minutes?|seconds?|weeks?|min|hr|sec|"
    r"milli(s|seconds?)?|micro(s|seconds?)?|nano(s|seconds?)?)",
    re.IGNORECASE,
)
COMMON_TIMESTAMP = re.compile(
    r"[1-9]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{6})?Z",
    re.ASCII,
)
"""Form of nearly all timestamps, for which a match is enough."""
TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
HOSTNAME = re.compile(r"[^\W_](-?[^\W_]{0,62})?|([^\W_](([^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63}")
MAC_BYTES = re.compile(
    r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(\1[0-9A-Fa-f]{2}){4}"
    r"((\1[0-9A-Fa-f]{2}){2}|(\1[0-9A-Fa-f]{2}){14})?"
)
MAC_WORDS = re.compile(
    r"[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){2}((\.[0-9A-Fa-f]{4})|(\.[0-9A-Fa-f]{4}){7})?"
)


def _matches(pattern: str, flags: int = 0, *, longest: int | None = None) -> Callable[[str], bool]:
    expression = re.compile(pattern, flags | re.ASCII)
    return lambda text: (
        (longest is None or len(text) <= longest) and expression.fullmatch(text) is not None
    )


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None and bool(
            date.fromisoformat(text)
        )
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; leading zeros are ignored, as Kubernetes does."""
    without_zeros = re.sub(r"(?<![0-9A-Fa-f:])0+(?=\d)", "", text) if ":" not in text else text
    try:
        return ipaddress.ip_address(without_zeros)
    except ValueError:
        return None


def _is_email(text: str) -> bool:
    name, _, domain = text.rpartition("@")
    inner = re.fullmatch(r"[^<>]*<([^<>]+)>", text)
    if inner:
        return _is_email(inner[1])
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    return bool(
        re.fullmatch(rf"{atom}(\.{atom})*|\"[^\"]+\"", name)
        and re.fullmatch(rf"{atom}(\.{atom})*|\[[0-9.]+\]", domain)
    )


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return (
        sum(index * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits, 1))
        % 11
        == 0
    )


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    return (
        bool(re.fullmatch(r"\d{13}", digits, re.ASCII))
        and sum(int(d) * (1 + i % 2 * 2) for i, d in enumerate(digits)) % 10 == 0
    )


def _uuid(version: str, variant: str = HEX4) -> Callable[[str], bool]:
    return _matches(f"{HEX8}-?{HEX4}-?{version}-?{variant}-?{HEX12}", re.IGNORECASE)


FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "email": _is_email,
    "ipv4": lambda text: "." in text and _address(text) is not None,
    "ipv6": lambda text: ":" in text and "%" not in text and _address(text) is not None,
    "mac": lambda text: (
        MAC_BYTES.fullmatch(text) is not None or MAC_WORDS.fullmatch(text) is not None
    ),
    "uuid": _uuid(HEX4),
    "uuid3": _uuid("3[0-9a-f]{3}"),
    "uuid4": _uuid("4[0-9a-f]{3}", VARIANT),
    "uuid5": _uuid("5[0-9a-f]{3}", VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "ssn": lambda text: (
        len(text) == len("078-05-1120")
        and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", text, re.ASCII) is not None
    ),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\(\s*{DECIMAL_BYTE}\s*,\s*{DECIMAL_BYTE}\s*,\s*{DECIMAL_BYTE}\s*\)"),
    "byte": _matches("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda _: True,
    "date": _is_date,
    "duration": lambda text: (
        GO_DURATION.fullmatch(text) is not None or SCALA_DURATION.search(text) is not None
    ),
    "k8sshortname": _matches(SHORT_NAME, longest=63),
    "k8slongname": _matches(rf"{SHORT_NAME}(\.{SHORT_NAME})*", longest=253),
}


def _format(name: str) -> Callable[[Callable[[str], bool]], Callable[[str], bool]]:
    """Return a decorator that makes a function the check of a text format."""
    return lambda check: FORMATS.setdefault(name, check)


@_format("datetime")
def _is_datetime(text: str) -> bool:
    if COMMON_TIMESTAMP.fullmatch(text):
        return True
    day, _, rest = text.lower().partition("t")
    found = TIME.fullmatch(rest.split("t")[0])
    return (
        found is not None
        and _is_date(day)
        and found[1] <= "23"
        and found[2] <= "59"
        and found[3] <= "59"
    )


@_format("uri")
def _is_uri(text: str) -> bool:
    """Report whether a text is an absolute URI or an absolute path."""
    if re.search(r"[\x00-\x20\x7f<>\"{}|\\^`]", text.split("?", maxsplit=1)[0]) or re.search(
        r"%(?![0-9A-Fa-f]{2})", text
    ):
        return False
    try:
        parts = urlsplit(text)
        return (
            text.startswith("/")
            or (bool(parts.scheme) and parts.port is not None)
            or bool(parts.scheme)
        )
    except ValueError:
        return False


@_format("cidr")
def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    found = _address(address)
    return (
        bool(slash)
        and found is not None
        and bits.isascii()
        and bits.isdigit()
        and int(bits) <= found.max_prefixlen
    )


@_format("hostname")
def _is_hostname(text: str) -> bool:
    return (
        HOSTNAME.fullmatch(text) is not None
        and len(text) <= 255  # noqa: PLR2004
        and all(len(part) <= 63 for part in text.split("."))  # noqa: PLR2004
    )


@_format("creditcard")
def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    kinds = (
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}"
        r"|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
    )
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return (
        re.fullmatch(kinds, digits) is not None
        and sum(part // 10 + part % 10 for part in doubled) % 10 == 0
    )


NUMBER_FORMATS = {"integer": {"int32", "int64"}, "number": {"float", "double"}}


def known_format(schema_type: str, name: str) -> str:
    """Return the format's name if it has a meaning for this type, otherwise an empty text.

    Dashes in the names of text formats are ignored.
    """
    if schema_type in {"", "string"}:
        return name if name.replace("-", "") in FORMATS else ""
    return name if name in NUMBER_FORMATS.get(schema_type, set()) else ""


def is_text_format(name: str) -> bool:
    return name.replace("-", "") in FORMATS


def fits_format(name: str, text: str) -> bool:
    return FORMATS[name.replace("-", "")](text)
