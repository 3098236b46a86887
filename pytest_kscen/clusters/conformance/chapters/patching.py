"""Patches: JSON, merge and strategic merge patch, and server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


DATA = {"a": "1", "b": "2"}


def config_map(client: CaseClient) -> dict[str, Any]:
    return client.post("configmaps", {"metadata": {"name": "c"}, "data": DATA}).ok(201)  # type: ignore[no-any-return]


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
def json_patches_do_what_they_say(client: CaseClient, patch: Any, expected: dict[str, str]) -> None:
    config_map(client)
    assert client.patch("configmaps/c", patch, "json").ok()["data"] == expected


@case
def json_pointers_are_escaped(client: CaseClient) -> None:
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
def json_patches_that_fail_change_nothing(client: CaseClient, patch: Any, status: int) -> None:
    config_map(client)
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
def merge_patches_do_what_they_say(client: CaseClient, patch: Any, expected: Any) -> None:
    config_map(client)
    assert client.patch("configmaps/c", patch).ok().get("data") == expected


@case
def merge_patches_replace_lists_whole(client: CaseClient) -> None:
    deployment(client)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "three", "image": "i:3"}]}}}}
    patched = client.patch("deployments/d", patch).ok()
    assert [
        container["name"] for container in patched["spec"]["template"]["spec"]["containers"]
    ] == ["three"]


@case
def a_patch_that_changes_nothing_makes_no_version(client: CaseClient) -> None:
    made = config_map(client)
    assert (
        client.patch("configmaps/c", {"data": {"a": "1"}}).ok()["metadata"]["resourceVersion"]
        == made["metadata"]["resourceVersion"]
    )


@case
def a_patch_can_insist_on_a_version(client: CaseClient) -> None:
    made = config_map(client)
    client.patch("configmaps/c", {"data": {"a": "9"}}).ok()
    stale = {
        "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "data": {"a": "8"},
    }
    client.patch("configmaps/c", stale).refused(409, "Conflict", "the object has been modified")


@case
def a_patch_of_what_is_not_there_is_not_found(client: CaseClient) -> None:
    client.patch("configmaps/c", {"data": {}}).refused(404, "NotFound")


@parametrized_case(
    [
        ("name", {"metadata": {"name": "d"}}, 400),
        ("namespace", {"metadata": {"namespace": "elsewhere"}}, 400),
    ]
)
def a_patch_cannot_move_an_object(client: CaseClient, patch: Any, status: int) -> None:
    config_map(client)
    assert client.patch("configmaps/c", patch).status == status


@case
def an_unknown_kind_of_patch_is_an_unsupported_media_type(client: CaseClient) -> None:
    config_map(client)
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
def strategic_patches_merge_lists_by_their_key(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "one", "image": "i:9"}), "strategic").ok()
    )
    assert list(merged) == ["one", "two"]
    assert merged["one"]["image"] == "i:9"
    assert [one["name"] for one in merged["one"]["env"]] == ["A", "B"]


@case
def strategic_patches_add_new_elements(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "three", "image": "i:3"}), "strategic").ok()
    )
    assert sorted(merged) == ["one", "three", "two"]


@case
def strategic_patches_go_deep(client: CaseClient) -> None:
    deployment(client)
    patch = template(
        {"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}
    )
    env = containers(client.patch("deployments/d", patch, "strategic").ok())["one"]["env"]
    assert {one["name"]: one["value"] for one in env} == {"A": "1", "B": "9", "C": "3"}


@case
def strategic_patches_replace_lists_without_a_key(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "two", "args": ["z"]}), "strategic").ok()
    )
    assert merged["two"]["args"] == ["z"]


@case
def strategic_patches_delete_by_directive(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch(
            "deployments/d", template({"name": "one", "$patch": "delete"}), "strategic"
        ).ok()
    )
    assert list(merged) == ["two"]


@case
def strategic_patches_replace_by_directive(client: CaseClient) -> None:
    deployment(client)
    patch = template({"name": "new", "image": "i:7"}, {"$patch": "replace"})
    assert list(containers(client.patch("deployments/d", patch, "strategic").ok())) == ["new"]


@case
def strategic_patches_order_by_directive(client: CaseClient) -> None:
    deployment(client)
    patch = template(**{"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]})
    assert list(containers(client.patch("deployments/d", patch, "strategic").ok())) == [
        "two",
        "one",
    ]


@case
def strategic_patches_keep_only_the_named_keys(client: CaseClient) -> None:
    deployment(client)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert client.patch("deployments/d", patch, "strategic").ok()["spec"]["strategy"] == {
        "type": "Recreate"
    }


@case
def strategic_patches_remove_with_null(client: CaseClient) -> None:
    deployment(client)
    merged = containers(
        client.patch("deployments/d", template({"name": "two", "args": None}), "strategic").ok()
    )
    assert "args" not in merged["two"]


@case
def strategic_patches_delete_from_lists_of_plain_values(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a", "e.com/b"]}}).ok(
        201
    )
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}
    assert client.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"] == [
        "e.com/b"
    ]
    client.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def strategic_patches_merge_lists_of_plain_values(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "f", "finalizers": ["e.com/a"]}}).ok(201)
    patch = {"metadata": {"finalizers": ["e.com/b"]}}
    assert sorted(
        client.patch("configmaps/f", patch, "strategic").ok()["metadata"]["finalizers"]
    ) == ["e.com/a", "e.com/b"]
    client.patch("configmaps/f", {"metadata": {"finalizers": None}}).ok()


@case
def an_element_without_its_key_is_refused(client: CaseClient) -> None:
    deployment(client)
    assert client.patch("deployments/d", template({"image": "i:9"}), "strategic").status in {
        400,
        500,
        422,
    }


def applied_config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `data` that each manager owns, by manager and operation."""
    found = {}
    for entry in obj["metadata"].get("managedFields", ()):
        fields = entry["fieldsV1"].get("f:data", {})
        found[f"{entry['manager']}/{entry['operation']}"] = sorted(
            name[2:] for name in fields if name != "."
        )
    return found


