"""Quantities (`1500m`, `2Gi`, `1e3`): exact to the nano, comparable, and formatted as Kubernetes
does.

A quantity is a whole number of billionths and a format: decimal, binary or exponent. Parsing and
formatting are cached, because a cluster has few different quantities and uses them often.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

NANO = 10**9
MILLI = 10**6  # in nanos
_PATTERN = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<part>\d*))?(?P<suffix>[eEinumkKMGTP]*[-+]?\d*)",
    re.ASCII,
)
_EXPONENT = re.compile(r"[eE]([-+]?\d+)", re.ASCII)
_WRONG_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_LARGEST_BINARY = (2**63 - 1) * NANO
_LARGEST_EXPONENT = 400


class QuantityFormat(Enum):
    """Format in which a quantity was written. Kubernetes writes the results of calculations in the
    format of the first operand.
    """

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}


class Quantity(NamedTuple):
    """Exact number of billionths, with the format in which it is written. Quantities of equal value
    and different format are not equal; compare their `nanos`.
    """

    nanos: int
    format: QuantityFormat = QuantityFormat.DECIMAL

    @property
    def value(self) -> int:
        return _rounded_up(self.nanos, NANO)

    @property
    def milli(self) -> int:
        return _rounded_up(self.nanos, MILLI)

    @property
    def decimal(self) -> Decimal:
        return Decimal(self.nanos).scaleb(-9)

    def __str__(self) -> str:
        if self.nanos == 0:
            return "0"
        if (
            self.format is QuantityFormat.BINARY
            and abs(self.nanos) >= 1024 * NANO
            and self.nanos % NANO == 0
        ):
            value: int = self.nanos // NANO
            power = 0
            while value % 1024 == 0 and power < len(_BINARY):
                value, power = value // 1024, power + 1
            return f"{value}{_BINARY_SUFFIX.get(power, '')}"
        amount: int = self.nanos
        exponent, largest = (
            -9,
            18
            if self.format is QuantityFormat.DECIMAL or self.format is QuantityFormat.BINARY
            else _LARGEST_EXPONENT,
        )
        while amount % 1000 == 0 and exponent < largest:
            amount, exponent = amount // 1000, exponent + 3
        if self.format is QuantityFormat.EXPONENT:
            return f"{amount}e{exponent}" if exponent else str(amount)
        return f"{amount}{_DECIMAL_SUFFIX[exponent]}"


@functools.lru_cache(maxsize=2048)
def parse(text: str | float) -> Quantity:
    """Parse a quantity, exactly. Raises ValueError with Kubernetes' message; smaller fractions than
    a billionth are rounded up.
    """
    found = _PATTERN.fullmatch(str(text))
    if found is None or not str(text):
        raise ValueError(_WRONG_FORMAT)
    number, suffix = (
        f"{found['sign']}{found['whole'] or '0'}.{found['part'] or '0'}",
        found["suffix"],
    )
    if suffix in _DECIMAL:
        return Quantity(_nanos(number, 10, _DECIMAL[suffix]))
    if suffix in _BINARY:
        nanos = min(_nanos(number, 1024, _BINARY[suffix]), _LARGEST_BINARY)
        return Quantity(
            nanos, QuantityFormat.DECIMAL if 0 < nanos < NANO else QuantityFormat.BINARY
        )
    if exponent := _EXPONENT.fullmatch(suffix):
        return Quantity(_nanos(number, 10, int(exponent[1])), QuantityFormat.EXPONENT)
    raise ValueError(_WRONG_SUFFIX)


@functools.lru_cache(maxsize=2048)
def canonical(text: str | float) -> str:
    """Return a quantity as Kubernetes returns it. A short text stays as it was written."""
    quantity = parse(text)
    return str(text) if _is_short(str(text), quantity.format) else str(quantity)


@functools.lru_cache(maxsize=2048)
def in_millis(text: str | float) -> str:
    """Return a quantity of a resource list in canonical form. Fractions of thousandths, which
    resource lists do not have, are rounded up.
    """
    quantity = parse(text)
    return (
        str(Quantity(quantity.milli * MILLI, quantity.format))
        if quantity.nanos % MILLI
        else canonical(text)
    )


def nanos(text: str | float) -> int:
    return parse(text).nanos


def compare(one: str | float, other: str | float) -> int:
    return (nanos(one) > nanos(other)) - (nanos(one) < nanos(other))


def add(one: str | float, other: str | float) -> str:
    """Add two quantities. The result has the format of the first one, unless that is zero."""
    return _sum(parse(one), parse(other), 1)


def subtract(one: str | float, other: str | float) -> str:
    return _sum(parse(one), parse(other), -1)


def _sum(one: Quantity, other: Quantity, sign: int) -> str:
    return str(Quantity(one.nanos + sign * other.nanos, one.format if one.nanos else other.format))


def _nanos(number: str, base: int, exponent: int) -> int:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(_WRONG_NUMBER)
    whole, _, part = number.partition(".")
    digits, scale = int(whole + part), len(part)
    numerator, denominator = digits * NANO, 10**scale
    if exponent >= 0:
        numerator *= base**exponent
    else:
        denominator *= base**-exponent
    return _rounded_up(numerator, denominator)


def _rounded_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator) if numerator > 0 else numerator // denominator


def _is_short(text: str, form: QuantityFormat) -> bool:
    """Return True if Kubernetes keeps the text: no digit is superfluous, and its exponent has a
    suffix.
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        return False
    whole, part, suffix = found["whole"] or "0", found["part"] or "", found["suffix"]
    if form is QuantityFormat.BINARY:
        fits = len(whole) + int(_BINARY[suffix] * 3) <= 14  # noqa: PLR2004  # digits of an int64
        return not part and int(whole) % 8 != 0 and fits
    exponent = (
        _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] if suffix[:1] in "eE" else 0)
    )
    digits, scale = whole + part, exponent - len(part)
    fits = len(digits) <= 18 and scale >= -9  # noqa: PLR2004  # int64, nano
    return fits and scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
