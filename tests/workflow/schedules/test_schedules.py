from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, KINDS, PAUSE, SHIPPED

POD_CHAOS = KINDS["PodChaos"].resource
WORKFLOW = {
    "entry": "rest",
    "templates": [{"name": "rest", "templateType": "Suspend", "deadline": "90s"}],
}


def test_chaos_starts_at_every_scheduled_minute(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(historyLimit=2)
    schedule_cluster.until(59)
    assert schedule_cluster.there() == []
    schedule_cluster.until(61)
    (chaos,) = schedule_cluster.call(schedule_cluster.api.list(POD_CHAOS)).items
    metadata = chaos["metadata"]
    assert metadata["name"] == "tick-1767225660"
    assert metadata["labels"] == {"managed-by": "tick", "kscen.io/run": "run-1"}
    assert metadata["annotations"] == {"workflow.kscen.io/scheduled-at": "2026-01-01T00:01:00Z"}
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["Schedule"]
    assert chaos["spec"]["action"] == "pod-failure"
    status = schedule_cluster.status()
    assert status["time"] == "2026-01-01T00:01:00Z"
    assert [active["name"] for active in status["active"]] == ["tick-1767225660"]
    schedule_cluster.until(280)
    assert schedule_cluster.spawned() == [(60, 60), (120, 120), (180, 180), (240, 240)]
    assert schedule_cluster.there() == [180, 240]
    assert schedule_cluster.status() == {"active": [], "time": "2026-01-01T00:04:00Z"}
    assert ("Spawned", "Create new object: tick-1767225660") in schedule_cluster.events()


def test_schedules_by_seconds_and_by_periods(schedule_cluster):
    schedule_cluster.schedule("15,45 * * * * *", name="seconds", concurrencyPolicy="Allow")
    schedule_cluster.until(80)
    assert schedule_cluster.spawned() == [(15, 15), (45, 45), (75, 75)]
    schedule_cluster.call(schedule_cluster.api.delete(SHIPPED.schedules, "seconds", "default"))
    schedule_cluster.notes.clear()
    schedule_cluster.schedule("@every 1m30s", name="periods", concurrencyPolicy="Allow")
    schedule_cluster.until(300)
    assert schedule_cluster.spawned() == [(170, 170), (260, 260)]


def test_forbid_is_the_default_concurrency(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(length="90s")
    schedule_cluster.until(149)
    assert schedule_cluster.spawned() == [(60, 60)]
    assert (
        "Forbid",
        "Forbid spawning new job because: tick-1767225660 is still running",
    ) in schedule_cluster.events()
    schedule_cluster.until(155)
    assert schedule_cluster.spawned() == [(60, 60), (150, 120)]  # what was forbidden is made up for


def test_allowed_runs_overlap(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(length="90s", concurrencyPolicy="Allow")
    schedule_cluster.until(125)
    assert schedule_cluster.spawned() == [(60, 60), (120, 120)]
    assert len(schedule_cluster.status()["active"]) == 2
    assert (
        "Skip",
        "Skip removing history: tick-1767225660 is still running",
    ) in schedule_cluster.events()
    schedule_cluster.until(152)
    assert schedule_cluster.there() == [120]


def test_single_run_ends_at_once(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(
        podChaos={"action": "pod-kill", "mode": "all", "selector": {"labelSelectors": {"app": "a"}}}
    )
    schedule_cluster.until(190)
    assert schedule_cluster.spawned() == [
        (60, 60),
        (120, 120),
        (180, 180),
    ]  # though the second has found no pod
    assert schedule_cluster.there() == [180]


def test_paused_schedule_pauses_its_chaos(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(length="30s")
    schedule_cluster.until(70)
    schedule_cluster.pause("true")
    schedule_cluster.until(75)
    (chaos,) = schedule_cluster.call(schedule_cluster.api.list(POD_CHAOS)).items
    assert chaos["metadata"]["annotations"][PAUSE] == "true"
    schedule_cluster.until(185)
    assert schedule_cluster.spawned() == [(60, 60)]
    schedule_cluster.pause("false")
    schedule_cluster.until(186)
    assert schedule_cluster.spawned() == [
        (60, 60),
        (185, 180),
    ]  # of several that were missed the last


def test_missed_start_deadline_skips_the_run(schedule_cluster):
    schedule_cluster.schedule("*/10 * * * *", startingDeadlineSeconds=30, concurrencyPolicy="Allow")
    schedule_cluster.end()
    schedule_cluster.until(631)
    schedule_cluster.begin()
    schedule_cluster.until(632)
    assert schedule_cluster.spawned() == []
    assert schedule_cluster.events() == [
        ("MissSchedule", "Missed scheduled time to start a job: Thu, 01 Jan 2026 00:10:00 +0000")
    ]
    schedule_cluster.end()
    schedule_cluster.until(1230)
    schedule_cluster.begin()
    schedule_cluster.until(1231)
    assert schedule_cluster.spawned() == [(1230, 1200)]


def test_many_missed_times_are_reported_and_the_schedule_continues(schedule_cluster):
    schedule_cluster.schedule()
    schedule_cluster.end()
    schedule_cluster.until(102 * 60)
    schedule_cluster.begin()
    schedule_cluster.until(102 * 60 + 1)
    assert schedule_cluster.spawned() == []
    assert [reason for reason, _ in schedule_cluster.events()] == ["MissSchedule"]
    schedule_cluster.until(103 * 60 + 1)
    assert schedule_cluster.spawned() == [(103 * 60, 103 * 60)]


def test_restarted_schedule_spawns_nothing_twice(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(length="90s", concurrencyPolicy="Allow")
    schedule_cluster.until(61)
    schedule_cluster.end()
    back = {
        "status": {"time": None, "active": []}
    }  # as if there had been no time to say what was done
    schedule_cluster.call(
        schedule_cluster.api.patch(SHIPPED.schedules, "tick", back, "default", subresource="status")
    )
    schedule_cluster.begin()
    schedule_cluster.until(100)
    assert schedule_cluster.spawned() == [(60, 60)]
    assert schedule_cluster.status()["time"] == "2026-01-01T00:01:00Z"
    schedule_cluster.until(121)
    assert schedule_cluster.spawned() == [(60, 60), (120, 120)]


def test_spawned_objects_are_deleted_with_the_schedule(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule(length="1h")
    schedule_cluster.until(70)
    schedule_cluster.call(
        schedule_cluster.api.delete(SHIPPED.schedules, "tick", "default", propagation="Background")
    )
    schedule_cluster.until(130)
    assert schedule_cluster.there() == []
    assert schedule_cluster.spawned() == [(60, 60)]


def test_schedule_spawns_workflows(schedule_cluster):
    schedule_cluster.begin(engine=True)
    schedule_cluster.schedule(type="Workflow", workflow=WORKFLOW)
    schedule_cluster.until(149)
    assert schedule_cluster.spawned() == [(60, 60)]
    schedule_cluster.until(155)
    assert schedule_cluster.spawned() == [(60, 60), (150, 120)]
    phases = {
        each["metadata"]["name"]: each["status"]["phase"]
        for each in schedule_cluster.call(schedule_cluster.api.list(SHIPPED.workflows)).items
    }
    assert phases == {"tick-1767225720": "Running"}


def test_cron_workflow_is_a_schedule_of_workflows(schedule_cluster):
    schedule_cluster.begin(engine=True)
    schedule_cluster.schedule("@hourly", resource=CRON_WORKFLOWS, workflow=WORKFLOW, historyLimit=3)
    schedule_cluster.until(2 * 3600 + 100)
    assert schedule_cluster.spawned() == [(3600, 3600), (7200, 7200)]
    assert schedule_cluster.there(SHIPPED.workflows) == [3600, 7200]
    assert schedule_cluster.status(resource=CRON_WORKFLOWS) == {
        "active": [],
        "time": "2026-01-01T02:00:00Z",
    }


def test_unreadable_schedule_is_reported(schedule_cluster):
    schedule_cluster.schedule("every day", name="tick")
    schedule_cluster.advance(5)
    (event,) = schedule_cluster.events()
    assert event == (
        "Failed",
        (
            "Failed to get run time: 'every day' is not a schedule: expected 5 to 6 fields, "
            "found 2: [every day]"
        ),
    )
    schedule_cluster.call(
        schedule_cluster.api.patch(
            SHIPPED.schedules, "tick", {"spec": {"schedule": "* * * * *"}}, "default"
        )
    )
    schedule_cluster.until(61)
    assert schedule_cluster.spawned() == [(60, 60)]


def test_schedule_without_a_template_is_reported(schedule_cluster):
    schedule_cluster.schedule(podChaos=None)
    schedule_cluster.until(61)
    assert schedule_cluster.events() == [
        ("Failed", "Failed to get run time: its type is PodChaos, so its spec needs 'podChaos'")
    ]


def test_refused_request_is_retried(schedule_cluster):
    schedule_cluster.pod()
    schedule_cluster.schedule()
    refused = {
        "metadata": {"name": "tick-1767225660", "namespace": "default"},
        "spec": {"action": "pod-kill", "mode": "all", "selector": {}},
    }
    schedule_cluster.call(
        schedule_cluster.api.create(POD_CHAOS, refused)
    )  # somebody else's has the name
    schedule_cluster.until(75)
    assert schedule_cluster.spawned() == []
    assert {reason for reason, _ in schedule_cluster.events()} == {"Failed"}
    schedule_cluster.call(schedule_cluster.api.delete(POD_CHAOS, "tick-1767225660", "default"))
    schedule_cluster.until(85)
    assert schedule_cluster.spawned() == [(80, 60)]
