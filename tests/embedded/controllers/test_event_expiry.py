from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.controllers.event_expiry import EventExpiry
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.resources import EVENTS


def begin(api, runner, chance):
    informers = Informers(api, runner.clock, chance)
    runner.start(
        EventExpiry(ControllerContext.of("event-aging", api, runner.clock, informers)).run(),
        "event-aging",
    )


def report_event(api, runner, name):
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return runner.call(
        api.create(
            EVENTS, {"metadata": {"name": name}, "involvedObject": about, "reason": "R"}, "default"
        )
    )


def names(api, runner):
    return [event["metadata"]["name"] for event in runner.call(api.list(EVENTS)).items]


def test_event_expires_after_an_hour(api, runner, chance):
    begin(api, runner, chance)
    report_event(api, runner, "old")
    runner.advance(1200)
    report_event(api, runner, "new")
    runner.advance(2399)
    assert names(api, runner) == ["new", "old"]
    runner.advance(2)
    assert names(api, runner) == ["new"]
    runner.advance(1200)
    assert names(api, runner) == []


def test_repeated_event_is_kept(api, runner, chance):
    begin(api, runner, chance)
    event = report_event(api, runner, "again")
    runner.advance(3000)
    runner.call(api.update(EVENTS, {**event, "count": 2, "lastTimestamp": "2026-01-01T00:50:00Z"}))
    runner.advance(1800)
    assert names(api, runner) == ["again"]
    runner.advance(1801)
    assert names(api, runner) == []
