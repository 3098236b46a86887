"""Custom resources: definition, serving, validation, pruning, defaults, and removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case
from pytest_kscen.clusters.conformance.widgets import GROUP, SPEC, Widgets, definition

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


@case
def definition_is_accepted_and_established(client: CaseClient) -> None:
    widgets = Widgets(client)
    found = client.get(f"customresourcedefinitions/{widgets.name}").ok()
    assert {one["type"]: one["status"] for one in found["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert found["spec"]["conversion"] == {"strategy": "None"}
    assert found["spec"]["names"]["singular"] == widgets.kind.lower()
    assert found["spec"]["names"]["listKind"] == f"{widgets.kind}List"
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert found["status"]["storedVersions"] == ["v1"]


@case
def custom_kind_is_discovered(client: CaseClient) -> None:
    widgets = Widgets(client)

    def found() -> Any:
        return [
            one
            for one in client.get(f"/apis/{GROUP}/v1").ok()["resources"]
            if one["kind"] == widgets.kind
        ]

    assert [one["namespaced"] for one in client.until(found)] == [True]
    assert GROUP in {group["name"] for group in client.get("/apis").ok()["groups"]}


@case
def custom_object_has_standard_operations(client: CaseClient) -> None:
    widgets = Widgets(client)
    made = widgets.make({"colour": "red"}).ok(201)
    assert made["metadata"]["generation"] == 1
    assert client.get(f"{widgets.path}/w").ok() == made
    listing = client.get(widgets.path).ok()
    assert listing["kind"] == f"{widgets.kind}List"
    assert [item["kind"] for item in listing["items"]] == [widgets.kind]
    client.delete(f"{widgets.path}/w").ok()
    client.get(f"{widgets.path}/w").refused(404, "NotFound", f'{widgets.name} "w" not found')


@parametrized_case(
    [
        ("default", {}, {"size": 3}),
        ("no default for null", {"size": None}, {"size": 3}),
        ("nullable stays null", {"nothing": None}, {"size": 3, "nothing": None}),
        ("unknown is pruned", {"colour": "red", "shade": 1}, {"size": 3, "colour": "red"}),
        (
            "unknown in an item is pruned",
            {"parts": [{"id": "a", "x": 1}]},
            {"size": 3, "parts": [{"id": "a"}]},
        ),
        (
            "what is free is kept",
            {"free": {"x": [1, {"y": None}]}},
            {"size": 3, "free": {"x": [1, {"y": None}]}},
        ),
        ("number as text", {"count": "5"}, {"size": 3, "count": "5"}),
        ("number as number", {"count": 5}, {"size": 3, "count": 5}),
        ("whole as ratio", {"ratio": 1}, {"size": 3, "ratio": 1}),
        ("map", {"map": {"a": 1}}, {"size": 3, "map": {"a": 1}}),
    ]
)
def custom_object_is_pruned_and_defaulted(client: CaseClient, spec: Any, expected: Any) -> None:
    assert Widgets(client).make(spec).ok(201)["spec"] == expected


@parametrized_case(
    [
        (
            "type",
            {"size": "x"},
            "spec.size",
            "FieldValueTypeInvalid",
            'must be of type integer: "string"',
        ),
        (
            "minimum",
            {"size": 0},
            "spec.size",
            "FieldValueInvalid",
            "should be greater than or equal to 1",
        ),
        (
            "maximum",
            {"size": 10},
            "spec.size",
            "FieldValueInvalid",
            "should be less than or equal to 9",
        ),
        (
            "enum",
            {"colour": "green"},
            "spec.colour",
            "FieldValueNotSupported",
            'supported values: "red", "blue"',
        ),
        ("pattern", {"name": "A"}, "spec.name", "FieldValueInvalid", "should match '^[a-z]+$'"),
        ("length", {"name": "abcdef"}, "spec.name", "FieldValueTooLong", "may not be more than 5"),
        (
            "items",
            {"tags": ["a", "b", "c"]},
            "spec.tags",
            "FieldValueTooMany",
            "must have at most 2 items",
        ),
        (
            "item's type",
            {"tags": [1]},
            "spec.tags[0]",
            "FieldValueTypeInvalid",
            "must be of type string",
        ),
        ("set", {"tags": ["a", "a"]}, "spec.tags[1]", "FieldValueDuplicate", "Duplicate value"),
        ("required", {"parts": [{}]}, "spec.parts[0].id", "FieldValueRequired", "Required value"),
        (
            "list map",
            {"parts": [{"id": "a"}, {"id": "a"}]},
            "spec.parts[1]",
            "FieldValueDuplicate",
            "Duplicate value",
        ),
        (
            "int or string",
            {"count": True},
            "spec.count",
            "FieldValueTypeInvalid",
            "must be of type integer,string",
        ),
        (
            "map's value",
            {"map": {"a": "x"}},
            "spec.map.a",
            "FieldValueTypeInvalid",
            "must be of type integer",
        ),
        ("boolean", {"on": "yes"}, "spec.on", "FieldValueTypeInvalid", "must be of type boolean"),
        (
            "rule",
            {"replicas": 5},
            "spec.replicas",
            "FieldValueInvalid",
            "no more replicas than size",
        ),
    ]
)
def schema_violation_is_invalid(
    client: CaseClient, spec: Any, field: str, reason: str, words: str
) -> None:
    refusal = Widgets(client).make(spec).refused(422, "Invalid", words)
    assert (field, reason) in refusal.causes, refusal.causes


@case
def unknown_field_is_reported_on_request(client: CaseClient) -> None:
    widgets = Widgets(client)
    widgets.make({"shade": 1}, fieldValidation="Strict").refused(
        400, "BadRequest", 'strict decoding error: unknown field "spec.shade"'
    )
    assert "unknown field" in widgets.make({"shade": 1}, fieldValidation="Warn").headers["warning"]


@case
def custom_object_refuses_strategic_patch(client: CaseClient) -> None:
    widgets = Widgets(client)
    widgets.make({"size": 1}).ok(201)
    assert client.patch(f"{widgets.path}/w", {"spec": {"size": 2}}).ok()["spec"] == {"size": 2}
    assert client.patch(
        f"{widgets.path}/w", [{"op": "replace", "path": "/spec/size", "value": 4}], "json"
    ).ok()["spec"] == {"size": 4}
    answer = client.patch(f"{widgets.path}/w", {"spec": {"size": 5}}, "strategic")
    answer.refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")


@case
def apply_merges_custom_lists_by_key(client: CaseClient) -> None:
    widgets = Widgets(client)
    client.apply(f"{widgets.path}/w", widgets.body({"parts": [{"id": "a", "weight": 1}]}), "me").ok(
        201
    )
    both = client.apply(
        f"{widgets.path}/w", widgets.body({"parts": [{"id": "b", "weight": 2}]}), "you"
    ).ok()
    assert [part["id"] for part in both["spec"]["parts"]] == ["a", "b"]
    client.apply(
        f"{widgets.path}/w", widgets.body({"parts": [{"id": "a", "weight": 5}]}), "you"
    ).refused(409, "Conflict", "conflict with")


@case
def custom_generation_counts_spec_changes(client: CaseClient) -> None:
    widgets = Widgets(client)
    widgets.make({"size": 1}).ok(201)
    assert (
        client.patch(f"{widgets.path}/w", {"metadata": {"labels": {"a": "b"}}}).ok()["metadata"][
            "generation"
        ]
        == 1
    )
    resized = client.patch(f"{widgets.path}/w", {"spec": {"size": 2}}).ok()
    assert resized["metadata"]["generation"] == 2  # noqa: PLR2004


@case
def status_subresource_separates_spec_and_status(client: CaseClient) -> None:
    widgets = Widgets(client, subresources={"status": {}})
    made = client.post(widgets.path, widgets.body({"size": 1}, status={"done": True})).ok(201)
    assert "status" not in made
    updated = client.patch(
        f"{widgets.path}/w/status", {"status": {"done": True}, "spec": {"size": 9}}
    ).ok()
    assert (updated["status"], updated["spec"]) == ({"done": True}, {"size": 1})
    assert updated["metadata"]["generation"] == 1
    assert client.patch(f"{widgets.path}/w", {"status": {"done": False}}).ok()["status"] == {
        "done": True
    }


@case
def undefined_status_subresource_is_not_found(client: CaseClient) -> None:
    widgets = Widgets(client)
    widgets.make({}).ok(201)
    client.patch(f"{widgets.path}/w/status", {"status": {}}).refused(404, "NotFound", "not found")


@case
def custom_scale_uses_defined_paths(client: CaseClient) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    widgets = Widgets(client, subresources={"status": {}, "scale": paths})
    widgets.make({"size": 9, "replicas": 2}).ok(201)
    scale = client.get(f"{widgets.path}/w/scale").ok()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == (
        "Scale",
        "autoscaling/v1",
        {"replicas": 2},
    )
    client.patch(f"{widgets.path}/w/scale", {"spec": {"replicas": 5}}).ok()
    assert client.get(f"{widgets.path}/w").ok()["spec"]["replicas"] == 5  # noqa: PLR2004


@case
def table_has_additional_printer_columns(client: CaseClient) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
    ]
    widgets = Widgets(client, additionalPrinterColumns=columns)
    widgets.make({"size": 4}).ok(201)
    table = client.call(
        "GET", widgets.path, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    ).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Colour"]
    assert [row["cells"] for row in table["rows"]] == [["w", 4, None]]


@case
def selectable_fields_filter_lists(client: CaseClient) -> None:
    widgets = Widgets(client, selectableFields=[{"jsonPath": ".spec.colour"}])
    widgets.make({"colour": "red"}).ok(201)
    assert len(client.get(widgets.path, fieldSelector="spec.colour=red").ok()["items"]) == 1
    assert client.get(widgets.path, fieldSelector="spec.colour=blue").ok()["items"] == []
    client.get(widgets.path, fieldSelector="spec.size=1").refused(
        400, "BadRequest", "field label not supported: spec.size"
    )


@case
def transition_rule_compares_old_object(client: CaseClient) -> None:
    grow = {"rule": "self.size >= oldSelf.size", "message": "it only grows"}
    schema = {
        "type": "object",
        "properties": {"spec": {**SPEC, "x-kubernetes-validations": [grow]}},
    }
    widgets = Widgets(client, schema={"openAPIV3Schema": schema})
    widgets.make({"size": 3}).ok(201)
    client.patch(f"{widgets.path}/w", {"spec": {"size": 2}}).refused(
        422, "Invalid", "it only grows"
    )
    client.patch(f"{widgets.path}/w", {"spec": {"size": 4}}).ok()


@case
def served_versions_share_objects(client: CaseClient) -> None:
    body = definition(client)
    body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
    client.post("customresourcedefinitions", body).ok(201)
    plural, kind = body["spec"]["names"]["plural"], body["spec"]["names"]["kind"]
    one, two = (
        f"/apis/{GROUP}/{version}/namespaces/{client.namespace}/{plural}"
        for version in ("v1", "v2")
    )
    client.until(lambda: client.get(two).status == 200)  # noqa: PLR2004
    client.until(lambda: client.get(one).status == 200)  # noqa: PLR2004
    client.post(
        one,
        {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {"size": 5}},
    ).ok(201)
    found = client.get(f"{two}/w").ok()
    assert (found["apiVersion"], found["spec"]) == (f"{GROUP}/v2", {"size": 5})


@parametrized_case(
    [
        ("name", {"metadata": {"name": "wrong"}}, "must be spec.names.plural+"),
        ("scope", {"spec": {"scope": "Galaxy"}}, "spec.scope"),
        (
            "no version",
            {"spec": {"versions": []}},
            "must have exactly one version marked as storage version",
        ),
        ("plural", {"spec": {"names": {"plural": "A_B"}}}, "spec.names.plural"),
    ]
)
def malformed_definition_is_invalid(client: CaseClient, change: dict[str, Any], words: str) -> None:
    body = definition(client)
    for part, fields in change.items():
        for name, value in fields.items():
            body[part][name] = {**body[part][name], **value} if isinstance(value, dict) else value
    client.post("customresourcedefinitions", body).refused(422, "Invalid", words)


@parametrized_case(
    [
        ("no schema", {"schema": None}, "schema.openAPIV3Schema: Required value"),
        (
            "no type",
            {"schema": {"openAPIV3Schema": {"properties": {"spec": {}}}}},
            "must not be empty for specified object fields",
        ),
        (
            "rule",
            {
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-validations": [{"rule": "self."}],
                    }
                }
            },
            "compilation failed",
        ),
        (
            "default",
            {
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"a": {"type": "integer", "default": "x"}},
                    }
                }
            },
            "must be of type integer",
        ),
        (
            "scale",
            {
                "subresources": {
                    "scale": {"specReplicasPath": "x", "statusReplicasPath": ".status.r"}
                }
            },
            "specReplicasPath",
        ),
    ]
)
def malformed_schema_is_invalid(client: CaseClient, version: dict[str, Any], words: str) -> None:
    client.post("customresourcedefinitions", definition(client, **version)).refused(
        422, "Invalid", words
    )


@case
def definition_deletion_deletes_objects(client: CaseClient) -> None:
    widgets = Widgets(client)
    widgets.make({}).ok(201)
    client.delete(f"customresourcedefinitions/{widgets.name}").ok()
    path = f"customresourcedefinitions/{widgets.name}"
    client.until(lambda: client.get(path).status == 404)  # noqa: PLR2004
    client.until(lambda: client.get(widgets.path).status == 404)  # noqa: PLR2004


@case
def custom_object_is_watched(client: CaseClient) -> None:
    widgets = Widgets(client)
    start = client.get(widgets.path).ok()["metadata"]["resourceVersion"]
    with client.watch(widgets.path, resourceVersion=start, timeoutSeconds=30) as stream:
        made = widgets.make({"size": 1}).ok(201)
        assert next(stream) == {"type": "ADDED", "object": made}
