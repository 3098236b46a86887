"""Lists and watches: order, selectors, consistent pages, resource versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import (
    case,
    next_events,
    parametrized_case,
    remaining_events,
)

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient, CaseResponse


LABELS_BY_NAME = {
    "anna": {"tier": "front", "age": "old"},
    "bert": {"tier": "front"},
    "carl": {"tier": "back", "age": "new"},
    "dora": {},
}


def create_config_maps(client: CaseClient) -> None:
    for name in reversed(LABELS_BY_NAME):
        client.post(
            "configmaps",
            {"metadata": {"name": name, "labels": {"who": "p", **LABELS_BY_NAME[name]}}},
        ).ok(201)


def listed_names(answer: CaseResponse) -> str:
    return " ".join(
        item["metadata"]["name"]
        for item in answer.ok()["items"]
        if item["metadata"]["name"] in LABELS_BY_NAME
    )


@case
def list_has_kind_and_version(client: CaseClient) -> None:
    create_config_maps(client)
    listing = client.get("configmaps", labelSelector="who").ok()
    assert (listing["kind"], listing["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listing["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"]["name"] for item in listing["items"]] == list(LABELS_BY_NAME)
    assert all("kind" not in item for item in listing["items"])


@case
def empty_list_has_items(client: CaseClient) -> None:
    assert client.get("leases").ok()["items"] == []


@case
def list_of_missing_namespace_is_empty(client: CaseClient) -> None:
    assert client.get("/api/v1/namespaces/nowhere/configmaps").ok()["items"] == []


@case
def list_covers_all_namespaces(client: CaseClient) -> None:
    create_config_maps(client)
    listing = client.get(
        "/api/v1/configmaps",
        labelSelector="who",
        fieldSelector=f"metadata.namespace={client.namespace}",
    )
    assert listed_names(listing) == " ".join(LABELS_BY_NAME)


@parametrized_case(
    [
        ("equal", "tier=front", "anna bert"),
        ("equal twice", "tier==front", "anna bert"),
        ("unequal", "tier!=front", "carl dora"),
        ("in", "tier in (front, back)", "anna bert carl"),
        ("notin", "tier notin (front)", "carl dora"),
        ("there", "age", "anna carl"),
        ("not there", "!age", "bert dora"),
        ("both", "tier=front,age=old", "anna"),
        ("and not", "tier,!age", "bert"),
        ("none", "tier=middle", ""),
        ("empty value", "tier=", ""),
        ("spaces", " tier = front , age ", "anna"),
        ("in one", "age in (old)", "anna"),
        ("everything", "", "anna bert carl dora"),
    ]
)
def label_selector_filters_list(client: CaseClient, selector: str, expected: str) -> None:
    create_config_maps(client)
    assert listed_names(client.get("configmaps", labelSelector=selector)) == expected


@parametrized_case(
    [
        ("operator", "a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("set", "a in b", "unable to parse requirement"),
        ("open", "a in (b", "unable to parse requirement"),
        ("key", "-a=b", "unable to parse requirement"),
        ("value", "a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("comma", ",a", "found ',', expected: !, identifier, or 'end of string'"),
    ]
)
def malformed_label_selector_is_bad_request(client: CaseClient, selector: str, words: str) -> None:
    client.get("configmaps", labelSelector=selector).refused(400, "BadRequest", words)


@parametrized_case(
    [
        ("name", "metadata.name=anna", "anna"),
        ("not name", "metadata.name!=anna", "bert carl dora"),
        ("twice equal", "metadata.name==carl", "carl"),
        ("absent", "metadata.name=eve", ""),
    ]
)
def field_selector_filters_list(client: CaseClient, selector: str, expected: str) -> None:
    create_config_maps(client)
    assert listed_names(client.get("configmaps", fieldSelector=selector)) == expected


@case
def unsupported_field_selector_is_bad_request(client: CaseClient) -> None:
    words = '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'
    client.get("configmaps", fieldSelector="data=x").refused(400, "BadRequest", words)


@case
def secret_type_field_selector_filters_list(client: CaseClient) -> None:
    client.post("secrets", {"metadata": {"name": "one"}, "type": "example.com/one"}).ok(201)
    client.post("secrets", {"metadata": {"name": "two"}, "type": "example.com/two"}).ok(201)
    listing = client.get("secrets", fieldSelector="type=example.com/two").ok()
    assert [item["metadata"]["name"] for item in listing["items"]] == ["two"]


@case
def pages_share_one_version(client: CaseClient) -> None:
    create_config_maps(client)
    first = client.get("configmaps", labelSelector="who", limit=3).ok()
    assert [item["metadata"]["name"] for item in first["items"]] == ["anna", "bert", "carl"]
    token = first["metadata"]["continue"]
    client.post("configmaps", {"metadata": {"name": "zoe", "labels": {"who": "p"}}}).ok(201)
    second = client.get("configmaps", labelSelector="who", limit=3, **{"continue": token}).ok()
    assert [item["metadata"]["name"] for item in second["items"]] == ["dora"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert not second["metadata"].get("continue")


@case
def page_reports_remaining_count(client: CaseClient) -> None:
    for name in LABELS_BY_NAME:
        client.post("leases", {"metadata": {"name": name}}).ok(201)
    assert (
        client.get("leases", limit=1).ok()["metadata"]["remainingItemCount"]
        == len(LABELS_BY_NAME) - 1
    )


@case
def list_within_limit_has_no_continue_token(client: CaseClient) -> None:
    create_config_maps(client)
    assert (
        not client.get("configmaps", labelSelector="who", limit=100)
        .ok()["metadata"]
        .get("continue")
    )


@case
def invalid_continue_token_is_bad_request(client: CaseClient) -> None:
    client.get("configmaps", limit=1, **{"continue": "x"}).refused(
        400, "BadRequest", "continue key is not valid"
    )


@case
def invalid_limit_is_bad_request(client: CaseClient) -> None:
    client.get("configmaps", limit="x").refused(
        400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax'
    )


@case
def list_of_future_version_is_too_large(client: CaseClient) -> None:
    refusal = client.get("configmaps", resourceVersion="99999999999").refused(
        504, "Timeout", "Too large resource version"
    )
    assert ("", "ResourceVersionTooLarge") in refusal.causes
    assert refusal.body["details"]["retryAfterSeconds"] == 1


@parametrized_case([("zero", "0"), ("none", "")])
def list_of_any_version_shows_current_objects(client: CaseClient, version: str) -> None:
    create_config_maps(client)
    client.until(
        lambda: (
            listed_names(client.get("configmaps", resourceVersion=version))
            == " ".join(LABELS_BY_NAME)
        )
    )


@parametrized_case(
    [
        ("exact without version", {"resourceVersionMatch": "Exact"}, 422),
        ("unknown match", {"resourceVersion": "1", "resourceVersionMatch": "Roughly"}, 422),
        ("exact zero", {"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ("not older than", {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
        ("no number", {"resourceVersion": "x"}, 400),
    ]
)
def invalid_version_match_is_refused(
    client: CaseClient, query: dict[str, str], status: int
) -> None:
    assert client.get("configmaps", **query).status == status


@case
def list_of_exact_version_shows_past_objects(client: CaseClient) -> None:
    create_config_maps(client)
    then = client.get("configmaps").ok()["metadata"]["resourceVersion"]
    client.delete("configmaps/anna").ok()
    past = client.get(
        "configmaps", resourceVersion=then, resourceVersionMatch="Exact", labelSelector="who"
    )
    assert listed_names(past) == " ".join(LABELS_BY_NAME)
    assert past.body["metadata"]["resourceVersion"] == then


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"who": "w", **labels}}}


def current_version(client: CaseClient) -> str:
    return str(client.get("configmaps").ok()["metadata"]["resourceVersion"])


def type_and_name(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


@case
def watch_from_version_sends_changes_in_order(client: CaseClient) -> None:
    start = current_version(client)
    client.post("configmaps", config_map("a")).ok(201)
    client.patch("configmaps/a", {"data": {"x": "1"}}).ok()
    client.post("configmaps", config_map("b")).ok(201)
    client.delete("configmaps/a").ok()
    with client.watch(
        "configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30
    ) as stream:
        seen = next_events(stream, 4)
    assert [type_and_name(event) for event in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert all(
        (event["object"]["kind"], event["object"]["apiVersion"]) == ("ConfigMap", "v1")
        for event in seen
    )


@case
def open_watch_receives_changes(client: CaseClient) -> None:
    with client.watch(
        "configmaps",
        resourceVersion=current_version(client),
        labelSelector="who",
        timeoutSeconds=30,
    ) as stream:
        made = client.post("configmaps", config_map("a")).ok(201)
        assert next(stream) == {"type": "ADDED", "object": made}
        changed = client.patch("configmaps/a", {"data": {"x": "1"}}).ok()
        assert next(stream) == {"type": "MODIFIED", "object": changed}


@case
def watch_without_version_starts_with_current_objects(client: CaseClient) -> None:
    client.post("configmaps", config_map("b")).ok(201)
    client.post("configmaps", config_map("a")).ok(201)
    with client.watch("configmaps", labelSelector="who", timeoutSeconds=30) as stream:
        assert sorted(type_and_name(event) for event in next_events(stream, 2)) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        client.post("configmaps", config_map("c")).ok(201)
        assert type_and_name(next(stream)) == ("ADDED", "c")


@case
def deleted_event_has_last_state_and_new_version(client: CaseClient) -> None:
    made = client.post("configmaps", config_map("a")).ok(201)
    version = made["metadata"]["resourceVersion"]
    with client.watch(
        "configmaps", resourceVersion=version, labelSelector="who", timeoutSeconds=30
    ) as stream:
        client.delete("configmaps/a").ok()
        gone = next(stream)
    assert type_and_name(gone) == ("DELETED", "a")
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(
        made["metadata"]["resourceVersion"]
    )
    assert gone["object"]["metadata"]["uid"] == made["metadata"]["uid"]


@case
def selector_changes_become_added_and_deleted_events(client: CaseClient) -> None:
    client.post("configmaps", config_map("a", phase="one")).ok(201)
    with client.watch(
        "configmaps",
        resourceVersion=current_version(client),
        labelSelector="phase=two",
        timeoutSeconds=30,
    ) as stream:
        client.patch("configmaps/a", {"metadata": {"labels": {"phase": "two"}}}).ok()
        client.patch("configmaps/a", {"data": {"x": "1"}}).ok()
        left = client.patch("configmaps/a", {"metadata": {"labels": {"phase": "three"}}}).ok()
        entered, changed, gone = next_events(stream, 3)
    assert [event["type"] for event in (entered, changed, gone)] == ["ADDED", "MODIFIED", "DELETED"]
    assert gone["object"]["metadata"]["labels"]["phase"] == "two"
    assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


@case
def watch_by_name_receives_one_object(client: CaseClient) -> None:
    start = current_version(client)
    client.post("configmaps", config_map("a")).ok(201)
    client.post("configmaps", config_map("b")).ok(201)
    with client.watch(
        "configmaps", resourceVersion=start, fieldSelector="metadata.name=b", timeoutSeconds=30
    ) as stream:
        assert type_and_name(next(stream)) == ("ADDED", "b")


@case
def deprecated_watch_paths_are_served(client: CaseClient) -> None:
    client.post("configmaps", config_map("a")).ok(201)
    path = f"/api/v1/watch/namespaces/{client.namespace}/configmaps/a"
    with client.watch(path, timeoutSeconds=30) as stream:
        assert type_and_name(next(stream)) == ("ADDED", "a")


@case
def watch_ends_after_timeout(client: CaseClient) -> None:
    with client.watch(
        "leases", resourceVersion=current_version(client), timeoutSeconds=1
    ) as stream:
        assert remaining_events(stream) == []


@case
def bookmark_marks_end_of_initial_events(client: CaseClient) -> None:
    client.post("configmaps", config_map("a")).ok(201)
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with client.watch("configmaps", labelSelector="who", timeoutSeconds=30, **query) as stream:
        first, mark = next_events(stream, 2)
    assert type_and_name(first) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(
        first["object"]["metadata"]["resourceVersion"]
    )


@case
def initial_events_require_version_match(client: CaseClient) -> None:
    answer = client.get("configmaps", watch="1", sendInitialEvents="true")
    answer.refused(
        422, "Invalid", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    )


@case
def watch_of_future_version_has_no_objects(client: CaseClient) -> None:
    with client.watch("configmaps", resourceVersion="99999999999", timeoutSeconds=5) as stream:
        (event,) = remaining_events(stream)[:1] or [{"type": "none"}]
    assert event["type"] in {"none", "ERROR"}


@case
def watch_of_invalid_version_is_refused(client: CaseClient) -> None:
    words = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    client.get("configmaps", watch="1", resourceVersion="x").refused(500, "", words)


@case
def watch_with_invalid_selector_is_refused(client: CaseClient) -> None:
    client.get("configmaps", watch="1", labelSelector="a in b").refused(
        400, "BadRequest", "unable to parse requirement"
    )


@case
def concurrent_watches_receive_equal_events(client: CaseClient) -> None:
    start = current_version(client)
    with (
        client.watch(
            "configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30
        ) as one,
        client.watch(
            "configmaps", resourceVersion=start, labelSelector="who", timeoutSeconds=30
        ) as other,
    ):
        client.post("configmaps", config_map("a")).ok(201)
        client.delete("configmaps/a").ok()
        assert next_events(one, 2) == next_events(other, 2)


@case
def watch_excludes_other_namespaces(client: CaseClient) -> None:
    start = current_version(client)
    client.post(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "noise-"}}
    ).ok(201)
    client.post("configmaps", config_map("a")).ok(201)
    with client.watch("configmaps", resourceVersion=start, timeoutSeconds=30) as stream:
        assert all(
            event["object"]["metadata"]["namespace"] == client.namespace
            for event in next_events(stream, 1)
        )
