"""What is wrong with a text that has to have a form: a duration, a share, a number, a URL."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kscen.objects.durations import seconds_of_text
from pytest_kscen.objects.names import dns1123_label, dns1123_subdomain, label_key, label_value
from pytest_kscen.workflow.validation.shapes import text

if TYPE_CHECKING:
    from pytest_kscen.objects.names import Check as NameCheck
    from pytest_kscen.workflow.validation.shapes import Check

WHOLE = re.compile("[0-9]{1,18}")
DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")
RATE = re.compile(r"\s*[0-9]+\s*[tgmk]?bps\s*", re.IGNORECASE)
AMOUNT = re.compile(r"\s*[0-9]+(\.[0-9]+)?\s*([kmgtpe]i?)?b?\s*", re.IGNORECASE)
CODES = range(100, 600)
HUNDRED = 100


def seconds(value: object) -> float | None:
    """How long a duration is; none if it is no duration."""
    return _seconds(value) if isinstance(value, str) else None


@functools.lru_cache(maxsize=1024)
def _seconds(value: str) -> float | None:
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
    return f"{value!r} is negative: a length of time is not" if length is not None and length < 0 else duration(value)


def positive(value: str) -> str:
    return f"{value!r} is no time at all: it has to be more than zero" if seconds(value) == 0 else not_negative(value)


def percent(value: str) -> str:
    if DECIMAL.fullmatch(value) and float(value) <= HUNDRED:
        return ""
    return f"{value!r} is no percentage: write a number from 0 to 100, in quotes and without the sign"


def rate(value: str) -> str:
    return "" if RATE.fullmatch(value) else f"{value!r} is no rate: write a whole number and its unit, as in 10mbps or 512kbps"


def amount_or_percent(value: str) -> str:
    if value.endswith("%"):
        return percent(value[:-1])
    return "" if AMOUNT.fullmatch(value) else f"{value!r} is no amount of memory: write one as in 256MB, or a share as in 50%"


def url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    return "" if fine else f"{value!r} is no URL that can be asked: write http://HOST:PORT/PATH or https://…"


def status_code(value: str) -> str:
    """One, or a range of them."""
    numbers = value.split("-")
    fine = all(WHOLE.fullmatch(each) and int(each) in CODES for each in numbers) and len(numbers) in (1, 2)
    if not fine:
        return f"{value!r} is no status code: write one, as in '200', or a range, as in '200-399'"
    return "" if int(numbers[0]) <= int(numbers[-1]) else f"{value!r} holds no status code: the range ends before it begins"


def _in_words(check: NameCheck, what: str) -> Check:
    def look(value: str) -> str:
        wrong = check(value)
        return f"{value!r} is no {what}: {'; '.join(wrong)}" if wrong else ""

    return look


subdomain = _in_words(dns1123_subdomain, "name")
a_label = _in_words(dns1123_label, "name")
a_label_key = _in_words(label_key, "label's key")
a_label_value = _in_words(label_value, "label's value")

TEXT = text()
NAME = text(empty=False)
DURATION = text(not_negative)
PERCENT = text(percent)
