"""Patches: JSON patch, merge patch, strategic merge patch; what each does and what each refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor

DATA = {"a": "1", "b": "2"}


def config(visitor: Visitor) -> dict[str, Any]:
    return visitor.post("configmaps", {"metadata": {"name": "c"}, "data": DATA}).ok(201)  # type: ignore[no-any-return]


def deployment(visitor: Visitor) -> dict[str, Any]:
    containers = [
        {"name": "one", "image": "i:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "two", "image": "i:2", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["a", "b"]},
    ]
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "d"}},
            "template": {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": containers}},
        },
    }
    return visitor.post("deployments", body).ok(201)  # type: ignore[no-any-return]


@case_of(
    [
        ("replace", [{"op": "replace", "path": "/data/a", "value": "9"}], {**DATA, "a": "9"}),
        ("add", [{"op": "add", "path": "/data/c", "value": "9"}], {**DATA, "c": "9"}),
        ("add over", [{"op": "add", "path": "/data/a", "value": "9"}], {**DATA, "a": "9"}),
        ("remove", [{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ("move", [{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        ("copy", [{"op": "copy", "from": "/data/a", "path": "/data/c"}], {**DATA, "c": "1"}),
        ("tested", [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ("replace what is not there", [{"op": "replace", "path": "/data/c", "value": "9"}], {**DATA, "c": "9"}),
        ("nothing", [], DATA),
    ]
)
def json_patches_do_what_they_say(visitor: Visitor, patch: Any, expected: dict[str, str]) -> None:
    config(visitor)
    assert visitor.patch("configmaps/c", patch, "json").ok()["data"] == expected


@case
def json_pointers_are_escaped(visitor: Visitor) -> None:
    visitor.post("configmaps", {"metadata": {"name": "c", "annotations": {"x/y": "1"}}}).ok(201)
    patch = [{"op": "replace", "path": "/metadata/annotations/x~1y", "value": "9"}]
    assert visitor.patch("configmaps/c", patch, "json").ok()["metadata"]["annotations"] == {"x/y": "9"}


@case_of(
    [
        ("failed test", [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/a"}], 422),
        ("missing to remove", [{"op": "remove", "path": "/data/nope"}], 422),
        ("unknown operation", [{"op": "bend", "path": "/data/a"}], 422),
        ("no list", {"op": "remove", "path": "/data/a"}, 400),
        ("wrong type", [{"op": "replace", "path": "/data/a", "value": 9}], 422),
    ]
)
def json_patches_that_fail_change_nothing(visitor: Visitor, patch: Any, status: int) -> None:
    config(visitor)
    assert visitor.patch("configmaps/c", patch, "json").status == status
    assert visitor.get("configmaps/c").ok()["data"] == DATA


@case_of(
    [
        ("change", {"data": {"a": "9"}}, {**DATA, "a": "9"}),
        ("add", {"data": {"c": "9"}}, {**DATA, "c": "9"}),
        ("null removes", {"data": {"a": None}}, {"b": "2"}),
        ("null of nothing", {"data": {"nope": None}}, DATA),
        ("all away", {"data": None}, None),
        ("nothing", {}, DATA),
    ]
)
def merge_patches_do_what_they_say(visitor: Visitor, patch: Any, expected: Any) -> None:
    config(visitor)
    assert visitor.patch("configmaps/c", patch).ok().get("data") == expected


@case
def merge_patches_replace_lists_whole(visitor: Visitor) -> None:
    deployment(visitor)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "three", "image": "i:3"}]}}}}
    patched = visitor.patch("deployments/d", patch).ok()
    assert [container["name"] for container in patched["spec"]["template"]["spec"]["containers"]] == ["three"]


@case
def a_patch_that_changes_nothing_makes_no_version(visitor: Visitor) -> None:
    made = config(visitor)
    assert (
        visitor.patch("configmaps/c", {"data": {"a": "1"}}).ok()["metadata"]["resourceVersion"]
        == made["metadata"]["resourceVersion"]
    )


@case
def a_patch_can_insist_on_a_version(visitor: Visitor) -> None:
    made = config(visitor)
    visitor.patch("configmaps/c", {"data": {"a": "9"}}).ok()
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "8"}}
    visitor.patch("configmaps/c", stale).refused(409, "Conflict", "the object has been modified")


@case
def a_patch_of_what_is_not_there_is_not_found(visitor: Visitor) -> None:
    visitor.patch("configmaps/c", {"data": {}}).refused(404, "NotFound")


@case_of([("name", {"metadata": {"name": "d"}}, 400), ("namespace", {"metadata": {"namespace": "elsewhere"}}, 400)])
def a_patch_cannot_move_an_object(visitor: Visitor, patch: Any, status: int) -> None:
    config(visitor)
    assert visitor.patch("configmaps/c", patch).status == status


@case
def an_unknown_kind_of_patch_is_an_unsupported_media_type(visitor: Visitor) -> None:
    config(visitor)
    answer = visitor.call("PATCH", "configmaps/c", {"data": {}}, type="application/json")
    answer.refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def containers(answer: Any) -> dict[str, Any]:
    return {container["name"]: container for container in answer["spec"]["template"]["spec"]["containers"]}


def template(*listed: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {**({"containers": list(listed)} if listed else {}), **spec}}}}


@case
def strategic_patches_merge_lists_by_their_key(visitor: Visitor) -> None:
    deployment(visitor)
    merged = containers(visitor.patch("deployments/d", template({"name": "one", "image": "i:9"}), "strategic").ok())
    assert list(merged) == ["one", "two"]
    assert merged["one"]["image"] == "i:9"
    assert [one["name"] for one in merged["one"]["env"]] == ["A", "B"]


@case
def strategic_patches_add_new_elements(visitor: Visitor) -> None:
    deployment(visitor)
    merged = containers(visitor.patch("deployments/d", template({"name": "three", "image": "i:3"}), "strategic").ok())
    assert sorted(merged) == ["one", "three", "two"]


@case
def strategic_patches_go_deep(visitor: Visitor) -> None:
    deployment(visitor)
    patch = template({"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]})
    env = containers(visitor.patch("deployments/d", patch, "strategic").ok())["one"]["env"]
    assert {one["name"]: one["value"] for one in env} == {"A": "1", "B": "9", "C": "3"}


@case
def strategic_patches_replace_lists_without_a_key(visitor: Visitor) -> None:
    deployment(visitor)
    merged = containers(visitor.patch("deployments/d", template({"name": "two", "args": ["z"]}), "strategic").ok())
    assert merged["two"]["args"] == ["z"]


@case
def strategic_patches_delete_by_directive(visitor: Visitor) -> None:
    deployment(visitor)
    merged = containers(visitor.patch("deployments/d", template({"name": "one", "$patch": "delete"}), "strategic").ok())
    assert list(merged) == ["two"]


@case
def strategic_patches_replace_by_directive(visitor: Visitor) -> None:
    deployment(visitor)
    patch = template({"name": "new", "image": "i:7"}, {"$patch": "replace"})
    assert list(containers(visitor.patch("deployments/d", patch, "strategic").ok())) == ["new"]


@case
def strategic_patches_order_by_directive(visitor: Visitor) -> None:
    deployment(visitor)
    patch = template(**{"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]})
    assert list(containers(visitor.patch("deployments/d", patch, "strategic").ok())) == ["two", "one"]


@case
def strategic_patches_keep_only_the_named_keys(visitor: Visitor) -> None:
    deployment(visitor)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert visitor.patch("deployments/d", patch, "strategic").ok()["spec"]["strategy"] == {"type": "Recreate"}


@case
def strategic_patches_remove_with_null(visitor: Visitor) -> None:
    deployment(visitor)
    merged = containers(visitor.patch("deployments/d", template({"name": "two", "args": None}), "strategic").ok())
    assert "args" not in merged["two"]


@case
def strategic_patches_delete_from_lists_of_plain_values(visitor: Visitor) -> None:
    visitor.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a", "e.com/b"]}}).ok(201)
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}
    assert visitor.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"] == ["e.com/b"]
    visitor.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def strategic_patches_merge_lists_of_plain_values(visitor: Visitor) -> None:
    visitor.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a"]}}).ok(201)
    patch = {"metadata": {"finalizers": ["e.com/b"]}}
    assert sorted(visitor.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"]) == ["e.com/a", "e.com/b"]
    visitor.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def an_element_without_its_key_is_refused(visitor: Visitor) -> None:
    deployment(visitor)
    assert visitor.patch("deployments/d", template({"image": "i:9"}), "strategic").status in {400, 500, 422}
