from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, KINDS, PAUSE, SHIPPED

POD_CHAOS = KINDS["PodChaos"].resource
WORKFLOW = {
    "entry": "rest",
    "templates": [{"name": "rest", "templateType": "Suspend", "deadline": "90s"}],
}


def test_chaos_starts_at_every_scheduled_minute(timetable):
    timetable.pod()
    timetable.schedule(historyLimit=2)
    timetable.until(59)
    assert timetable.there() == []
    timetable.until(61)
    (chaos,) = timetable.call(timetable.api.list(POD_CHAOS)).items
    metadata = chaos["metadata"]
    assert metadata["name"] == "tick-1767225660"
    assert metadata["labels"] == {"managed-by": "tick", "kscen.io/run": "run-1"}
    assert metadata["annotations"] == {"workflow.kscen.io/scheduled-at": "2026-01-01T00:01:00Z"}
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["Schedule"]
    assert chaos["spec"]["action"] == "pod-failure"
    status = timetable.status()
    assert status["time"] == "2026-01-01T00:01:00Z"
    assert [active["name"] for active in status["active"]] == ["tick-1767225660"]
    timetable.until(280)
    assert timetable.spawned() == [(60, 60), (120, 120), (180, 180), (240, 240)]
    assert timetable.there() == [180, 240]
    assert timetable.status() == {"active": [], "time": "2026-01-01T00:04:00Z"}
    assert ("Spawned", "Create new object: tick-1767225660") in timetable.events()


def test_schedules_by_seconds_and_by_periods(timetable):
    timetable.schedule("15,45 * * * * *", name="seconds", concurrencyPolicy="Allow")
    timetable.until(80)
    assert timetable.spawned() == [(15, 15), (45, 45), (75, 75)]
    timetable.call(timetable.api.delete(SHIPPED.schedules, "seconds", "default"))
    timetable.notes.clear()
    timetable.schedule("@every 1m30s", name="periods", concurrencyPolicy="Allow")
    timetable.until(300)
    assert timetable.spawned() == [(170, 170), (260, 260)]


def test_forbid_is_the_default_concurrency(timetable):
    timetable.pod()
    timetable.schedule(length="90s")
    timetable.until(149)
    assert timetable.spawned() == [(60, 60)]
    assert (
        "Forbid",
        "Forbid spawning new job because: tick-1767225660 is still running",
    ) in timetable.events()
    timetable.until(155)
    assert timetable.spawned() == [(60, 60), (150, 120)]  # what was forbidden is made up for


def test_allowed_runs_overlap(timetable):
    timetable.pod()
    timetable.schedule(length="90s", concurrencyPolicy="Allow")
    timetable.until(125)
    assert timetable.spawned() == [(60, 60), (120, 120)]
    assert len(timetable.status()["active"]) == 2
    assert ("Skip", "Skip removing history: tick-1767225660 is still running") in timetable.events()
    timetable.until(152)
    assert timetable.there() == [120]


def test_single_run_ends_at_once(timetable):
    timetable.pod()
    timetable.schedule(
        podChaos={"action": "pod-kill", "mode": "all", "selector": {"labelSelectors": {"app": "a"}}}
    )
    timetable.until(190)
    assert timetable.spawned() == [
        (60, 60),
        (120, 120),
        (180, 180),
    ]  # though the second has found no pod
    assert timetable.there() == [180]


def test_paused_schedule_pauses_its_chaos(timetable):
    timetable.pod()
    timetable.schedule(length="30s")
    timetable.until(70)
    timetable.pause("true")
    timetable.until(75)
    (chaos,) = timetable.call(timetable.api.list(POD_CHAOS)).items
    assert chaos["metadata"]["annotations"][PAUSE] == "true"
    timetable.until(185)
    assert timetable.spawned() == [(60, 60)]
    timetable.pause("false")
    timetable.until(186)
    assert timetable.spawned() == [(60, 60), (185, 180)]  # of several that were missed the last


def test_missed_start_deadline_skips_the_run(timetable):
    timetable.schedule("*/10 * * * *", startingDeadlineSeconds=30, concurrencyPolicy="Allow")
    timetable.end()
    timetable.until(631)
    timetable.begin()
    timetable.until(632)
    assert timetable.spawned() == []
    assert timetable.events() == [
        ("MissSchedule", "Missed scheduled time to start a job: Thu, 01 Jan 2026 00:10:00 +0000")
    ]
    timetable.end()
    timetable.until(1230)
    timetable.begin()
    timetable.until(1231)
    assert timetable.spawned() == [(1230, 1200)]


