import pytest

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.embedded.controllers.workloads.cronjobs import CronSchedule
from pytest_kscen.objects.resources import CRON_JOBS, JOBS

MINUTE = 29453760  # of the instant at which every run begins


@pytest.fixture
def appoint(world):
    def appoint(schedule="* * * * *", **spec):
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": pod}}}
        return world.create(
            CRON_JOBS, "tick", {"schedule": schedule, "jobTemplate": template, **spec}
        )

    return appoint


@pytest.fixture
def lives(world):
    def lives(seconds, code=0):
        world.hands.life = lambda _: (seconds, code)

    return lives


def test_a_job_at_every_appointed_minute(world, appoint, lives):
    lives(10)
    appoint()
    world.advance(59)
    assert world.names(JOBS) == []
    world.advance(1)
    [job] = world.list(JOBS)
    assert job["metadata"]["name"] == f"tick-{MINUTE + 1}"
    assert job["metadata"]["labels"]["a"] == "b"
    assert job["metadata"]["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:01:00Z"
    }
    status = world.status(CRON_JOBS, "tick")
    assert [reference["name"] for reference in status["active"]] == [f"tick-{MINUTE + 1}"]
    assert status["lastScheduleTime"] == "2026-01-01T00:01:00Z"
    world.advance(20)
    assert world.status(CRON_JOBS, "tick") == {
        "lastScheduleTime": "2026-01-01T00:01:00Z",
        "lastSuccessfulTime": "2026-01-01T00:01:12Z",
    }
    assert world.events("tick") == [
        f"Created job tick-{MINUTE + 1}",
        f"Saw completed job: tick-{MINUTE + 1}, condition: Complete",
    ]


def test_only_so_many_old_jobs_are_kept(world, appoint, lives):
    lives(1)
    appoint(successfulJobsHistoryLimit=2)
    world.advance(5 * 60 + 30)
    assert world.names(JOBS) == [f"tick-{MINUTE + 4}", f"tick-{MINUTE + 5}"]


def test_forbid_skips_what_would_run_beside_another(world, appoint, lives):
    lives(90)
    appoint(concurrencyPolicy="Forbid")
    world.advance(125)
    assert world.names(JOBS) == [f"tick-{MINUTE + 1}"]
    assert (
        "Not starting job because prior execution is running and concurrency policy is Forbid"
        in world.events("tick")
    )
    world.advance(30)
    assert world.names(JOBS) == [f"tick-{MINUTE + 1}", f"tick-{MINUTE + 2}"]


def test_replace_ends_the_job_before(world, appoint, lives):
    lives(90)
    appoint(concurrencyPolicy="Replace")
    world.advance(125)
    assert world.names(JOBS) == [f"tick-{MINUTE + 2}"]
    assert len(world.status(CRON_JOBS, "tick")["active"]) == 1


def test_allow_lets_them_run_side_by_side(world, appoint, lives):
    lives(90)
    appoint()
    world.advance(125)
    assert len(world.status(CRON_JOBS, "tick")["active"]) == 2


def test_suspended_it_rests_and_then_makes_up_for_the_last_time_only(world, appoint, lives):
    lives(1)
    appoint(suspend=True)
    world.advance(150 * 60)
    assert world.names(JOBS) == []
    world.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}})
    assert world.names(JOBS) == [f"tick-{MINUTE + 150}"]
    assert world.events("tick", "TooManyMissedTimes") == [
        (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
            "check clock skew"
        )
    ]


def test_too_late_is_not_at_all(world, appoint):
    appoint("*/10 * * * *", suspend=True, startingDeadlineSeconds=30)
    world.advance(10 * 60 + 31)
    world.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}})
    assert world.names(JOBS) == []
    world.advance(10 * 60)
    assert world.names(JOBS) == [f"tick-{MINUTE + 20}"]


def test_an_active_job_that_vanishes_is_missed(world, appoint):
    appoint()
    world.advance(60)
    world.delete(JOBS, f"tick-{MINUTE + 1}")
    world.advance(1)
    assert "active" not in world.status(CRON_JOBS, "tick")
    assert world.events("tick", "MissingJob") == [f"Active job went missing: tick-{MINUTE + 1}"]


def test_its_jobs_go_with_it(world, appoint):
    appoint()
    world.advance(60)
    world.delete(CRON_JOBS, "tick")
    world.advance(1)
    assert world.names(JOBS) == []


def schedule(line, zone=None):
    return CronSchedule.of({"spec": {"schedule": line, **({"timeZone": zone} if zone else {})}})


@pytest.mark.parametrize(
    ("line", "zone", "after", "then"),
    [
        ("* * * * *", None, "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
        ("30 9 * * 1-5", None, "2026-01-02T10:00:00Z", "2026-01-05T09:30:00Z"),
        ("30 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:30:00Z"),
        ("0 0 1 ? *", None, "2026-01-02T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@hourly", None, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
        ("@weekly", None, "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@every 90s", None, "2026-01-01T00:00:10Z", "2026-01-01T00:01:40Z"),
    ],
)
def test_the_next_appointed_time(line, zone, after, then):
    assert timestamp_of(schedule(line, zone).next(epoch_of(after))) == then


def test_how_many_times_were_missed():
    since, now = epoch_of("2026-01-01T00:00:00Z"), epoch_of("2026-01-01T03:00:30Z")
    last, count = schedule("* * * * *").missed(since, now)
    assert (timestamp_of(last), count) == ("2026-01-01T03:00:00Z", 180)
    assert schedule("@daily").missed(since, now) == (None, 0)
    assert schedule("@hourly").missed(since, since + 3600)[1] == 1


@pytest.mark.parametrize(
    ("line", "zone", "why"),
    [
        ("whenever", None, "unparseable schedule"),
        ("0 0 30 2 *", None, "unparseable schedule"),
        ("@daily", "Mars/Base", "invalid timeZone"),
    ],
)
def test_what_cannot_be_read(line, zone, why):
    with pytest.raises(ValueError, match=why):
        schedule(line, zone)
