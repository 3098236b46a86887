import pytest

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.embedded.controllers.workloads.cronjobs import CronSchedule
from pytest_kscen.objects.resources import CRON_JOBS, JOBS

MINUTE = 29453760  # of the instant at which every run begins


@pytest.fixture
def create_cron_job(world):
    def create_cron_job(schedule="* * * * *", **spec):
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": pod}}}
        return world.create(
            CRON_JOBS, "tick", {"schedule": schedule, "jobTemplate": template, **spec}
        )

    return create_cron_job


@pytest.fixture
def pod_life(world):
    def pod_life(seconds, code=0):
        world.pod_runner.life = lambda _: (seconds, code)

    return pod_life


def test_jobs_start_on_schedule(world, create_cron_job, pod_life):
    pod_life(10)
    create_cron_job()
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


def test_job_history_is_limited(world, create_cron_job, pod_life):
    pod_life(1)
    create_cron_job(successfulJobsHistoryLimit=2)
    world.advance(5 * 60 + 30)
    assert world.names(JOBS) == [f"tick-{MINUTE + 4}", f"tick-{MINUTE + 5}"]


def test_forbid_skips_concurrent_job(world, create_cron_job, pod_life):
    pod_life(90)
    create_cron_job(concurrencyPolicy="Forbid")
    world.advance(125)
    assert world.names(JOBS) == [f"tick-{MINUTE + 1}"]
    assert (
        "Not starting job because prior execution is running and concurrency policy is Forbid"
        in world.events("tick")
    )
    world.advance(30)
    assert world.names(JOBS) == [f"tick-{MINUTE + 1}", f"tick-{MINUTE + 2}"]


def test_replace_deletes_previous_job(world, create_cron_job, pod_life):
    pod_life(90)
    create_cron_job(concurrencyPolicy="Replace")
    world.advance(125)
    assert world.names(JOBS) == [f"tick-{MINUTE + 2}"]
    assert len(world.status(CRON_JOBS, "tick")["active"]) == 1


def test_allow_runs_jobs_concurrently(world, create_cron_job, pod_life):
    pod_life(90)
    create_cron_job()
    world.advance(125)
    assert len(world.status(CRON_JOBS, "tick")["active"]) == 2


def test_resumed_cron_job_runs_last_missed_time_only(world, create_cron_job, pod_life):
    pod_life(1)
    create_cron_job(suspend=True)
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


def test_job_after_starting_deadline_is_skipped(world, create_cron_job):
    create_cron_job("*/10 * * * *", suspend=True, startingDeadlineSeconds=30)
    world.advance(10 * 60 + 31)
    world.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}})
    assert world.names(JOBS) == []
    world.advance(10 * 60)
    assert world.names(JOBS) == [f"tick-{MINUTE + 20}"]


def test_deleted_active_job_is_reported_missing(world, create_cron_job):
    create_cron_job()
    world.advance(60)
    world.delete(JOBS, f"tick-{MINUTE + 1}")
    world.advance(1)
    assert "active" not in world.status(CRON_JOBS, "tick")
    assert world.events("tick", "MissingJob") == [f"Active job went missing: tick-{MINUTE + 1}"]


def test_jobs_are_deleted_with_cron_job(world, create_cron_job):
    create_cron_job()
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
def test_next_scheduled_time(line, zone, after, then):
    assert timestamp_of(schedule(line, zone).next(epoch_of(after))) == then


def test_missed_times_are_counted():
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
def test_invalid_schedule_is_reported(line, zone, why):
    with pytest.raises(ValueError, match=why):
        schedule(line, zone)
