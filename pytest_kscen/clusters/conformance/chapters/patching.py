"""Patches: JSON, merge and strategic merge patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


DATA = {"a": "1", "b": "2"}


def create_config_map(client: CaseClient) -> dict[str, Any]:
    created = client.post("configmaps", {"metadata": {"name": "c"}, "data": DATA})
    return created.ok(201)  # type: ignore[no-any-return]


def deployment(client: CaseClient) -> dict[str, Any]:
    containers = [
        {
            "name": "one",
            "image": "i:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
        {
            "name": "two",
            "image": "i:2",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "args": ["a", "b"],
        },
    ]
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "d"}},
            "template": {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": containers}},
        },
    }
    return client.post("deployments", body).ok(201)  # type: ignore[no-any-return]


@parametrized_case(
    [
        ("replace", [{"op": "replace", "path": "/data/a", "value": "9"}], {**DATA, "a": "9"}),
        ("add", [{"op": "add", "path": "/data/c", "value": "9"}], {**DATA, "c": "9"}),
        ("add over", [{"op": "add", "path": "/data/a", "value": "9"}], {**DATA, "a": "9"}),
        ("remove", [{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ("move", [{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        ("copy", [{"op": "copy", "from": "/data/a", "path": "/data/c"}], {**DATA, "c": "1"}),
        (
            "tested",
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}],
            {"b": "2"},
        ),
        (
            "replace what is not there",
            [{"op": "replace", "path": "/data/c", "value": "9"}],
            {**DATA, "c": "9"},
        ),
        ("nothing", [], DATA),
    ]
)
def json_patch_is_applied(client: CaseClient, patch: Any, expected: dict[str, str]) -> None:
    create_config_map(client)
    assert client.patch("configmaps/c", patch, "json").ok()["data"] == expected


@case
def json_pointer_escapes_are_decoded(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "c", "annotations": {"x/y": "1"}}}).ok(201)
    patch = [{"op": "replace", "path": "/metadata/annotations/x~1y", "value": "9"}]
    assert client.patch("configmaps/c", patch, "json").ok()["metadata"]["annotations"] == {
        "x/y": "9"
    }


@parametrized_case(
    [
        (
            "failed test",
            [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/a"}],
            422,
        ),
        ("missing to remove", [{"op": "remove", "path": "/data/nope"}], 422),
        ("unknown operation", [{"op": "bend", "path": "/data/a"}], 422),
        ("no list", {"op": "remove", "path": "/data/a"}, 400),
        ("wrong type", [{"op": "replace", "path": "/data/a", "value": 9}], 422),
    ]
)
def failed_json_patch_changes_nothing(client: CaseClient, patch: Any, status: int) -> None:
    create_config_map(client)
    assert client.patch("configmaps/c", patch, "json").status == status
    assert client.get("configmaps/c").ok()["data"] == DATA


@parametrized_case(
    [
        ("change", {"data": {"a": "9"}}, {**DATA, "a": "9"}),
        ("add", {"data": {"c": "9"}}, {**DATA, "c": "9"}),
        ("null removes", {"data": {"a": None}}, {"b": "2"}),
        ("null of nothing", {"data": {"nope": None}}, DATA),
        ("all away", {"data": None}, None),
        ("nothing", {}, DATA),
    ]
)
def merge_patch_is_applied(client: CaseClient, patch: Any, expected: Any) -> None:
    create_config_map(client)
    assert client.patch("configmaps/c", patch).ok().get("data") == expected


@case
def merge_patch_replaces_lists(client: CaseClient) -> None:
    deployment(client)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "three", "image": "i:3"}]}}}}
    patched = client.patch("deployments/d", patch).ok()
    assert [
        container["name"] for container in patched["spec"]["template"]["spec"]["containers"]
    ] == ["three"]


@case
def patch_without_effect_keeps_version(client: CaseClient) -> None:
    made = create_config_map(client)
    assert (
        client.patch("configmaps/c", {"data": {"a": "1"}}).ok()["metadata"]["resourceVersion"]
        == made["metadata"]["resourceVersion"]
    )


@case
def patch_with_stale_version_is_conflict(client: CaseClient) -> None:
    made = create_config_map(client)
    client.patch("configmaps/c", {"data": {"a": "9"}}).ok()
    stale = {
        "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "data": {"a": "8"},
    }
    client.patch("configmaps/c", stale).refused(409, "Conflict", "the object has been modified")


@case
def patch_of_missing_object_is_not_found(client: CaseClient) -> None:
    client.patch("configmaps/c", {"data": {}}).refused(404, "NotFound")


@parametrized_case(
    [
        ("name", {"metadata": {"name": "d"}}, 400),
        ("namespace", {"metadata": {"namespace": "elsewhere"}}, 400),
    ]
)
def patch_cannot_change_name_or_namespace(client: CaseClient, patch: Any, status: int) -> None:
    create_config_map(client)
    assert client.patch("configmaps/c", patch).status == status


@case
def unknown_patch_type_is_unsupported_media_type(client: CaseClient) -> None:
    create_config_map(client)
    answer = client.call("PATCH", "configmaps/c", {"data": {}}, type="application/json")
    answer.refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def containers(answer: Any) -> dict[str, Any]:
    return {
        container["name"]: container
        for container in answer["spec"]["template"]["spec"]["containers"]
    }


def template(*listed: Any, **spec: Any) -> dict[str, Any]:
    return {
        "spec": {"template": {"spec": {**({"containers": list(listed)} if listed else {}), **spec}}}
    }


@case
def strategic_patch_merges_lists_by_key(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "one", "image": "i:9"}), "strategic").ok()
    )
    assert list(merged) == ["one", "two"]
    assert merged["one"]["image"] == "i:9"
    assert [one["name"] for one in merged["one"]["env"]] == ["A", "B"]


@case
def strategic_patch_adds_elements(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "three", "image": "i:3"}), "strategic").ok()
    )
    assert sorted(merged) == ["one", "three", "two"]


@case
def strategic_patch_merges_nested_lists(client: CaseClient) -> None:
    deployment(client)
    patch = template(
        {"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}
    )
    env = containers(client.patch("deployments/d", patch, "strategic").ok())["one"]["env"]
    assert {one["name"]: one["value"] for one in env} == {"A": "1", "B": "9", "C": "3"}


@case
def strategic_patch_replaces_atomic_lists(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "two", "args": ["z"]}), "strategic").ok()
    )
    assert merged["two"]["args"] == ["z"]


@case
def strategic_patch_delete_directive(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch(
            "deployments/d", template({"name": "one", "$patch": "delete"}), "strategic"
        ).ok()
    )
    assert list(merged) == ["two"]


@case
def strategic_patch_replace_directive(client: CaseClient) -> None:
    deployment(client)
    patch = template({"name": "new", "image": "i:7"}, {"$patch": "replace"})
    assert list(containers(client.patch("deployments/d", patch, "strategic").ok())) == ["new"]


@case
def strategic_patch_order_directive(client: CaseClient) -> None:
    deployment(client)
    patch = template(**{"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]})
    assert list(containers(client.patch("deployments/d", patch, "strategic").ok())) == [
        "two",
        "one",
    ]


@case
def strategic_patch_retain_keys_directive(client: CaseClient) -> None:
    deployment(client)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert client.patch("deployments/d", patch, "strategic").ok()["spec"]["strategy"] == {
        "type": "Recreate"
    }


@case
def strategic_patch_null_removes_field(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "two", "args": None}), "strategic").ok()
    )
    assert "args" not in merged["two"]


@case
def strategic_patch_deletes_from_primitive_list(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a", "e.com/b"]}}).ok(
        201
    )
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}
    assert client.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"] == [
        "e.com/b"
    ]
    client.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def strategic_patch_merges_primitive_lists(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a"]}}).ok(201)
    patch = {"metadata": {"finalizers": ["e.com/b"]}}
    assert sorted(
        client.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"]
    ) == ["e.com/a", "e.com/b"]
    client.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def strategic_patch_element_without_key_is_refused(client: CaseClient) -> None:
    deployment(client)
    assert client.patch("deployments/d", template({"image": "i:9"}), "strategic").status in {
        400,
        500,
        422,
    }
