"""Life cycle of StatusChecks: timing, completion and status."""

from __future__ import annotations

import pytest

from pytest_kscen.clock import timestamp_of
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.objects.chaos_mesh_definitions import engine_definitions
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, PODS, SERVICES
from pytest_kscen.workflow.status_checks import (
    ConsecutiveOutcomes,
    StatusCheckController,
    StatusCheckSettings,
    with_conditions,
    with_record,
)

CHECKS = SHIPPED.status_checks
URL = "http://web.default/health"


class StatusCheckSetup:
    """Cluster with a Service of configurable health, and the controller."""

    def __init__(self):
        self.cluster = EmbeddedCluster(nodes=1)
        self.runner, self.api = self.cluster.runner, self.cluster.api("test")
        for each in engine_definitions():
            self.call(self.api.create(CUSTOM_RESOURCE_DEFINITIONS, each))
        self.make(
            SERVICES,
            "web",
            {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        )
        container = {"name": "c", "image": "web:1", "ports": [{"containerPort": 8080}]}
        self.make(PODS, "web", {"containers": [container]}, labels={"app": "web"})
        self.runner.advance(20)
        self.journal = Journal(self.runner.clock)
        self.began = self.runner.clock.now()
        self.start()

    def start(self, name="status-checks"):
        context = RunContext(
            self.cluster.api, self.runner.clock, self.cluster.chance, self.journal, "run-1"
        )
        self.runner.start(StatusCheckController(context.actor(name), SHIPPED).run(), name)

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def make(self, resource, name, spec, **metadata):
        metadata = {"name": name, "namespace": "default", **metadata}
        self.call(
            self.api.create(
                resource,
                {
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "metadata": metadata,
                    "spec": spec,
                },
            )
        )

    def check(self, name="c", *, http=None, **spec):
        self.make(
            CHECKS, name, {"http": http or {"url": URL, "criteria": {"statusCode": "200"}}, **spec}
        )

    def answers(self, status):
        patch = {"metadata": {"annotations": {"kscen.io/http-status": str(status)}}}
        self.call(self.api.patch(PODS, "web", patch, "default"))

    def asked(self, name="c"):
        return [
            (entry.at, entry.data["passed"])
            for entry in self.journal
            if entry.what == "status-check" and entry.data["name"] == name
        ]

    def status(self, name="c"):
        return self.call(self.api.get(CHECKS, name, "default")).get("status", {})

    def conditions(self, name="c"):
        return {each["type"]: each["status"] == "True" for each in self.status(name)["conditions"]}

    def ended(self, name="c"):
        """Return when and why it was complete."""
        status = self.status(name)
        reason = next(
            each["reason"] for each in status["conditions"] if each["type"] == "Completed"
        )
        return status.get("completionTime"), reason

    def at(self, seconds):
        return timestamp_of(self.began + seconds)

    def events(self):
        events = [
            each
            for each in self.call(self.api.list(EVENTS)).items
            if each["involvedObject"]["kind"] == "StatusCheck"
        ]
        return sorted(
            (each["type"], each["reason"], each["message"], each["count"]) for each in events
        )


@pytest.fixture
def status_check_setup():
    status_check_setup = StatusCheckSetup()
    yield status_check_setup
    status_check_setup.cluster.close()
    status_check_setup.journal.close()


def test_check_starts_after_an_interval_and_ends_with_its_first_success(status_check_setup):
    status_check_setup.check()
    status_check_setup.runner.advance(5)
    assert status_check_setup.status() == {
        "startTime": status_check_setup.at(0),
        "conditions": [
            {
                "type": type_,
                "status": "False",
                "reason": "",
                "lastProbeTime": status_check_setup.at(0),
                "lastTransitionTime": status_check_setup.at(0),
            }
            for type_ in (
                "DurationExceed",
                "FailureThresholdExceed",
                "SuccessThresholdExceed",
                "Completed",
            )
        ],
    }
    status_check_setup.runner.advance(60)
    assert status_check_setup.asked() == [(10.0, True)]
    assert status_check_setup.ended() == (
        status_check_setup.at(10),
        "StatusCheckSuccessThresholdExceed",
    )
    status = status_check_setup.status()
    assert (status["count"], status["records"]) == (
        1,
        [{"startTime": status_check_setup.at(10), "outcome": "Success"}],
    )
    assert status["conditions"][2]["lastTransitionTime"] == status_check_setup.at(10)
    assert status_check_setup.events() == [
        (
            "Normal",
            "StatusCheckCompleted",
            "status check completed: StatusCheckSuccessThresholdExceed",
            1,
        ),
        ("Normal", "StatusCheckSuccessThresholdExceed", "success threshold exceed", 1),
    ]


def test_consecutive_failures_end_it(status_check_setup):
    status_check_setup.check(intervalSeconds=2, failureThreshold=2, successThreshold=3)
    for after, status in ((5, 500), (2, 200), (4, 500)):
        status_check_setup.runner.advance(after)
        status_check_setup.answers(status)
    status_check_setup.runner.advance(60)
    assert status_check_setup.asked() == [
        (2.0, True),
        (4.0, True),
        (6.0, False),
        (8.0, True),
        (10.0, True),
        (12.0, False),
        (14.0, False),
    ]
    assert status_check_setup.ended() == (
        status_check_setup.at(14),
        "StatusCheckFailureThresholdExceed",
    )
    assert status_check_setup.conditions() == {
        "DurationExceed": False,
        "FailureThresholdExceed": True,
        "SuccessThresholdExceed": False,
        "Completed": True,
    }
    words = f"HTTP execution of status check failed: {URL} answered 500, and 200 was expected"
    assert ("Warning", "StatusCheckExecutionFailed", words, 3) in status_check_setup.events()


def test_continuous_check_lasts_until_its_end(status_check_setup):
    status_check_setup.check(mode="Continuous", duration="25s")
    status_check_setup.runner.advance(60)
    assert [at for at, _ in status_check_setup.asked()] == [10.0, 20.0]
    assert status_check_setup.ended() == (status_check_setup.at(25), "StatusCheckDurationExceed")
    assert status_check_setup.conditions() == {
        "DurationExceed": True,
        "FailureThresholdExceed": False,
        "SuccessThresholdExceed": True,
        "Completed": True,
    }


def test_check_runs_once_more_at_its_end(status_check_setup):
    status_check_setup.check(mode="Continuous", duration="20s")
    status_check_setup.runner.advance(60)
    assert [at for at, _ in status_check_setup.asked()] == [10.0, 20.0]
    assert status_check_setup.ended() == (status_check_setup.at(20), "StatusCheckDurationExceed")


def test_continuous_check_without_a_duration_ends_only_by_failures(status_check_setup):
    status_check_setup.check(mode="Continuous", recordsHistoryLimit=2)
    status_check_setup.runner.advance(95)
    assert status_check_setup.ended() == (None, "")
    status = status_check_setup.status()
    assert (status["count"], len(status["records"])) == (9, 2)
    status_check_setup.answers(503)
    status_check_setup.runner.advance(100)
    assert status_check_setup.ended() == (
        status_check_setup.at(120),
        "StatusCheckFailureThresholdExceed",
    )  # though it keeps fewer than it has to count


def test_check_waits_no_longer_than_its_timeout(status_check_setup):
    patch = {"metadata": {"annotations": {"kscen.io/http-after": "5s"}}}
    status_check_setup.call(status_check_setup.api.patch(PODS, "web", patch, "default"))
    status_check_setup.check("hasty", timeoutSeconds=2, failureThreshold=2)
    status_check_setup.check("patient", timeoutSeconds=6)
    status_check_setup.runner.advance(60)
    assert status_check_setup.asked("hasty") == [(12.0, False), (22.0, False)]
    assert status_check_setup.asked("patient") == [(15.0, True)]
    assert status_check_setup.ended("hasty") == (
        status_check_setup.at(22),
        "StatusCheckFailureThresholdExceed",
    )


def test_deleted_check_stops(status_check_setup):
    status_check_setup.check(mode="Continuous")
    status_check_setup.runner.advance(15)
    status_check_setup.call(status_check_setup.api.delete(CHECKS, "c", "default"))
    status_check_setup.check(mode="Continuous")
    status_check_setup.runner.advance(15)
    assert [at for at, _ in status_check_setup.asked()] == [10.0, 25.0]


def test_another_controller_continues_a_check(status_check_setup):
    status_check_setup.answers(500)
    status_check_setup.check(failureThreshold=3)
    status_check_setup.runner.advance(21)
    status_check_setup.runner._actors.cancel()
    status_check_setup.runner.advance(5)
    status_check_setup.start("another")
    status_check_setup.runner.advance(60)
    assert [at for at, _ in status_check_setup.asked()] == [10.0, 20.0, 30.0]
    assert status_check_setup.ended() == (
        status_check_setup.at(30),
        "StatusCheckFailureThresholdExceed",
    )


def test_refused_write_is_retried_and_stops_no_other(status_check_setup):
    refused = []

    def refuse(review):
        if review.name == "c" and len(refused) < 2:
            refused.append(review.name)
            raise Forbidden("not yet")

    status_check_setup.cluster.admission.add(
        Hook(
            "keeps",
            validate=refuse,
            resources=[CHECKS],
            operations=["UPDATE"],
            subresources=["status"],
        )
    )
    status_check_setup.check()
    status_check_setup.check("other")
    status_check_setup.runner.advance(60)
    assert len(refused) == 2
    assert status_check_setup.ended() == (
        status_check_setup.at(20),
        "StatusCheckSuccessThresholdExceed",
    )
    assert status_check_setup.ended("other") == (
        status_check_setup.at(10),
        "StatusCheckSuccessThresholdExceed",
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"http": {"url": "web", "criteria": {"statusCode": "200"}}},
            "spec.http.url: 'web' is not a URL: ",
        ),
        ({"duration": "long"}, "spec.duration: 'long' is not a duration: "),
    ],
)
def test_check_that_cannot_run_fails(status_check_setup, spec, words):
    status_check_setup.check(**spec)
    status_check_setup.runner.advance(60)
    assert status_check_setup.ended() == (
        status_check_setup.at(30),
        "StatusCheckFailureThresholdExceed",
    )
    (message,) = {
        entry.data["message"]
        for entry in status_check_setup.journal
        if entry.what == "status-check"
    }
    assert message.startswith(words)


