"""Deleting: at once, marked, with conditions, with descendants, one by one and many together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


HOLD = "example.com/hold"


def made(visitor: CaseClient, name: str = "c", **metadata: Any) -> dict[str, Any]:
    return visitor.post("configmaps", {"metadata": {"name": name, **metadata}}).ok(201)  # type: ignore[no-any-return]


@case
def it_is_gone_and_a_status_says_so(visitor: CaseClient) -> None:
    uid = made(visitor)["metadata"]["uid"]
    answer = visitor.delete("configmaps/c").ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    visitor.get("configmaps/c").refused(404, "NotFound")


@case
def what_is_not_there_is_not_found(visitor: CaseClient) -> None:
    visitor.delete("configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')


@case
def a_finalizer_holds_it(visitor: CaseClient) -> None:
    made(visitor, finalizers=[HOLD])
    marked = visitor.delete("configmaps/c").ok()
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = visitor.delete("configmaps/c").ok()
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    visitor.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    visitor.get("configmaps/c").refused(404, "NotFound")


@case
def a_held_object_is_not_made_a_second_time(visitor: CaseClient) -> None:
    made(visitor, finalizers=[HOLD])
    visitor.delete("configmaps/c").ok()
    refusal = visitor.post("configmaps", {"metadata": {"name": "c"}})
    refusal.refused(409, "AlreadyExists", 'object is being deleted: configmaps "c" already exists')
    visitor.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()


@case
def dry_run_deletes_nothing(visitor: CaseClient) -> None:
    made(visitor)
    visitor.delete("configmaps/c", dryRun="All").ok()
    visitor.get("configmaps/c").ok()


@parametrized_case([("query", True), ("body", False)])
def options_come_in_the_query_or_in_the_body(visitor: CaseClient, in_query: bool) -> None:  # noqa: FBT001
    made(visitor)
    if in_query:
        visitor.delete("configmaps/c", propagationPolicy="Orphan").ok()
    else:
        visitor.delete(
            "configmaps/c",
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"},
        ).ok()
    held = visitor.get("configmaps/c")
    if held.status == 200:  # noqa: PLR2004  # until the garbage collector has let go of it
        assert held.body["metadata"]["finalizers"] == ["orphan"]


@parametrized_case(
    [
        ("uid", {"uid": "11111111-1111-4111-8111-111111111111"}, "the UID in the precondition"),
        (
            "version",
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match",
        ),
    ]
)
def a_precondition_that_fails_is_a_conflict(
    visitor: CaseClient, preconditions: dict[str, str], words: str
) -> None:
    made(visitor)
    visitor.delete("configmaps/c", {"preconditions": preconditions}).refused(409, "Conflict", words)
    visitor.get("configmaps/c").ok()


@case
def a_precondition_that_holds_lets_it_go(visitor: CaseClient) -> None:
    metadata = made(visitor)["metadata"]
    kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    visitor.delete("configmaps/c", {"preconditions": kept}).ok()


@parametrized_case(
    [
        ("policy", {"propagationPolicy": "Sideways"}, 422, "Invalid"),
        ("both ways", {"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "Invalid"),
        ("dry run", {"dryRun": ["Some"]}, 422, "Invalid"),
    ]
)
def options_that_make_no_sense_are_refused(
    visitor: CaseClient, options: dict[str, Any], status: int, reason: str
) -> None:
    made(visitor)
    visitor.delete("configmaps/c", options).refused(status, reason)
    visitor.get("configmaps/c").ok()


@case
def foreground_waits_with_a_finalizer(visitor: CaseClient) -> None:
    made(visitor, finalizers=[HOLD])
    held = visitor.delete("configmaps/c", propagationPolicy="Foreground").ok()
    assert sorted(held["metadata"]["finalizers"]) == [HOLD, "foregroundDeletion"]
    visitor.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    visitor.until(lambda: visitor.get("configmaps/c").status == 404)  # noqa: PLR2004


@case
def many_are_deleted_by_their_labels(visitor: CaseClient) -> None:
    made(visitor, "a", labels={"go": "yes"})
    made(visitor, "b", labels={"go": "yes"})
    made(visitor, "c", labels={"go": "no"})
    answer = visitor.delete("configmaps", labelSelector="go=yes").ok()
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    left = visitor.get("configmaps", labelSelector="go").ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@case
def many_are_deleted_by_a_field(visitor: CaseClient) -> None:
    made(visitor, "a", labels={"go": "x"})
    made(visitor, "b", labels={"go": "x"})
    visitor.delete("configmaps", fieldSelector="metadata.name=a").ok()
    assert [
        item["metadata"]["name"]
        for item in visitor.get("configmaps", labelSelector="go").ok()["items"]
    ] == ["b"]


@case
def the_garbage_collector_takes_what_has_no_owner_any_more(visitor: CaseClient) -> None:
    owner = made(visitor, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    made(visitor, "owned", ownerReferences=[reference])
    visitor.delete("configmaps/owner", propagationPolicy="Background").ok()
    visitor.until(lambda: visitor.get("configmaps/owned").status == 404)  # noqa: PLR2004


@case
def orphans_lose_their_owner_and_stay(visitor: CaseClient) -> None:
    owner = made(visitor, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    made(visitor, "owned", ownerReferences=[reference])
    visitor.road.wait(1)
    visitor.delete("configmaps/owner", propagationPolicy="Orphan").ok()
    visitor.until(lambda: visitor.get("configmaps/owner").status == 404)  # noqa: PLR2004
    visitor.until(
        lambda: not visitor.get("configmaps/owned").ok()["metadata"].get("ownerReferences")
    )


@case
def in_the_foreground_the_owner_goes_last(visitor: CaseClient) -> None:
    owner = made(visitor, "owner")
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    made(visitor, "owned", ownerReferences=[reference], finalizers=[HOLD])
    visitor.road.wait(1)
    visitor.delete("configmaps/owner", propagationPolicy="Foreground").ok()
    visitor.until(lambda: visitor.get("configmaps/owned").ok()["metadata"].get("deletionTimestamp"))
    visitor.get("configmaps/owner").ok()
    visitor.patch("configmaps/owned", {"metadata": {"finalizers": None}}).ok()
    visitor.until(lambda: visitor.get("configmaps/owner").status == 404)  # noqa: PLR2004


@case
def it_is_active_and_names_itself(visitor: CaseClient) -> None:
    found = visitor.get(f"namespaces/{visitor.namespace}").ok()
    assert found["status"]["phase"] == "Active"
    assert found["spec"]["finalizers"] == ["kubernetes"]
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": visitor.namespace}


@parametrized_case(
    [
        ("default", "default"),
        ("system", "kube-system"),
        ("public", "kube-public"),
        ("leases", "kube-node-lease"),
    ]
)
def a_cluster_is_born_with(visitor: CaseClient, name: str) -> None:
    assert visitor.get(f"namespaces/{name}").ok()["status"]["phase"] == "Active"


@parametrized_case([("default", "default"), ("system", "kube-system"), ("public", "kube-public")])
def some_cannot_be_deleted(visitor: CaseClient, name: str) -> None:
    visitor.delete(f"namespaces/{name}").refused(
        403, "Forbidden", "this namespace may not be deleted"
    )


@case
def its_name_is_a_label(visitor: CaseClient) -> None:
    refusal = visitor.post("namespaces", {"metadata": {"name": "a.b"}}).refused(
        422, "Invalid", "must not contain dots"
    )
    assert refusal.causes == [("metadata.name", "FieldValueInvalid")]


@case
def while_it_ends_nothing_new_is_made(visitor: CaseClient) -> None:
    name = f"{visitor.namespace}-e"
    inside = f"/api/v1/namespaces/{name}/configmaps"
    visitor.post("namespaces", {"metadata": {"name": name}}).ok(201)
    visitor.post(inside, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}).ok(201)
    ending = visitor.delete(f"namespaces/{name}").ok()
    assert ending["status"]["phase"] == "Terminating"
    refusal = visitor.post(inside, {"metadata": {"name": "c"}})
    refusal.refused(
        403,
        "Forbidden",
        f"unable to create new content in namespace {name} because it is being terminated",
    )
    assert refusal.causes == [("metadata.namespace", "NamespaceTerminating")]
    visitor.until(lambda: visitor.get(f"{inside}/held").ok()["metadata"].get("deletionTimestamp"))
    visitor.patch(f"{inside}/held", {"metadata": {"finalizers": None}}).ok()
    visitor.until(lambda: visitor.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004


@case
def it_takes_along_what_is_in_it(visitor: CaseClient) -> None:
    name = f"{visitor.namespace}-t"
    visitor.post("namespaces", {"metadata": {"name": name}}).ok(201)
    visitor.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "c"}}).ok(201)
    visitor.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases", {"metadata": {"name": "l"}}
    ).ok(201)
    visitor.delete(f"namespaces/{name}").ok()
    visitor.until(lambda: visitor.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004
    visitor.get(f"/api/v1/namespaces/{name}/configmaps/c").refused(404, "NotFound")


@case
def it_has_a_service_account_soon(visitor: CaseClient) -> None:
    visitor.settle()
    visitor.until(lambda: visitor.get("configmaps/kube-root-ca.crt").status == 200)  # noqa: PLR2004
