"""Creating: what the server adds, what it leaves alone, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor

CONFIG = {"metadata": {"name": "c"}, "data": {"a": "1"}}
UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@case
def it_has_what_the_server_alone_decides(visitor: Visitor) -> None:
    made = visitor.post("configmaps", CONFIG).ok(201)
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert metadata["namespace"] == visitor.namespace
    assert UID.match(metadata["uid"])
    assert int(metadata["resourceVersion"]) > 0
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", metadata["creationTimestamp"])
    assert "generation" not in metadata
    assert visitor.get("configmaps/c").ok() == made


@case
def kinds_with_a_spec_have_a_generation(visitor: Visitor) -> None:
    lease = visitor.post("leases", {"metadata": {"name": "l"}, "spec": {}}).ok(201)
    assert "generation" not in lease["metadata"]
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    assert visitor.post("poddisruptionbudgets", budget).ok(201)["metadata"]["generation"] == 1


@case
def a_second_one_of_the_same_name_already_exists(visitor: Visitor) -> None:
    visitor.post("configmaps", CONFIG).ok(201)
    refusal = visitor.post("configmaps", CONFIG).refused(409, "AlreadyExists", 'configmaps "c" already exists')
    assert refusal.body["details"] == {"name": "c", "kind": "configmaps"}


@case
def a_generated_name_has_five_letters_more(visitor: Visitor) -> None:
    made = visitor.post("configmaps", {"metadata": {"generateName": "c-"}}).ok(201)
    assert re.match(r"^c-[bcdfghjklmnpqrstvwxz2456789]{5}$", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "c-"


@case
def a_given_name_wins_over_a_generated_one(visitor: Visitor) -> None:
    made = visitor.post("configmaps", {"metadata": {"name": "c", "generateName": "d-"}}).ok(201)
    assert made["metadata"]["name"] == "c"


@case
def the_servers_own_fields_cannot_be_brought_along(visitor: Visitor) -> None:
    brought = {"name": "c", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7, "selfLink": "x"}
    metadata = visitor.post("configmaps", {"metadata": brought}).ok(201)["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "selfLink" not in metadata


@case
def a_version_must_not_be_brought_along(visitor: Visitor) -> None:
    brought = {"metadata": {"name": "c", "resourceVersion": "5"}}
    visitor.post("configmaps", brought).refused(500, "", "resourceVersion should not be set on objects to be created")


@case
def dry_run_answers_and_keeps_nothing(visitor: Visitor) -> None:
    made = visitor.post("configmaps", CONFIG, dryRun="All").ok(201)
    assert UID.match(made["metadata"]["uid"])
    visitor.get("configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')


@case
def dry_run_is_all_or_nothing(visitor: Visitor) -> None:
    visitor.post("configmaps", CONFIG, dryRun="Some").refused(422, "Invalid", "dryRun")


@case
def the_status_is_not_the_creators(visitor: Visitor) -> None:
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"currentHealthy": 5},
    }
    assert visitor.post("poddisruptionbudgets", budget).ok(201)["status"]["currentHealthy"] == 0


@case
def a_namespace_that_is_not_there_is_not_found(visitor: Visitor) -> None:
    answer = visitor.post("/api/v1/namespaces/nowhere/configmaps", CONFIG)
    answer.refused(404, "NotFound", 'namespaces "nowhere" not found')


@case
def another_namespace_in_the_body_is_a_bad_request(visitor: Visitor) -> None:
    body = {"metadata": {"name": "c", "namespace": "elsewhere"}}
    words = "the namespace of the provided object does not match the namespace sent on the request"
    visitor.post("configmaps", body).refused(400, "BadRequest", words)


@case_of(
    [
        ("no name", {"metadata": {}}, "metadata.name", "FieldValueRequired", "name or generateName is required"),
        ("capitals", {"metadata": {"name": "A"}}, "metadata.name", "FieldValueInvalid", "lowercase RFC 1123 subdomain"),
        ("underscore", {"metadata": {"name": "a_b"}}, "metadata.name", "FieldValueInvalid", "RFC 1123"),
        ("slash", {"metadata": {"name": "a/b"}}, "metadata.name", "FieldValueInvalid", 'may not contain "/"|RFC 1123'),
        ("too long", {"metadata": {"name": "a" * 254}}, "metadata.name", "FieldValueInvalid", "must be no more than 253"),
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
            {"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]}},
            "metadata.ownerReferences.uid",
            "FieldValueRequired|FieldValueInvalid",
            "must not be empty",
        ),
        ("data's key", {"metadata": {"name": "a"}, "data": {"a/b": ""}}, "data[a/b]", "FieldValueInvalid", "a valid config key"),
    ]
)
def bad_metadata_is_invalid(visitor: Visitor, body: Any, field: str, reason: str, words: str) -> None:
    refusal = visitor.post("configmaps", body).refused(422, "Invalid")
    assert any(found == field and why in reason.split("|") for found, why in refusal.causes), refusal.body
    assert any(word in refusal.body["message"] for word in words.split("|")), refusal.body["message"]
    assert refusal.body["details"]["kind"] == "ConfigMap"


@case_of(
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
def a_body_of_another_shape_is_a_bad_request(visitor: Visitor, body: Any) -> None:
    visitor.call("POST", "configmaps", body).refused(400, "BadRequest")


@case_of([("Ignore", 201, False), ("Warn", 201, True), ("Strict", 400, False)])
def an_unknown_field_is_dropped_warned_of_or_refused(visitor: Visitor, status: int, warned: bool) -> None:  # noqa: FBT001
    validation = {(201, False): "Ignore", (201, True): "Warn", (400, False): "Strict"}[status, warned]
    answer = visitor.post("configmaps", {**CONFIG, "colour": "red"}, fieldValidation=validation)
    assert answer.status == status, answer.body
    assert ("unknown field" in answer.headers.get("warning", "")) == warned
    if status == 201:  # noqa: PLR2004
        assert "colour" not in answer.body
    else:
        answer.refused(400, "BadRequest", 'strict decoding error: unknown field "colour"')


@case
def null_is_the_same_as_absent(visitor: Visitor) -> None:
    made = visitor.post("configmaps", {"metadata": {"name": "c", "labels": None}, "data": None}).ok(201)
    assert "labels" not in made["metadata"]
    assert "data" not in made