class TestStanding:
    TERMS = StatusCheckSettings.of(
        {"failureThreshold": 2, "successThreshold": 2, "recordsHistoryLimit": 3}
    )

    @pytest.mark.parametrize(
        ("outcomes", "is_late", "mode", "reason"),
        [
            ("", False, "Synchronous", ""),
            ("s", False, "Synchronous", ""),
            ("ss", False, "Synchronous", "StatusCheckSuccessThresholdExceed"),
            ("ss", False, "Continuous", ""),
            ("sfs", False, "Synchronous", ""),
            ("ff", False, "Continuous", "StatusCheckFailureThresholdExceed"),
            ("ff", True, "Synchronous", "StatusCheckDurationExceed"),
            ("", True, "Continuous", "StatusCheckDurationExceed"),
        ],
    )
    def test_completion_conditions(self, outcomes, is_late, mode, reason):
        terms = StatusCheckSettings.of({"failureThreshold": 2, "successThreshold": 2, "mode": mode})
        row = ConsecutiveOutcomes()
        for outcome in outcomes:
            row = row.then({"s": "Success", "f": "Failure"}[outcome])
        status = with_conditions({}, terms, row, "now", is_late=is_late)
        assert status["conditions"][-1]["reason"] == reason
        assert ("completionTime" in status) == bool(reason)

    def test_old_records_are_removed(self):
        status = {}
        for at in "abcde":
            status = with_record(status, self.TERMS, at, "Success")
        assert status["count"] == 5
        assert [record["startTime"] for record in status["records"]] == ["c", "d", "e"]
        assert ConsecutiveOutcomes.of(status) == ConsecutiveOutcomes("Success", 3)
