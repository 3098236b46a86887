from __future__ import annotations

import math
from datetime import timedelta

import pytest

from pytest_kscen.objects.arguments import nanoseconds_of_text, seconds_of, seconds_of_text


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("90s", 90),
        (" 1h30m ", 5400),
        ("250ms", 0.25),
        (0, 0),
        (2.5, 2.5),
        (timedelta(minutes=5), 300),
    ],
)
def test_durations_are_seconds(duration, seconds):
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize(
    "duration",
    [
        "-5s",
        -1,
        timedelta(seconds=-1),
        math.nan,
        math.inf,
        -math.inf,
        "",
        "5",
        "5 minutes",
        "inf",
        None,
        True,
        [30],
        b"30s",
    ],
)
def test_invalid_duration_error_shows_valid_form(duration):
    with pytest.raises(ValueError, match=r"write (for example 90s|seconds, zero or more, or)"):
        seconds_of(duration)


def test_go_syntax_allows_negative_durations():
    assert seconds_of_text("-5s") == -5


@pytest.mark.parametrize(
    ("duration", "nanoseconds"),
    [
        ("0", 0), ("-0", 0), ("+5s", 5 * 10**9), ("1h2m3.5s", 3723 * 10**9 + 5 * 10**8), (".5s", 5 * 10**8), ("5.s", 5 * 10**9),
        ("1ns", 1), ("2us", 2000), ("2\u00b5s", 2000), ("2\u03bcs", 2000), ("3ms", 3 * 10**6), ("1s1h", 3601 * 10**9),
        ("0.100000000000000000000h", 360 * 10**9), ("9223372036854775807ns", 2**63 - 1), ("-9223372036854775808ns", -(2**63)),
    ],
)  # fmt: skip
def test_go_durations_are_parsed(duration, nanoseconds):
    assert nanoseconds_of_text(duration) == nanoseconds


INVALID_IN_GO = [
    "1d", "1w", "1y", "1mm", "1h 30m", " 5s ", "5s\n", "1h-1m", "1h,30m", "\uff11s", "\u0661s", "5", "00", ".s", "s", "+", "--1s",
    "1e3s", "1.2.3s", "1S", "1hm", "5 s",
]  # fmt: skip


@pytest.mark.parametrize("duration", INVALID_IN_GO)
def test_invalid_go_duration_is_refused(duration):
    with pytest.raises(ValueError, match="is not a duration: write for example 90s"):
        seconds_of_text(duration)


@pytest.mark.parametrize(
    "duration", ["2562048h", "9223372036854775808ns", f"{'9' * 5000}s", f"{'9' * 400}h"]
)
def test_go_duration_overflow_is_refused(duration):
    with pytest.raises(
        ValueError, match="is longer than any duration: that ends after 292 years"
    ) as refusal:
        seconds_of_text(duration)
    assert len(str(refusal.value)) < 100
