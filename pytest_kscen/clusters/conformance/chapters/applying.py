"""Server-side apply: who owns which field, who may take it, and what is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    """manager and operation -> the fields of `data` that it owns."""
    found = {}
    for entry in obj["metadata"].get("managedFields", ()):
        fields = entry["fieldsV1"].get("f:data", {})
        found[f"{entry['manager']}/{entry['operation']}"] = sorted(name[2:] for name in fields if name != ".")
    return found


@case
def applying_makes_what_is_not_there(visitor: Visitor) -> None:
    made = visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("me", "Apply", "v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert entry["time"] == made["metadata"]["creationTimestamp"]


@case
def applying_again_changes_nothing(visitor: Visitor) -> None:
    made = visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    assert visitor.apply("configmaps/c", config(a="1"), "me").ok() == made


@case
def two_can_own_different_fields(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    both = visitor.apply("configmaps/c", config(b="2"), "you").ok()
    assert both["data"] == {"a": "1", "b": "2"}
    assert owners(both) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def two_can_own_the_same_field_if_they_agree(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    assert owners(visitor.apply("configmaps/c", config(a="1"), "you").ok()) == {"me/Apply": ["a"], "you/Apply": ["a"]}


@case
def if_they_disagree_it_is_a_conflict(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    refusal = visitor.apply("configmaps/c", config(a="2"), "you")
    refusal.refused(409, "Conflict", 'Apply failed with 1 conflict: conflict with "me": .data.a')
    assert refusal.causes == [(".data.a", "FieldManagerConflict")]
    assert visitor.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def several_conflicts_are_told_together(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1", b="1"), "me").ok(201)
    refusal = visitor.apply("configmaps/c", config(a="2", b="2"), "you")
    refusal.refused(409, "Conflict", 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\n- .data.b')


@case
def force_takes_the_field(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1", b="1"), "me").ok(201)
    taken = visitor.apply("configmaps/c", config(a="2"), "you", force="true").ok()
    assert taken["data"] == {"a": "2", "b": "1"}
    assert owners(taken) == {"me/Apply": ["b"], "you/Apply": ["a"]}


@case
def what_nobody_applies_any_more_is_removed(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1", b="2"), "me").ok(201)
    assert visitor.apply("configmaps/c", config(a="1"), "me").ok()["data"] == {"a": "1"}


@case
def what_another_still_applies_stays(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1", b="2"), "me").ok(201)
    visitor.apply("configmaps/c", config(b="2"), "you").ok()
    left = visitor.apply("configmaps/c", config(a="1"), "me").ok()
    assert left["data"] == {"a": "1", "b": "2"}
    assert owners(left) == {"me/Apply": ["a"], "you/Apply": ["b"]}


@case
def an_update_takes_what_it_changes(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1", b="1"), "me").ok(201)
    changed = visitor.patch("configmaps/c", {"data": {"a": "2"}}, fieldManager="editor").ok()
    assert owners(changed) == {"me/Apply": ["b"], "editor/Update": ["a"]}
    visitor.apply("configmaps/c", config(a="1", b="1"), "me").refused(409, "Conflict", 'conflict with "editor" using v1: .data.a')


@case
def what_was_created_plainly_is_owned_too(visitor: Visitor) -> None:
    made = visitor.post("configmaps", config(a="1"), fieldManager="creator").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("creator", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


@case
def the_user_agent_names_who_does_not_say(visitor: Visitor) -> None:
    made = visitor.call("POST", "configmaps", config(a="1"), headers={"User-Agent": "robot/1.0 (test)"}).ok(201)
    assert made["metadata"]["managedFields"][0]["manager"] == "robot"


@case
def dry_run_applies_nothing(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    assert visitor.apply("configmaps/c", config(a="2"), "me", dryRun="All").ok()["data"] == {"a": "2"}
    assert visitor.get("configmaps/c").ok()["data"] == {"a": "1"}


@case
def applying_needs_a_manager(visitor: Visitor) -> None:
    refusal = visitor.patch("configmaps/c", config(a="1"), "apply").refused(422, "Invalid", "fieldManager")
    assert refusal.causes == [("fieldManager", "FieldValueRequired")]


@case_of(
    [
        ("no kind", {"metadata": {"name": "c"}}, 400),
        ("another kind", {**config(), "kind": "Secret"}, 400),
        ("another name", {**config(), "metadata": {"name": "d"}}, 400),
        ("managed fields", {**config(), "metadata": {"name": "c", "managedFields": [{"manager": "x"}]}}, 400),
    ]
)
def a_configuration_must_fit_its_address(visitor: Visitor, body: Any, status: int) -> None:
    assert visitor.apply("configmaps/c", body, "me").status == status


@case
def force_is_for_applying_alone(visitor: Visitor) -> None:
    visitor.post("configmaps", config(a="1")).ok(201)
    visitor.patch("configmaps/c", {"data": {}}, force="true").refused(422, "Invalid", "force")


@case
def a_manager_too_long_is_refused(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "m" * 129).refused(422, "Invalid", "fieldManager")


@case
def lists_with_keys_are_shared_by_element(visitor: Visitor) -> None:
    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        spec = {"selector": {"matchLabels": {"a": "d"}}, "replicas": 0}
        template = {"metadata": {"labels": {"a": "d"}}, "spec": {"containers": list(containers)}}
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
        return {**head, "spec": {**spec, "template": template}}

    visitor.apply("deployments/d", deployment({"name": "one", "image": "i:1"}), "me").ok(201)
    second = deployment({"name": "two", "image": "i:2"})
    both = visitor.apply("deployments/d", second, "you").ok()
    assert [one["name"] for one in both["spec"]["template"]["spec"]["containers"]] == ["one", "two"]
    mine = next(entry for entry in both["metadata"]["managedFields"] if entry["manager"] == "me")
    owned = mine["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert owned == {'k:{"name":"one"}': {".": {}, "f:image": {}, "f:name": {}}}
    left = visitor.apply("deployments/d", deployment({"name": "three", "image": "i:3"}), "me").ok()
    assert sorted(one["name"] for one in left["spec"]["template"]["spec"]["containers"]) == ["three", "two"]


@case
def managed_fields_can_be_cleared(visitor: Visitor) -> None:
    visitor.apply("configmaps/c", config(a="1"), "me").ok(201)
    cleared = visitor.patch("configmaps/c", {"metadata": {"managedFields": [{}]}}).ok()
    assert not cleared["metadata"].get("managedFields")
    again = visitor.apply("configmaps/c", config(a="1"), "me").ok()
    assert owners(again) == {"me/Apply": ["a"], "before-first-apply/Update": ["a"]}


@case
def the_status_has_owners_of_its_own(visitor: Visitor) -> None:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    visitor.apply("poddisruptionbudgets/b", {**head, "spec": budget}, "me").ok(201)
    status = {"disruptionsAllowed": 3, "currentHealthy": 4, "desiredHealthy": 1, "expectedPods": 4, "observedGeneration": 1}
    told = visitor.apply("poddisruptionbudgets/b/status", {**head, "status": status}, "reporter", force="true").ok()
    assert told["status"]["disruptionsAllowed"] == status["disruptionsAllowed"]
    entry = next(entry for entry in told["metadata"]["managedFields"] if entry["manager"] == "reporter")
    assert entry["subresource"] == "status"