@case
def applying_makes_what_is_not_there(client: CaseClient) -> None:
    made = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsType"]) == (
        "me",
        "Apply",
        "v1",
        "FieldsV1",
    )
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert entry["time"] == made["metadata"]["creationTimestamp"]


@case
def applying_again_changes_nothing(client: CaseClient) -> None:
    made = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="1"), "me").ok() == made


@case
def two_can_own_different_fields(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    both = client.apply("configmaps/c", applied_config_map(b="2"), "you").ok()
    assert both["data"] == {"a": "1", "b": "2"}
    assert owners(both) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def two_can_own_the_same_field_if_they_agree(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert owners(client.apply("configmaps/c", applied_config_map(a="1"), "you").ok()) == {
        "me/Apply": ["a"],
        "you/Apply": ["a"],
    }


@case
def if_they_disagree_it_is_a_conflict(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    refusal = client.apply("configmaps/c", applied_config_map(a="2"), "you")
    refusal.refused(409, "Conflict", 'Apply failed with 1 conflict: conflict with "me": .data.a')
    assert refusal.causes == [(".data.a", "FieldManagerConflict")]
    assert client.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def several_conflicts_are_told_together(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    refusal = client.apply("configmaps/c", applied_config_map(a="2", b="2"), "you")
    refusal.refused(
        409, "Conflict", 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\n- .data.b'
    )


@case
def force_takes_the_field(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    taken = client.apply("configmaps/c", applied_config_map(a="2"), "you", force="true").ok()
    assert taken["data"] == {"a": "2", "b": "1"}
    assert owners(taken) == {"me/Apply": ["b"], "you/Apply": ["a"]}


@case
def what_nobody_applies_any_more_is_removed(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="2"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="1"), "me").ok()["data"] == {"a": "1"}


@case
def what_another_still_applies_stays(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="2"), "me").ok(201)
    client.apply("configmaps/c", applied_config_map(b="2"), "you").ok()
    left = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok()
    assert left["data"] == {"a": "1", "b": "2"}
    assert owners(left) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def an_update_takes_what_it_changes(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    changed = client.patch("configmaps/c", {"data": {"a": "2"}}, fieldManager="editor").ok()
    assert owners(changed) == {"me/Apply": ["b"], "editor/Update": ["a"]}
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").refused(
        409, "Conflict", 'conflict with "editor" using v1: .data.a'
    )


@case
def what_was_created_plainly_is_owned_too(client: CaseClient) -> None:
    made = client.post("configmaps", applied_config_map(a="1"), fieldManager="creator").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("creator", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


@case
def the_user_agent_names_who_does_not_say(client: CaseClient) -> None:
    made = client.call(
        "POST", "configmaps", applied_config_map(a="1"), headers={"User-Agent": "robot/1.0 (test)"}
    ).ok(201)
    assert made["metadata"]["managedFields"][0]["manager"] == "robot"


@case
def dry_run_applies_nothing(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="2"), "me", dryRun="All").ok()[
        "data"
    ] == {"a": "2"}
    assert client.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def applying_needs_a_manager(client: CaseClient) -> None:
    refusal = client.patch("configmaps/c", applied_config_map(a="1"), "apply").refused(
        422, "Invalid", "fieldManager"
    )
    assert refusal.causes == [("fieldManager", "FieldValueRequired")]


@parametrized_case(
    [
        ("no kind", {"metadata": {"name": "c"}}, 400),
        ("another kind", {**applied_config_map(), "kind": "Secret"}, 400),
        ("another name", {**applied_config_map(), "metadata": {"name": "d"}}, 400),
        (
            "managed fields",
            {
                **applied_config_map(),
                "metadata": {"name": "c", "managedFields": [{"manager": "x"}]},
            },
            400,
        ),
    ]
)
def a_configuration_must_fit_its_address(client: CaseClient, body: Any, status: int) -> None:
    assert client.apply("configmaps/c", body, "me").status == status


@case
def force_is_for_applying_alone(client: CaseClient) -> None:
    client.post("configmaps", applied_config_map(a="1")).ok(201)
    client.patch("configmaps/c", {"data": {}}, force="true").refused(422, "Invalid", "force")


@case
def a_manager_too_long_is_refused(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "m" * 129).refused(
        422, "Invalid", "fieldManager"
    )


@case
def lists_with_keys_are_shared_by_element(client: CaseClient) -> None:
    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        spec = {"selector": {"matchLabels": {"a": "d"}}, "replicas": 0}
        template = {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": list(containers)}}
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
        return {**head, "spec": {**spec, "template": template}}

    client.apply("deployments/d", deployment({"name": "one", "image": "i:1"}), "me").ok(201)
    second = deployment({"name": "two", "image": "i:2"})
    both = client.apply("deployments/d", second, "you").ok()
    assert [one["name"] for one in both["spec"]["template"]["spec"]["containers"]] == ["one", "two"]
    mine = next(entry for entry in both["metadata"]["managedFields"] if entry["manager"] == "me")
    owned = mine["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert owned == {'k:{"name":"one"}': {".": {}, "f:image": {}, "f:name": {}}}
    left = client.apply("deployments/d", deployment({"name": "three", "image": "i:3"}), "me").ok()
    assert sorted(one["name"] for one in left["spec"]["template"]["spec"]["containers"]) == [
        "three",
        "two",
    ]


@case
def managed_fields_can_be_cleared(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    cleared = client.patch("configmaps/c", {"metadata": {"managedFields": [{}]}}).ok()
    assert not cleared["metadata"].get("managedFields")
    again = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok()
    assert owners(again) == {"me/Apply": ["a"], "before-first-apply/Update": ["a"]}


@case
def the_status_has_owners_of_its_own(client: CaseClient) -> None:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    client.apply("poddisruptionbudgets/b", {**head, "spec": budget}, "me").ok(201)
    status = {
        "disruptionsAllowed": 3,
        "currentHealthy": 4,
        "desiredHealthy": 1,
        "expectedPods": 4,
        "observedGeneration": 1,
    }
    updated = client.apply(
        "poddisruptionbudgets/b/status", {**head, "status": status}, "reporter", force="true"
    ).ok()
    assert updated["status"]["disruptionsAllowed"] == status["disruptionsAllowed"]
    entry = next(
        entry for entry in updated["metadata"]["managedFields"] if entry["manager"] == "reporter"
    )
    assert entry["subresource"] == "status"
