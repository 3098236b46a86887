"""Creation and update: fields set by the server, conflicts, validation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


CONFIG = {"metadata": {"name": "c"}, "data": {"a": "1"}}
UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@case
def creation_sets_server_fields(client: CaseClient) -> None:
    made = client.post("configmaps", CONFIG).ok(201)
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert metadata["namespace"] == client.namespace
    assert UID.match(metadata["uid"])
    assert int(metadata["resourceVersion"]) > 0
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", metadata["creationTimestamp"])
    assert "generation" not in metadata
    assert client.get("configmaps/c").ok() == made


@case
def generation_is_set_for_some_kinds(client: CaseClient) -> None:
    lease = client.post("leases", {"metadata": {"name": "l"}, "spec": {}}).ok(201)
    assert "generation" not in lease["metadata"]
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    assert client.post("poddisruptionbudgets", budget).ok(201)["metadata"]["generation"] == 1


@case
def duplicate_name_already_exists(client: CaseClient) -> None:
    client.post("configmaps", CONFIG).ok(201)
    refusal = client.post("configmaps", CONFIG).refused(
        409, "AlreadyExists", 'configmaps "c" already exists'
    )
    assert refusal.body["details"] == {"name": "c", "kind": "configmaps"}


@case
def generated_name_has_random_suffix(client: CaseClient) -> None:
    made = client.post("configmaps", {"metadata": {"generateName": "c-"}}).ok(201)
    assert re.match(r"^c-[bcdfghjklmnpqrstvwxz2456789]{5}$", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "c-"


@case
def name_takes_precedence_over_generate_name(client: CaseClient) -> None:
    made = client.post("configmaps", {"metadata": {"name": "c", "generateName": "d-"}}).ok(201)
    assert made["metadata"]["name"] == "c"


@case
def creation_overwrites_server_fields(client: CaseClient) -> None:
    brought = {
        "name": "c",
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 7,
        "selfLink": "x",
    }
    metadata = client.post("configmaps", {"metadata": brought}).ok(201)["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "selfLink" not in metadata


@case
def creation_refuses_resource_version(client: CaseClient) -> None:
    brought = {"metadata": {"name": "c", "resourceVersion": "5"}}
    client.post("configmaps", brought).refused(
        500, "", "resourceVersion should not be set on objects to be created"
    )


@case
def dry_run_creates_nothing(client: CaseClient) -> None:
    made = client.post("configmaps", CONFIG, dryRun="All").ok(201)
    assert UID.match(made["metadata"]["uid"])
    client.get("configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')


@case
def invalid_dry_run_is_refused(client: CaseClient) -> None:
    client.post("configmaps", CONFIG, dryRun="Some").refused(422, "Invalid", "dryRun")


@case
def creation_ignores_status(client: CaseClient) -> None:
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"currentHealthy": 5},
    }
    assert client.post("poddisruptionbudgets", budget).ok(201)["status"]["currentHealthy"] == 0


@case
def missing_namespace_is_not_found(client: CaseClient) -> None:
    answer = client.post("/api/v1/namespaces/nowhere/configmaps", CONFIG)
    answer.refused(404, "NotFound", 'namespaces "nowhere" not found')


@case
def other_namespace_in_body_is_bad_request(client: CaseClient) -> None:
    body = {"metadata": {"name": "c", "namespace": "elsewhere"}}
    words = "the namespace of the provided object does not match the namespace sent on the request"
    client.post("configmaps", body).refused(400, "BadRequest", words)


@parametrized_case(
    [
        (
            "no name",
            {"metadata": {}},
            "metadata.name",
            "FieldValueRequired",
            "name or generateName is required",
        ),
        (
            "capitals",
            {"metadata": {"name": "A"}},
            "metadata.name",
            "FieldValueInvalid",
            "lowercase RFC 1123 subdomain",
        ),
        (
            "underscore",
            {"metadata": {"name": "a_b"}},
            "metadata.name",
            "FieldValueInvalid",
            "RFC 1123",
        ),
        (
            "slash",
            {"metadata": {"name": "a/b"}},
            "metadata.name",
            "FieldValueInvalid",
            'may not contain "/"|RFC 1123',
        ),
        (
            "too long",
            {"metadata": {"name": "a" * 254}},
            "metadata.name",
            "FieldValueInvalid",
            "must be no more than 253",
        ),
        (
            "label's value",
            {"metadata": {"name": "a", "labels": {"k": "no spaces"}}},
            "metadata.labels",
            "FieldValueInvalid",
            "a valid label",
        ),
        (
            "label's key",
            {"metadata": {"name": "a", "labels": {"-k": "v"}}},
            "metadata.labels",
            "FieldValueInvalid",
            "name part must consist",
        ),
        (
            "annotation's key",
            {"metadata": {"name": "a", "annotations": {"a b": ""}}},
            "metadata.annotations",
            "FieldValueInvalid",
            "name part",
        ),
        (
            "annotations' size",
            {"metadata": {"name": "a", "annotations": {"k": "x" * 262144}}},
            "metadata.annotations",
            "FieldValueTooLong",
            "may not be more than 262144 bytes",
        ),
        (
            "finalizer",
            {"metadata": {"name": "a", "finalizers": ["a b"]}},
            "metadata.finalizers",
            "FieldValueInvalid",
            "qualified name|name part",
        ),
        (
            "owner without uid",
            {
                "metadata": {
                    "name": "a",
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}
                    ],
                }
            },
            "metadata.ownerReferences.uid",
            "FieldValueRequired|FieldValueInvalid",
            "must not be empty",
        ),
        (
            "data's key",
            {"metadata": {"name": "a"}, "data": {"a/b": ""}},
            "data[a/b]",
            "FieldValueInvalid",
            "a valid config key",
        ),
    ]
)
def invalid_metadata_is_refused(
    client: CaseClient, body: Any, field: str, reason: str, words: str
) -> None:
    refusal = client.post("configmaps", body).refused(422, "Invalid")
    assert any(found == field and why in reason.split("|") for found, why in refusal.causes), (
        refusal.body
    )
    assert any(word in refusal.body["message"] for word in words.split("|")), refusal.body[
        "message"
    ]
    assert refusal.body["details"]["kind"] == "ConfigMap"


@parametrized_case(
    [
        ("kind", {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}),
        ("version", {"kind": "ConfigMap", "apiVersion": "apps/v1", "metadata": {"name": "a"}}),
        ("number for text", {"metadata": {"name": "a"}, "data": {"a": 1}}),
        ("text for map", {"metadata": {"name": "a"}, "data": "x"}),
        ("list", []),
        ("number", 1),
        ("no JSON", b"{"),
        ("text", b'"a"'),
        ("empty", b" "),
    ]
)
def malformed_body_is_bad_request(client: CaseClient, body: Any) -> None:
    client.call("POST", "configmaps", body).refused(400, "BadRequest")


@parametrized_case([("Ignore", 201, False), ("Warn", 201, True), ("Strict", 400, False)])
def unknown_field_follows_validation_level(
    client: CaseClient,
    status: int,
    warned: bool,  # noqa: FBT001
) -> None:
    validation = {(201, False): "Ignore", (201, True): "Warn", (400, False): "Strict"}[
        status, warned
    ]
    answer = client.post("configmaps", {**CONFIG, "colour": "red"}, fieldValidation=validation)
    assert answer.status == status, answer.body
    assert ("unknown field" in answer.headers.get("warning", "")) == warned
    if status == 201:  # noqa: PLR2004
        assert "colour" not in answer.body
    else:
        answer.refused(400, "BadRequest", 'strict decoding error: unknown field "colour"')


@case
def null_equals_absent(client: CaseClient) -> None:
    made = client.post("configmaps", {"metadata": {"name": "c", "labels": None}, "data": None}).ok(
        201
    )
    assert "labels" not in made["metadata"]
    assert "data" not in made


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def create_config_map(client: CaseClient) -> dict[str, Any]:
    return client.post(  # type: ignore[no-any-return]
        "configmaps", {"metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1"}}
    ).ok(201)


@case
def update_replaces_object(client: CaseClient) -> None:
    old = create_config_map(client)
    new = client.put("configmaps/c", {"metadata": {"name": "c"}, "data": {"b": "2"}}).ok()
    assert new["data"] == {"b": "2"}
    assert "labels" not in new["metadata"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert new["metadata"]["creationTimestamp"] == old["metadata"]["creationTimestamp"]
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


@case
def stale_version_is_conflict(client: CaseClient) -> None:
    old = create_config_map(client)
    client.put("configmaps/c", {**old, "data": {"a": "2"}}).ok()
    refusal = client.put("configmaps/c", {**old, "data": {"a": "3"}}).refused(
        409, "Conflict", STALE
    )
    assert refusal.body["details"] == {"name": "c", "kind": "configmaps"}
    assert client.get("configmaps/c").ok()["data"] == {"a": "2"}


@case
def invalid_version_is_refused(client: CaseClient) -> None:
    old = create_config_map(client)
    body = {**old, "metadata": {**old["metadata"], "resourceVersion": "x"}}
    client.put("configmaps/c", body).refused(
        500, "", 'strconv.ParseUint: parsing "x": invalid syntax'
    )


@case
def update_without_change_keeps_version(client: CaseClient) -> None:
    old = create_config_map(client)
    assert (
        client.put("configmaps/c", old).ok()["metadata"]["resourceVersion"]
        == old["metadata"]["resourceVersion"]
    )


@case
def other_name_in_body_is_bad_request(client: CaseClient) -> None:
    create_config_map(client)
    words = "the name of the object (d) does not match the name on the URL (c)"
    client.put("configmaps/c", {"metadata": {"name": "d"}}).refused(400, "BadRequest", words)


@case
def other_uid_is_conflict(client: CaseClient) -> None:
    old = create_config_map(client)
    body = {**old, "metadata": {**old["metadata"], "uid": "11111111-1111-4111-8111-111111111111"}}
    client.put("configmaps/c", body).refused(
        409, "Conflict", "Precondition failed: UID in precondition"
    )


@case
def update_of_missing_object_is_not_found(client: CaseClient) -> None:
    client.put("configmaps/c", {"metadata": {"name": "c"}}).refused(
        404, "NotFound", 'configmaps "c" not found'
    )


@case
def update_creates_lease(client: CaseClient) -> None:
    client.put("leases/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}).ok(201)
    assert client.get("leases/l").ok()["spec"]["holderIdentity"] == "me"


@case
def update_of_budget_requires_version(client: CaseClient) -> None:
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    client.post("poddisruptionbudgets", budget).ok(201)
    refusal = client.put("poddisruptionbudgets/b", budget).refused(
        422, "Invalid", "must be specified for an update"
    )
    assert refusal.causes == [("metadata.resourceVersion", "FieldValueInvalid")]


@case
def generation_counts_spec_changes_only(client: CaseClient) -> None:
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    old = client.post("poddisruptionbudgets", budget).ok(201)
    labelled = client.patch("poddisruptionbudgets/b", {"metadata": {"labels": {"a": "b"}}}).ok()
    assert labelled["metadata"]["generation"] == old["metadata"]["generation"] == 1
    assert (
        client.patch("poddisruptionbudgets/b", {"spec": {"minAvailable": 2}}).ok()["metadata"][
            "generation"
        ]
        == 2  # noqa: PLR2004
    )


@case
def dry_run_update_changes_nothing(client: CaseClient) -> None:
    old = create_config_map(client)
    assert client.put("configmaps/c", {**old, "data": {"a": "2"}}, dryRun="All").ok()["data"] == {
        "a": "2"
    }
    assert client.get("configmaps/c").ok() == old


@parametrized_case(
    [
        ("creation", {"creationTimestamp": "2001-01-01T00:00:00Z"}),
        ("generation", {"generation": 9}),
        ("deletion", {"deletionTimestamp": "2001-01-01T00:00:00Z"}),
    ]
)
def update_keeps_server_metadata(client: CaseClient, metadata: dict[str, Any]) -> None:
    old = create_config_map(client)
    client.put("configmaps/c", {**old, "metadata": {**old["metadata"], **metadata}})
    kept = client.get("configmaps/c").ok()["metadata"]
    for name in metadata:
        assert kept.get(name) == old["metadata"].get(name)


@parametrized_case(
    [
        (
            "configmap's data",
            "configmaps",
            {"immutable": True, "data": {"a": "1"}},
            {"immutable": True, "data": {"a": "2"}},
            "data",
        ),
        (
            "configmap's immutability",
            "configmaps",
            {"immutable": True},
            {"immutable": False},
            "immutable",
        ),
        ("secret's type", "secrets", {"type": "a/b"}, {"type": "c/d"}, "type"),
        (
            "secret's data",
            "secrets",
            {"immutable": True, "data": {"a": "MQ=="}},
            {"immutable": True, "data": {"a": "Mg=="}},
            "data",
        ),
    ]
)
def immutable_field_cannot_change(
    client: CaseClient, plural: str, first: dict[str, Any], second: dict[str, Any], field: str
) -> None:
    client.post(plural, {"metadata": {"name": "x"}, **first}).ok(201)
    refusal = client.put(f"{plural}/x", {"metadata": {"name": "x"}, **second}).refused(
        422, "Invalid", "immutable"
    )
    assert refusal.causes[0][0] == field


@case
def removal_of_last_finalizer_completes_deletion(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}).ok(
        201
    )
    client.delete("configmaps/c").ok()
    held = client.get("configmaps/c").ok()
    assert held["metadata"]["deletionTimestamp"]
    client.put("configmaps/c", {**held, "metadata": {**held["metadata"], "finalizers": []}}).ok()
    client.get("configmaps/c").refused(404, "NotFound")


@case
def finalizer_cannot_be_added_during_deletion(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}).ok(
        201
    )
    client.delete("configmaps/c").ok()
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    client.patch("configmaps/c", more).refused(
        422, "Invalid", "no new finalizers can be added if the object is being deleted"
    )
    client.patch("configmaps/c", {"metadata": {"finalizers": None}}).ok()
