import datetime
import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.objects.cron import Cron, CronError, fault_of

START = "2026-01-01T00:00:00Z"


def times(text, after=START, count=3):
    return [
        timestamp_of(moment)
        for moment in itertools.islice(Cron.of(text).after(epoch_of(after)), count)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"]),
        (
            "*/20 * * * * *",
            ["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"],
        ),
        (
            "30 9 * * MON-FRI",
            ["2026-01-01T09:30:00Z", "2026-01-02T09:30:00Z", "2026-01-05T09:30:00Z"],
        ),
        (
            "0 0 1 ? JAN,jul *",
            ["2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z", "2026-01-03T01:00:00Z"],
        ),
        (
            "0 0 1 JAN,jul ?",
            ["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z"],
        ),
        (
            "50/5 23 31 * *",
            ["2026-01-31T23:50:00Z", "2026-01-31T23:55:00Z", "2026-03-31T23:50:00Z"],
        ),
        (
            "0 12 13 * FRI",
            ["2026-01-02T12:00:00Z", "2026-01-09T12:00:00Z", "2026-01-13T12:00:00Z"],
        ),  # either day will do
        ("0 12 */2 * 5", ["2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z", "2026-01-03T12:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"]),
        ("0 0 30 2 *", []),
        ("0 0 31 4,6,9,11 *", []),
        (", * * * *", []),
        ("@hourly", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"]),
        ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-18T00:00:00Z"]),
        ("@every 1h30m", ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z", "2026-01-01T04:30:00Z"]),
        ("@every 10ms", ["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"]),
        (
            "TZ=Asia/Tokyo 0 9 * * *",
            ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"],
        ),
    ],
)
def test_schedule_times(text, expected):
    assert times(text) == expected


def test_skipped_hour_has_no_times():
    assert times("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00Z", 2) == [
        "2026-03-28T01:30:00Z",
        "2026-03-30T00:30:00Z",
    ]


def test_repeated_hour_has_two_times():
    assert times("CRON_TZ=Europe/Berlin 30 2 * 10 *", "2026-10-25T00:00:00Z") == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
        "2026-10-26T01:30:00Z",
    ]
    assert times("CRON_TZ=Europe/Berlin 30 2 25 10 *", count=2) == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
    ]


def test_fractional_start_is_rounded_up():
    assert Cron.of("* * * * * *").next_after(10.999) == 11
    assert Cron.of("* * * * * *").next_after(11) == 12
    assert Cron.of("@every 5s").next_after(10.7) == 15


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "expected 5 to 6 fields, found 4: [* * * *]"),
        ("", "expected 5 to 6 fields, found 0: []"),
        ("* * * * * * *", "expected 5 to 6 fields, found 7: [* * * * * * *]"),
        ("0 24 * * *", "end of range (24) above maximum (23): 24"),
        ("0 0 L * *", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every 1d", 'failed to parse duration @every 1d: time: invalid duration "1d"'),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ],
)
def test_invalid_schedule_is_refused(text, why):
    with pytest.raises(CronError) as error:
        Cron.of(text)
    assert str(error.value) == f"{text!r} is not a schedule: {why}"


@pytest.mark.parametrize(
    ("text", "hours", "last", "count"),
    [
        ("0,1 9 * * *", 240, "2026-01-10T09:01:00Z", 20),
        ("* * * * *", 2.5, "2026-01-01T02:30:00Z", 150),
        ("* 9 1 * *", 24 * 50, "2026-02-01T09:59:00Z", 71461),  # as if each minute had counted
        ("@every 7s", 1, "2026-01-01T00:59:58Z", 514),
        ("@every 7h", 24, "2026-01-01T21:00:00Z", 3),
    ],
)
def test_missed_times_are_counted(text, hours, last, count):
    since = epoch_of(START)
    found, how_many = Cron.of(text).missed(since, since + hours * 3600)
    assert (timestamp_of(found), how_many) == (last, count)


def test_seconds_field_is_refused_by_fault_of():
    assert fault_of("* * * * *") == ""
    assert fault_of("* * * * * *") == "expected exactly 5 fields, found 6: [* * * * * *]"


def test_year_of_minutes_is_fast():
    cron, end = Cron.of("* * * * *"), epoch_of("2027-01-01T00:00:00Z")
    began = time.process_time()
    assert (
        sum(
            1
            for _ in itertools.takewhile(lambda moment: moment <= end, cron.after(epoch_of(START)))
        )
        == 365 * 1440
    )
    assert time.process_time() - began < 6  # a second or two on a machine with nothing else to do


def test_impossible_date_is_detected_fast():
    began = time.process_time()
    assert Cron.of("CRON_TZ=America/New_York 0 0 30 2 *").next_after(0) is None
    assert time.process_time() - began < 3


FIELD_RANGES = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}


def field_strategy(low, high):
    number = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        st.integers(1, high).map(lambda step: f"*/{step}"),
        st.lists(number, min_size=1, max_size=3).map(lambda numbers: ",".join(map(str, numbers))),
    )


def next_by_minutes(cron, start):
    """Search minute by minute for 40 days."""
    _, minutes, hours, days, months, weekdays = cron.fields
    for moment in range(start - start % 60 + 60, start + 40 * 86400, 60):
        face = datetime.datetime.fromtimestamp(moment, cron.zone)
        by_day, by_weekday = face.day in days.numbers, face.isoweekday() % 7 in weekdays.numbers
        if (
            face.minute in minutes.numbers
            and face.hour in hours.numbers
            and face.month in months.numbers
            and (by_day and by_weekday if days.any or weekdays.any else by_day or by_weekday)
        ):
            return moment
    return None


@given(
    st.tuples(*(field_strategy(*span) for span in FIELD_RANGES.values())).map(" ".join),
    st.integers(1_700_000_000, 1_900_000_000),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"]),
)
@settings(max_examples=60, deadline=None)
def test_next_time_equals_minute_by_minute_search(text, start, zone):
    cron = Cron.of(f"CRON_TZ={zone} {text}")
    expected, found = next_by_minutes(cron, start), cron.next_after(start)
    assert found == expected or (
        expected is None and (found is None or found >= start + 40 * 86400 - 60)
    )
