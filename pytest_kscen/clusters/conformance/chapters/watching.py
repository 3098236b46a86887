"""Watches: from where they start, what they tell and in which order, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case
from pytest_kscen.clusters.conformance.visitor import events, rest

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"who": "w", **labels}}}


def now(visitor: Visitor) -> str:
    return str(visitor.get("configmaps").ok()["metadata"]["resourceVersion"])


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


@case
def from_a_version_on_every_change_is_told_in_order(visitor: Visitor) -> None:
    start = now(visitor)
    visitor.post("configmaps", config("a")).ok(201)
    visitor.patch("configmaps/a", {"data": {"x": "1"}}).ok()
    visitor.post("configmaps", config("b")).ok(201)
    visitor.delete("configmaps/a").ok()
    with visitor.watch("configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30) as stream:
        seen = events(stream, 4)
    assert [told(event) for event in seen] == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert all((event["object"]["kind"], event["object"]["apiVersion"]) == ("ConfigMap", "v1") for event in seen)


@case
def what_happens_while_it_is_open_is_told(visitor: Visitor) -> None:
    with visitor.watch("configmaps", resourceVersion=now(visitor), labelSelector="who", timeoutSeconds=30) as stream:
        made = visitor.post("configmaps", config("a")).ok(201)
        assert next(stream) == {"type": "ADDED", "object": made}
        changed = visitor.patch("configmaps/a", {"data": {"x": "1"}}).ok()
        assert next(stream) == {"type": "MODIFIED", "object": changed}


@case
def without_a_version_what_is_there_comes_first(visitor: Visitor) -> None:
    visitor.post("configmaps", config("b")).ok(201)
    visitor.post("configmaps", config("a")).ok(201)
    with visitor.watch("configmaps", labelSelector="who", timeoutSeconds=30) as stream:
        assert sorted(told(event) for event in events(stream, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        visitor.post("configmaps", config("c")).ok(201)
        assert told(next(stream)) == ("ADDED", "c")


@case
def the_deleted_object_is_its_last_state_with_a_version_of_its_own(visitor: Visitor) -> None:
    made = visitor.post("configmaps", config("a")).ok(201)
    version = made["metadata"]["resourceVersion"]
    with visitor.watch("configmaps", resourceVersion=version, labelSelector="who", timeoutSeconds=30) as stream:
        visitor.delete("configmaps/a").ok()
        gone = next(stream)
    assert told(gone) == ("DELETED", "a")
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert gone["object"]["metadata"]["uid"] == made["metadata"]["uid"]


@case
def who_starts_to_match_is_added_and_who_stops_is_deleted(visitor: Visitor) -> None:
    visitor.post("configmaps", config("a", phase="one")).ok(201)
    with visitor.watch("configmaps", resourceVersion=now(visitor), labelSelector="phase=two", timeoutSeconds=30) as stream:
        visitor.patch("configmaps/a", {"metadata": {"labels": {"phase": "two"}}}).ok()
        visitor.patch("configmaps/a", {"data": {"x": "1"}}).ok()
        left = visitor.patch("configmaps/a", {"metadata": {"labels": {"phase": "three"}}}).ok()
        entered, changed, gone = events(stream, 3)
    assert [event["type"] for event in (entered, changed, gone)] == ["ADDED", "MODIFIED", "DELETED"]
    assert gone["object"]["metadata"]["labels"]["phase"] == "two"
    assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


@case
def one_object_can_be_watched_by_its_name(visitor: Visitor) -> None:
    start = now(visitor)
    visitor.post("configmaps", config("a")).ok(201)
    visitor.post("configmaps", config("b")).ok(201)
    with visitor.watch("configmaps", resourceVersion=start, fieldSelector="metadata.name=b", timeoutSeconds=30) as stream:
        assert told(next(stream)) == ("ADDED", "b")


@case
def the_old_paths_still_watch(visitor: Visitor) -> None:
    visitor.post("configmaps", config("a")).ok(201)
    path = f"/api/v1/watch/namespaces/{visitor.namespace}/configmaps/a"
    with visitor.watch(path, timeoutSeconds=30) as stream:
        assert told(next(stream)) == ("ADDED", "a")


@case
def it_ends_after_its_time(visitor: Visitor) -> None:
    with visitor.watch("leases", resourceVersion=now(visitor), timeoutSeconds=1) as stream:
        assert rest(stream) == []


@case
def a_bookmark_marks_the_end_of_the_beginning(visitor: Visitor) -> None:
    visitor.post("configmaps", config("a")).ok(201)
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with visitor.watch("configmaps", labelSelector="who", timeoutSeconds=30, **query) as stream:
        first, mark = events(stream, 2)
    assert told(first) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(first["object"]["metadata"]["resourceVersion"])


@case
def initial_events_need_their_match(visitor: Visitor) -> None:
    answer = visitor.get("configmaps", watch="1", sendInitialEvents="true")
    answer.refused(422, "Invalid", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")


@case
def a_version_from_the_future_is_told_so(visitor: Visitor) -> None:
    with visitor.watch("configmaps", resourceVersion="99999999999", timeoutSeconds=5) as stream:
        (event,) = rest(stream)[:1] or [{"type": "none"}]
    assert event["type"] in {"none", "ERROR"}


@case
def a_version_that_is_no_number_is_refused(visitor: Visitor) -> None:
    words = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    visitor.get("configmaps", watch="1", resourceVersion="x").refused(500, "", words)


@case
def an_unknown_selector_is_refused_before_the_stream(visitor: Visitor) -> None:
    visitor.get("configmaps", watch="1", labelSelector="a in b").refused(400, "BadRequest", "unable to parse requirement")


@case
def two_watchers_are_told_the_same(visitor: Visitor) -> None:
    start = now(visitor)
    with (
        visitor.watch("configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30) as one,
        visitor.watch("configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30) as other,
    ):
        visitor.post("configmaps", config("a")).ok(201)
        visitor.delete("configmaps/a").ok()
        assert events(one, 2) == events(other, 2)


@case
def another_namespace_is_not_told(visitor: Visitor) -> None:
    start = now(visitor)
    visitor.post("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "noise-"}}).ok(201)
    visitor.post("configmaps", config("a")).ok(201)
    with visitor.watch("configmaps", resourceVersion=start, timeoutSeconds=30) as stream:
        assert all(event["object"]["metadata"]["namespace"] == visitor.namespace for event in events(stream, 1))
