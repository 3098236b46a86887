import pytest

from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    DAY,
    HOUR,
    MINUTE,
    YEAR,
    age,
    duration,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"), (600, "10m"),
        (2 * HOUR + 59 * MINUTE, "179m"), (3 * HOUR, "3h"), (3 * HOUR + 5 * MINUTE, "3h5m"), (8 * HOUR, "8h"), (47 * HOUR, "47h"),
        (2 * DAY, "2d"), (2 * DAY + 5 * HOUR, "2d5h"), (8 * DAY, "8d"), (729 * DAY, "729d"), (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"), (9 * YEAR, "9y"),
    ],
)  # fmt: skip
def test_durations(seconds, shown):
    assert duration(seconds) == shown


def test_age_is_relative_to_instant():
    assert age("2026-01-01T00:00:00Z", 1767225600 + 90) == "90s"
