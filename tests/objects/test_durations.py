from __future__ import annotations

import math
from datetime import timedelta

import pytest

from pytest_kscen.objects.durations import seconds_of, seconds_of_text


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("90s", 90), (" 1h30m ", 5400), ("250ms", 0.25), (0, 0), (2.5, 2.5), (timedelta(minutes=5), 300)],
)
def test_durations_are_seconds(duration, seconds):
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize("duration", ["-5s", -1, timedelta(seconds=-1), math.nan, math.inf, -math.inf, "", "5", "5 minutes", "inf"])
def test_what_is_no_length_of_time_is_refused_with_what_to_write(duration):
    with pytest.raises(ValueError, match=r"write (a number and a unit, as in '90s'|seconds, zero or more, or)"):
        seconds_of(duration)


def test_gos_own_syntax_knows_negative_ones():
    assert seconds_of_text("-5s") == -5
