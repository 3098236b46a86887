"""Whole numbers that stand in labels, taints and selectors as text, as Kubernetes reads them: sixty-four bits, and no more."""

from __future__ import annotations

import re

WRITTEN = re.compile(r"([+-]?)0*([0-9]{1,19})")
PLAIN = re.compile(r"(0|-?[1-9][0-9]{0,18})")
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


def number(text: str, form: re.Pattern[str] = WRITTEN) -> int | None:
    """None for what is no number of this form."""
    found = form.fullmatch(text)
    value = int("".join(found.groups())) if found else None
    return value if value is not None and SMALLEST <= value <= LARGEST else None


def plain_number(text: str) -> int | None:
    """Of tolerations, where a number is written in one way only."""
    return number(text, PLAIN)
