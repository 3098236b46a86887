"""Checks of single values, combined from small functions: each yields the issues of a value.

A null value counts as absent, as in Kubernetes. An unknown field is a warning that names the
nearest known one; everything else is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from pytest_kscen.objects.arguments import nearest, seconds_of_text
from pytest_kscen.objects.names import dns1123_label, dns1123_subdomain, label_key, label_value

if TYPE_CHECKING:
    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.names import Check as NameCheck


ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """Issue of a Workflow or Schedule: an error prevents it from running well, a warning is only
    odd.
    """

    severity: str
    path: Path
    message: str
    template: str = ""
    """Name of the template that the issue is in; empty outside templates."""

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    @property
    def where(self) -> str:
        return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in self.path).lstrip(
            "."
        )

    def __str__(self) -> str:
        about = f"template {self.template!r}: " if self.template else ""
        return f"{self.where}: {about}{self.message}" if self.path else f"{about}{self.message}"


def error(path: Path, message: str) -> ValidationIssue:
    return ValidationIssue(ERROR, path, message)


def warning(path: Path, message: str) -> ValidationIssue:
    return ValidationIssue(WARNING, path, message)


Shape: TypeAlias = Callable[[Any, "Path"], Iterator[ValidationIssue]]
Check: TypeAlias = Callable[[str], str]
"""Function that returns the error of a text, or an empty text."""

LONGEST_SHOWN = 60
KNOWN_SHOWN = 12


def anything(
    value: Any,  # noqa: ARG001  # the signature of shapes
    path: Path,  # noqa: ARG001
) -> Iterator[ValidationIssue]:
    yield from ()


def text(check: Check = lambda _: "", *, empty: bool = True) -> Shape:
    """Return a check for strings, which must not be empty unless `empty`, and satisfy the given
    check.
    """

    def check_value(value: Any, path: Path) -> Iterator[ValidationIssue]:
        if not isinstance(value, str):
            quoted = ": put it in quotes" if isinstance(value, bool | int | float) else ""
            yield error(path, f"{shown(value)} is not a string{quoted}")
        elif not value and not empty:
            yield error(path, f"{path[-1]} is empty")
        elif complaint := check(value):
            yield error(path, complaint)

    return check_value


def one_of(*words: str) -> Shape:
    def check(value: str) -> str:
        return (
            ""
            if value in words
            else f"{shown(value)} is none of {', '.join(words)}{nearest(value, words)}"
        )

    return text(check)


def whole(low: int | None = None, high: int | None = None) -> Shape:

    def check_value(value: Any, path: Path) -> Iterator[ValidationIssue]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield error(path, f"{shown(value)} is not a whole number")
        elif low is not None and value < low:
            yield error(path, f"{value} is too small: the minimum is {low}")
        elif high is not None and value > high:
            yield error(path, f"{value} is too large: the maximum is {high}")

    return check_value


def number(value: Any, path: Path) -> Iterator[ValidationIssue]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield error(path, f"{shown(value)} is not a number")


def yes_or_no(value: Any, path: Path) -> Iterator[ValidationIssue]:
    if not isinstance(value, bool):
        yield error(path, f"{shown(value)} is neither true nor false")


def a_list(of: Shape, *, least: int = 0) -> Shape:
    def check_value(value: Any, path: Path) -> Iterator[ValidationIssue]:
        if not isinstance(value, list):
            yield error(path, f"{shown(value)} is not a list")
            return
        if len(value) < least:
            yield error(path, f"{path[-1]} is empty")
        for place, each in enumerate(value):
            yield from of(each, (*path, str(place)))

    return check_value


def a_map(of: Shape) -> Shape:

    def check_value(value: Any, path: Path) -> Iterator[ValidationIssue]:
        if not isinstance(value, Mapping):
            yield error(path, f"{shown(value)} is not a map")
            return
        for key, each in value.items():
            yield from of(each, (*path, str(key)))

    return check_value


def a_record(fields: Mapping[str, Shape], *required: str) -> Shape:
    """Return a check for maps with known fields, each with its own form."""

    def check_value(value: Any, path: Path) -> Iterator[ValidationIssue]:
        if not isinstance(value, Mapping):
            names = known(fields or dict.fromkeys(required))
            yield error(path, f"{shown(value)} is not a map{names and f' with {names}'}")
            return
        for name in required:
            if value.get(name) is None:
                yield error(path, f"{name} is missing")
        for key, each in value.items():
            if key not in fields:
                yield warning(
                    (*path, str(key)),
                    f"unknown field {key!r}{nearest(str(key), fields)}: it is ignored",
                )
            elif each is not None:
                yield from fields[key](each, (*path, key))

    return check_value


def shown(value: Any) -> str:
    words = "nothing" if value is None else repr(value)
    return words if len(words) <= LONGEST_SHOWN else f"{words[: LONGEST_SHOWN - 1]}…"


def known(names: Mapping[str, Any]) -> str:
    first = [*names][:KNOWN_SHOWN]
    return ", ".join(first) + (", …" if len(names) > len(first) else "")


WHOLE = re.compile("[0-9]{1,18}")
DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")
RATE = re.compile(r"\s*[0-9]+\s*[tgmk]?bps\s*", re.IGNORECASE)
AMOUNT = re.compile(r"\s*[0-9]+(\.[0-9]+)?\s*([kmgtpe]i?)?b?\s*", re.IGNORECASE)
CODES = range(100, 600)
HUNDRED = 100


@functools.lru_cache(maxsize=1024)
def seconds(value: str) -> float | None:
    try:
        return seconds_of_text(value)
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def duration(value: str) -> str:
    try:
        seconds_of_text(value)
    except ValueError as refusal:
        return str(refusal)
    return ""


def not_negative(value: str) -> str:
    length = seconds(value)
    return f"{value!r} is negative" if length is not None and length < 0 else duration(value)


def positive(value: str) -> str:
    return f"{value!r} is zero: it must be more" if seconds(value) == 0 else not_negative(value)


def percent(value: str) -> str:
    if DECIMAL.fullmatch(value) and float(value) <= HUNDRED:
        return ""
    return (
        f"{value!r} is not a percentage: write a number from 0 to 100 in quotes, without the sign"
    )


def rate(value: str) -> str:
    return (
        ""
        if RATE.fullmatch(value)
        else f"{value!r} is not a rate: write a whole number and its unit, for example 10mbps"
    )


def amount_or_percent(value: str) -> str:
    if value.endswith("%"):
        return percent(value[:-1])
    return (
        ""
        if AMOUNT.fullmatch(value)
        else f"{value!r} is not an amount of memory: write for example 256MB, or a share as 50%"
    )


def url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    return "" if fine else f"{value!r} is not a URL: write http://HOST:PORT/PATH or https://…"


def status_code(value: str) -> str:
    """Return the error of a status code or a range of them, or an empty text."""
    numbers = value.split("-")
    fine = all(WHOLE.fullmatch(each) and int(each) in CODES for each in numbers) and len(
        numbers
    ) in (1, 2)
    if not fine:
        return f"{value!r} is not a status code: write for example '200', or a range as '200-399'"
    return (
        ""
        if int(numbers[0]) <= int(numbers[-1])
        else f"{value!r} is an empty range: its end is below its start"
    )


def _name_check(check: NameCheck, what: str) -> Check:
    def name_error(value: str) -> str:
        wrong = check(value)
        return f"{value!r} is not a {what}: {'; '.join(wrong)}" if wrong else ""

    return name_error


subdomain = _name_check(dns1123_subdomain, "name")
label_name = _name_check(dns1123_label, "name")
a_label_key = _name_check(label_key, "label's key")
a_label_value = _name_check(label_value, "label's value")

TEXT = text()
NAME = text(empty=False)
DURATION = text(not_negative)
PERCENT = text(percent)
