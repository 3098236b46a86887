"""Replacing: whose version counts, what cannot change, and what does not count as a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def made(visitor: Visitor) -> dict[str, Any]:
    return visitor.post("configmaps", {"metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1"}}).ok(201)  # type: ignore[no-any-return]


@case
def the_whole_object_is_replaced(visitor: Visitor) -> None:
    old = made(visitor)
    new = visitor.put("configmaps/c", {"metadata": {"name": "c"}, "data": {"b": "2"}}).ok()
    assert new["data"] == {"b": "2"}
    assert "labels" not in new["metadata"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert new["metadata"]["creationTimestamp"] == old["metadata"]["creationTimestamp"]
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


@case
def a_stale_version_is_a_conflict(visitor: Visitor) -> None:
    old = made(visitor)
    visitor.put("configmaps/c", {**old, "data": {"a": "2"}}).ok()
    refusal = visitor.put("configmaps/c", {**old, "data": {"a": "3"}}).refused(409, "Conflict", STALE)
    assert refusal.body["details"] == {"name": "c", "kind": "configmaps"}
    assert visitor.get("configmaps/c").ok()["data"] == {"a": "2"}


@case
def a_version_that_is_no_number_is_refused(visitor: Visitor) -> None:
    old = made(visitor)
    body = {**old, "metadata": {**old["metadata"], "resourceVersion": "x"}}
    visitor.put("configmaps/c", body).refused(500, "", 'strconv.ParseUint: parsing "x": invalid syntax')


@case
def nothing_changed_is_no_new_version(visitor: Visitor) -> None:
    old = made(visitor)
    assert visitor.put("configmaps/c", old).ok()["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


@case
def another_name_in_the_body_is_a_bad_request(visitor: Visitor) -> None:
    made(visitor)
    words = "the name of the object (d) does not match the name on the URL (c)"
    visitor.put("configmaps/c", {"metadata": {"name": "d"}}).refused(400, "BadRequest", words)


@case
def another_uid_is_a_conflict(visitor: Visitor) -> None:
    old = made(visitor)
    body = {**old, "metadata": {**old["metadata"], "uid": "11111111-1111-4111-8111-111111111111"}}
    visitor.put("configmaps/c", body).refused(409, "Conflict", "Precondition failed: UID in precondition")


@case
def what_is_not_there_is_not_found(visitor: Visitor) -> None:
    visitor.put("configmaps/c", {"metadata": {"name": "c"}}).refused(404, "NotFound", 'configmaps "c" not found')


@case
def a_lease_can_be_made_by_an_update(visitor: Visitor) -> None:
    visitor.put("leases/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}).ok(201)
    assert visitor.get("leases/l").ok()["spec"]["holderIdentity"] == "me"


@case
def some_kinds_must_say_which_version_they_replace(visitor: Visitor) -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    visitor.post("poddisruptionbudgets", budget).ok(201)
    refusal = visitor.put("poddisruptionbudgets/b", budget).refused(422, "Invalid", "must be specified for an update")
    assert refusal.causes == [("metadata.resourceVersion", "FieldValueInvalid")]


@case
def the_generation_counts_changes_of_the_spec_alone(visitor: Visitor) -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    old = visitor.post("poddisruptionbudgets", budget).ok(201)
    labelled = visitor.patch("poddisruptionbudgets/b", {"metadata": {"labels": {"a": "b"}}}).ok()
    assert labelled["metadata"]["generation"] == old["metadata"]["generation"] == 1
    assert visitor.patch("poddisruptionbudgets/b", {"spec": {"minAvailable": 2}}).ok()["metadata"]["generation"] == 2  # noqa: PLR2004


@case
def dry_run_changes_nothing(visitor: Visitor) -> None:
    old = made(visitor)
    assert visitor.put("configmaps/c", {**old, "data": {"a": "2"}}, dryRun="All").ok()["data"] == {"a": "2"}
    assert visitor.get("configmaps/c").ok() == old


@case_of(
    [
        ("creation", {"creationTimestamp": "2001-01-01T00:00:00Z"}),
        ("generation", {"generation": 9}),
        ("deletion", {"deletionTimestamp": "2001-01-01T00:00:00Z"}),
    ]
)
def the_servers_own_metadata_stays_as_it_was(visitor: Visitor, metadata: dict[str, Any]) -> None:
    old = made(visitor)
    visitor.put("configmaps/c", {**old, "metadata": {**old["metadata"], **metadata}})
    kept = visitor.get("configmaps/c").ok()["metadata"]
    for name in metadata:
        assert kept.get(name) == old["metadata"].get(name)


@case_of(
    [
        (
            "configmap's data",
            "configmaps",
            {"immutable": True, "data": {"a": "1"}},
            {"immutable": True, "data": {"a": "2"}},
            "data",
        ),
        ("configmap's immutability", "configmaps", {"immutable": True}, {"immutable": False}, "immutable"),
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
def what_is_immutable_stays(visitor: Visitor, plural: str, first: dict[str, Any], second: dict[str, Any], field: str) -> None:
    visitor.post(plural, {"metadata": {"name": "x"}, **first}).ok(201)
    refusal = visitor.put(f"{plural}/x", {"metadata": {"name": "x"}, **second}).refused(422, "Invalid", "immutable")
    assert refusal.causes[0][0] == field


@case
def the_last_finalizer_takes_a_deleted_object_along(visitor: Visitor) -> None:
    visitor.post("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}).ok(201)
    visitor.delete("configmaps/c").ok()
    held = visitor.get("configmaps/c").ok()
    assert held["metadata"]["deletionTimestamp"]
    visitor.put("configmaps/c", {**held, "metadata": {**held["metadata"], "finalizers": []}}).ok()
    visitor.get("configmaps/c").refused(404, "NotFound")


@case
def no_finalizer_is_added_to_what_is_going(visitor: Visitor) -> None:
    visitor.post("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}).ok(201)
    visitor.delete("configmaps/c").ok()
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    visitor.patch("configmaps/c", more).refused(422, "Invalid", "no new finalizers can be added if the object is being deleted")
    visitor.patch("configmaps/c", {"metadata": {"finalizers": None}}).ok()
