import pytest

from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.objects.resources import EVENTS, NODES

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u-1", "resourceVersion": "7"},
}


class Said:
    """A recorder that a test may speak to from outside the loop."""

    def __init__(self, recorder, runner):
        self.recorder = recorder
        self.runner = runner

    def __getattr__(self, verb):
        async def say(*args, **options):
            getattr(self.recorder, verb)(*args, **options)

        return lambda *args, **options: self.runner.call(say(*args, **options))

    def on(self, host):
        return Said(self.recorder.on(host), self.runner)


@pytest.fixture
def recorder(api, runner):
    return Said(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner)


@pytest.fixture
def events(api, runner):
    return lambda: runner.call(api.list(EVENTS)).items


def test_an_event_says_who_saw_what_when(recorder, events, runner):
    recorder.normal(POD, "Started", "Container started", field_path="spec.containers{c}")
    runner.advance(1)
    (event,) = events()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "u-1",
        "resourceVersion": "7",
        "fieldPath": "spec.containers{c}",
    }
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Normal",
        "Started",
        "Container started",
        1,
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


def test_what_happens_again_is_counted(recorder, events, runner):
    for _ in range(3):
        recorder.warning(POD, "BackOff", "Back-off restarting failed container")
        runner.advance(10)
    (event,) = events()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:20Z",
    )


def test_a_counted_event_that_was_deleted_comes_anew(recorder, events, runner, api):
    recorder.normal(POD, "Pulled", "m")
    runner.advance(1)
    runner.call(api.delete(EVENTS, events()[0]["metadata"]["name"], "default"))
    recorder.normal(POD, "Pulled", "m")
    runner.advance(1)
    assert [event["count"] for event in events()] == [2]


def test_the_tenth_alike_is_combined(recorder, events, runner):
    for number in range(11):
        recorder.normal(POD, "Odd", f"number {number}")
    runner.advance(1)
    combined = [
        event
        for event in events()
        if event["message"].startswith("(combined from similar events): ")
    ]
    assert len(events()) == 10
    assert [(event["message"], event["count"]) for event in combined] == [
        ("(combined from similar events): number 10", 2)
    ]


def test_a_flood_is_cut_and_refilled(recorder, events, runner):
    for _ in range(40):
        recorder.normal(POD, "Flood", "m")
    runner.advance(300)
    recorder.normal(POD, "Flood", "m")
    runner.advance(1)
    assert [event["count"] for event in events()] == [26]


def test_two_reports_of_one_instant_have_two_names(recorder, events, runner):
    for reason in ("A", "B"):
        recorder.normal(POD, reason, "m")
        recorder.on("node-2").normal(POD, reason, "m")
    runner.advance(1)
    names = [event["metadata"]["name"] for event in events()]
    assert len(names) == 4
    assert all(name.startswith("p.") for name in names)


def test_a_name_that_is_taken_gives_way_to_the_next(recorder, events, runner, api):
    recorder.normal(POD, "A", "m")
    Said(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner).normal(POD, "A", "m")
    runner.advance(1)
    first, second = (int(event["metadata"]["name"].rpartition(".")[2], 16) for event in events())
    assert second == first + 1


def test_events_of_what_has_no_namespace_are_in_default(recorder, events, runner):
    recorder.normal(
        {"apiVersion": "v1", "kind": NODES.kind, "metadata": {"name": "n", "uid": "n"}},
        "NodeReady",
        "m",
    )
    runner.advance(1)
    assert events()[0]["metadata"]["namespace"] == "default"


def test_an_event_that_got_another_name_is_counted_by_that(recorder, events, runner, api):
    """Also while nobody has heard the API's answer yet."""
    other = Said(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner)
    recorder.normal(POD, "A", "m")
    other.normal(POD, "A", "m")
    other.normal(POD, "A", "m")
    runner.advance(1)
    other.normal(POD, "A", "m")
    runner.advance(1)
    first, second = events()
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert [event["count"] for event in (first, second)] == [1, 3]
    assert second["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert second["lastTimestamp"] == "2026-01-01T00:00:01Z"
