import pytest

from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.objects.resources import EVENTS, NODES

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u-1", "resourceVersion": "7"},
}


class SyncRecorder:
    """Event recorder called from outside the loop."""

    def __init__(self, recorder, runner):
        self.recorder = recorder
        self.runner = runner

    def __getattr__(self, verb):
        async def say(*args, **options):
            getattr(self.recorder, verb)(*args, **options)

        return lambda *args, **options: self.runner.call(say(*args, **options))

    def on(self, host):
        return SyncRecorder(self.recorder.on(host), self.runner)


@pytest.fixture
def recorder(api, runner):
    return SyncRecorder(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner)


@pytest.fixture
def events(api, runner):
    return lambda: runner.call(api.list(EVENTS)).items


def test_event_has_source_object_and_time(recorder, events, runner):
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


def test_repeated_event_is_counted(recorder, events, runner):
    for _ in range(3):
        recorder.warning(POD, "BackOff", "Back-off restarting failed container")
        runner.advance(10)
    (event,) = events()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:20Z",
    )


def test_deleted_counted_event_is_recreated(recorder, events, runner, api):
    recorder.normal(POD, "Pulled", "m")
    runner.advance(1)
    runner.call(api.delete(EVENTS, events()[0]["metadata"]["name"], "default"))
    recorder.normal(POD, "Pulled", "m")
    runner.advance(1)
    assert [event["count"] for event in events()] == [2]


def test_tenth_similar_event_is_combined(recorder, events, runner):
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


def test_event_rate_is_limited(recorder, events, runner):
    for _ in range(40):
        recorder.normal(POD, "Flood", "m")
    runner.advance(300)
    recorder.normal(POD, "Flood", "m")
    runner.advance(1)
    assert [event["count"] for event in events()] == [26]


def test_events_of_one_instant_have_distinct_names(recorder, events, runner):
    for reason in ("A", "B"):
        recorder.normal(POD, reason, "m")
        recorder.on("node-2").normal(POD, reason, "m")
    runner.advance(1)
    names = [event["metadata"]["name"] for event in events()]
    assert len(names) == 4
    assert all(name.startswith("p.") for name in names)


def test_taken_event_name_is_skipped(recorder, events, runner, api):
    recorder.normal(POD, "A", "m")
    SyncRecorder(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner).normal(
        POD, "A", "m"
    )
    runner.advance(1)
    first, second = (int(event["metadata"]["name"].rpartition(".")[2], 16) for event in events())
    assert second == first + 1


def test_events_of_cluster_scoped_objects_are_in_default(recorder, events, runner):
    recorder.normal(
        {"apiVersion": "v1", "kind": NODES.kind, "metadata": {"name": "n", "uid": "n"}},
        "NodeReady",
        "m",
    )
    runner.advance(1)
    assert events()[0]["metadata"]["namespace"] == "default"


def test_renamed_event_is_counted_under_its_name(recorder, events, runner, api):
    """This also holds before the API has answered."""
    other = SyncRecorder(EventRecorder(api, runner.clock, "kubelet", "node-1"), runner)
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
