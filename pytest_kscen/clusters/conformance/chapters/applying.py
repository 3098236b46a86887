"""Server-side apply: owners of fields, conflicts, forced ownership, removal of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


def applied_config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def data_owners(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `data` that each manager owns, by manager and operation."""
    found = {}
    for entry in obj["metadata"].get("managedFields", ()):
        fields = entry["fieldsV1"].get("f:data", {})
        found[f"{entry['manager']}/{entry['operation']}"] = sorted(
            name[2:] for name in fields if name != "."
        )
    return found


@case
def apply_creates_missing_object(client: CaseClient) -> None:
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
def repeated_apply_changes_nothing(client: CaseClient) -> None:
    made = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="1"), "me").ok() == made


@case
def managers_own_different_fields(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    both = client.apply("configmaps/c", applied_config_map(b="2"), "you").ok()
    assert both["data"] == {"a": "1", "b": "2"}
    assert data_owners(both) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def managers_share_field_of_equal_value(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert data_owners(client.apply("configmaps/c", applied_config_map(a="1"), "you").ok()) == {
        "me/Apply": ["a"],
        "you/Apply": ["a"],
    }


@case
def different_value_is_conflict(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    refusal = client.apply("configmaps/c", applied_config_map(a="2"), "you")
    refusal.refused(409, "Conflict", 'Apply failed with 1 conflict: conflict with "me": .data.a')
    assert refusal.causes == [(".data.a", "FieldManagerConflict")]
    assert client.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def several_conflicts_are_listed(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    refusal = client.apply("configmaps/c", applied_config_map(a="2", b="2"), "you")
    refusal.refused(
        409, "Conflict", 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\n- .data.b'
    )


@case
def force_takes_ownership(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    taken = client.apply("configmaps/c", applied_config_map(a="2"), "you", force="true").ok()
    assert taken["data"] == {"a": "2", "b": "1"}
    assert data_owners(taken) == {"me/Apply": ["b"], "you/Apply": ["a"]}


@case
def field_no_longer_applied_is_removed(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="2"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="1"), "me").ok()["data"] == {"a": "1"}


@case
def field_of_other_manager_is_kept(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="2"), "me").ok(201)
    client.apply("configmaps/c", applied_config_map(b="2"), "you").ok()
    left = client.apply("configmaps/c", applied_config_map(a="1"), "me").ok()
    assert left["data"] == {"a": "1", "b": "2"}
    assert data_owners(left) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def update_takes_ownership_of_changed_fields(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").ok(201)
    changed = client.patch("configmaps/c", {"data": {"a": "2"}}, fieldManager="editor").ok()
    assert data_owners(changed) == {"me/Apply": ["b"], "editor/Update": ["a"]}
    client.apply("configmaps/c", applied_config_map(a="1", b="1"), "me").refused(
        409, "Conflict", 'conflict with "editor" using v1: .data.a'
    )


@case
def creation_owns_its_fields(client: CaseClient) -> None:
    made = client.post("configmaps", applied_config_map(a="1"), fieldManager="creator").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("creator", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


@case
def default_manager_is_user_agent(client: CaseClient) -> None:
    made = client.call(
        "POST", "configmaps", applied_config_map(a="1"), headers={"User-Agent": "robot/1.0 (test)"}
    ).ok(201)
    assert made["metadata"]["managedFields"][0]["manager"] == "robot"


@case
def dry_run_apply_changes_nothing(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "me").ok(201)
    assert client.apply("configmaps/c", applied_config_map(a="2"), "me", dryRun="All").ok()[
        "data"
    ] == {"a": "2"}
    assert client.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def apply_requires_manager(client: CaseClient) -> None:
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
def configuration_must_match_path(client: CaseClient, body: Any, status: int) -> None:
    assert client.apply("configmaps/c", body, "me").status == status


@case
def force_is_refused_without_apply(client: CaseClient) -> None:
    client.post("configmaps", applied_config_map(a="1")).ok(201)
    client.patch("configmaps/c", {"data": {}}, force="true").refused(422, "Invalid", "force")


@case
def overlong_manager_is_refused(client: CaseClient) -> None:
    client.apply("configmaps/c", applied_config_map(a="1"), "m" * 129).refused(
        422, "Invalid", "fieldManager"
    )


@case
def keyed_list_elements_have_separate_owners(client: CaseClient) -> None:
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
    assert data_owners(again) == {"me/Apply": ["a"], "before-first-apply/Update": ["a"]}


@case
def status_has_separate_owners(client: CaseClient) -> None:
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