def test_many_missed_times_are_reported_and_the_schedule_continues(timetable):
    timetable.schedule()
    timetable.end()
    timetable.until(102 * 60)
    timetable.begin()
    timetable.until(102 * 60 + 1)
    assert timetable.spawned() == []
    assert [reason for reason, _ in timetable.events()] == ["MissSchedule"]
    timetable.until(103 * 60 + 1)
    assert timetable.spawned() == [(103 * 60, 103 * 60)]


def test_restarted_schedule_spawns_nothing_twice(timetable):
    timetable.pod()
    timetable.schedule(length="90s", concurrencyPolicy="Allow")
    timetable.until(61)
    timetable.end()
    back = {
        "status": {"time": None, "active": []}
    }  # as if there had been no time to say what was done
    timetable.call(
        timetable.api.patch(SHIPPED.schedules, "tick", back, "default", subresource="status")
    )
    timetable.begin()
    timetable.until(100)
    assert timetable.spawned() == [(60, 60)]
    assert timetable.status()["time"] == "2026-01-01T00:01:00Z"
    timetable.until(121)
    assert timetable.spawned() == [(60, 60), (120, 120)]


def test_spawned_objects_are_deleted_with_the_schedule(timetable):
    timetable.pod()
    timetable.schedule(length="1h")
    timetable.until(70)
    timetable.call(
        timetable.api.delete(SHIPPED.schedules, "tick", "default", propagation="Background")
    )
    timetable.until(130)
    assert timetable.there() == []
    assert timetable.spawned() == [(60, 60)]


def test_schedule_spawns_workflows(timetable):
    timetable.begin(engine=True)
    timetable.schedule(type="Workflow", workflow=WORKFLOW)
    timetable.until(149)
    assert timetable.spawned() == [(60, 60)]
    timetable.until(155)
    assert timetable.spawned() == [(60, 60), (150, 120)]
    phases = {
        each["metadata"]["name"]: each["status"]["phase"]
        for each in timetable.call(timetable.api.list(SHIPPED.workflows)).items
    }
    assert phases == {"tick-1767225720": "Running"}


def test_cron_workflow_is_a_schedule_of_workflows(timetable):
    timetable.begin(engine=True)
    timetable.schedule("@hourly", resource=CRON_WORKFLOWS, workflow=WORKFLOW, historyLimit=3)
    timetable.until(2 * 3600 + 100)
    assert timetable.spawned() == [(3600, 3600), (7200, 7200)]
    assert timetable.there(SHIPPED.workflows) == [3600, 7200]
    assert timetable.status(resource=CRON_WORKFLOWS) == {
        "active": [],
        "time": "2026-01-01T02:00:00Z",
    }


def test_unreadable_schedule_is_reported(timetable):
    timetable.schedule("every day", name="tick")
    timetable.advance(5)
    (event,) = timetable.events()
    assert event == (
        "Failed",
        (
            "Failed to get run time: 'every day' is no schedule: expected 5 to 6 fields, "
            "found 2: [every day]"
        ),
    )
    timetable.call(
        timetable.api.patch(
            SHIPPED.schedules, "tick", {"spec": {"schedule": "* * * * *"}}, "default"
        )
    )
    timetable.until(61)
    assert timetable.spawned() == [(60, 60)]


def test_schedule_without_a_template_is_reported(timetable):
    timetable.schedule(podChaos=None)
    timetable.until(61)
    assert timetable.events() == [
        ("Failed", "Failed to get run time: its type is PodChaos, so its spec needs 'podChaos'")
    ]


def test_refused_request_is_retried(timetable):
    timetable.pod()
    timetable.schedule()
    refused = {
        "metadata": {"name": "tick-1767225660", "namespace": "default"},
        "spec": {"action": "pod-kill", "mode": "all", "selector": {}},
    }
    timetable.call(timetable.api.create(POD_CHAOS, refused))  # somebody else's has the name
    timetable.until(75)
    assert timetable.spawned() == []
    assert {reason for reason, _ in timetable.events()} == {"Failed"}
    timetable.call(timetable.api.delete(POD_CHAOS, "tick-1767225660", "default"))
    timetable.until(85)
    assert timetable.spawned() == [(80, 60)]
