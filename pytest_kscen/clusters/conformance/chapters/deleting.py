"""Deletion: immediate, by finalizers, with preconditions, with dependents, of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


HOLD = "example.com/hold"


def made(client: CaseClient, name: str = "c", **metadata: Any) -> dict[str, Any]:
    return client.post("configmaps", {"metadata": {"name": name, **metadata}}).ok(201)  # type: ignore[no-any-return]


@case
def it_is_gone_and_a_status_says_so(client: CaseClient) -> None:
    uid = made(client)["metadata"]["uid"]
    answer = client.delete("configmaps/c").ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    client.get("configmaps/c").refused(404, "NotFound")


@case
def what_is_not_there_is_not_found(client: CaseClient) -> None:
    client.delete("configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')


@case
def a_finalizer_holds_it(client: CaseClient) -> None:
    made(client, finalizers=[HOLD])
    marked = client.delete("configmaps/c").ok()
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = client.delete("configmaps/c").ok()
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    client.get("configmaps/c").refused(404, "NotFound")


@case
def a_held_object_is_not_made_a_second_time(client: CaseClient) -> None:
    made(client, finalizers=[HOLD])
    client.delete("configmaps/c").ok()
    refusal = client.post("configmaps", {"metadata": {"name": "c"}})
    refusal.refused(409, "AlreadyExists", 'object is being deleted: configmaps "c" already exists')
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()


@case
def dry_run_deletes_nothing(client: CaseClient) -> None:
    made(client)
    client.delete("configmaps/c", dryRun="All").ok()
    client.get("configmaps/c").ok()


@parametrized_case([("query", True), ("body", False)])
def options_come_in_the_query_or_in_the_body(client: CaseClient, in_query: bool) -> None:  # noqa: FBT001
    made(client)
    if in_query:
        client.delete("configmaps/c", propagationPolicy="Orphan").ok()
    else:
        client.delete(
            "configmaps/c",
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"},
        ).ok()
    held = client.get("configmaps/c")
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
    client: CaseClient, preconditions: dict[str, str], words: str
) -> None:
    made(client)
    client.delete("configmaps/c", {"preconditions": preconditions}).refused(409, "Conflict", words)
    client.get("configmaps/c").ok()


@case
def a_precondition_that_holds_lets_it_go(client: CaseClient) -> None:
    metadata = made(client)["metadata"]
    kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    client.delete("configmaps/c", {"preconditions": kept}).ok()


@parametrized_case(
    [
        ("policy", {"propagationPolicy": "Sideways"}, 422, "Invalid"),
        ("both ways", {"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "Invalid"),
        ("dry run", {"dryRun": ["Some"]}, 422, "Invalid"),
    ]
)
def options_that_make_no_sense_are_refused(
    client: CaseClient, options: dict[str, Any], status: int, reason: str
) -> None:
    made(client)
    client.delete("configmaps/c", options).refused(status, reason)
    client.get("configmaps/c").ok()


@case
def foreground_waits_with_a_finalizer(client: CaseClient) -> None:
    made(client, finalizers=[HOLD])
    held = client.delete("configmaps/c", propagationPolicy="Foreground").ok()
    assert sorted(held["metadata"]["finalizers"]) == [HOLD, "foregroundDeletion"]
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    client.until(lambda: client.get("configmaps/c").status == 404)  # noqa: PLR2004


@case
def many_are_deleted_by_their_labels(client: CaseClient) -> None:
    made(client, "a", labels={"go": "yes"})
    made(client, "b", labels={"go": "yes"})
    made(client, "c", labels={"go": "no"})
    answer = client.delete("configmaps", labelSelector="go=yes").ok()
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    left = client.get("configmaps", labelSelector="go").ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@case
def many_are_deleted_by_a_field(client: CaseClient) -> None:
    made(client, "a", labels={"go": "x"})
    made(client, "b", labels={"go": "x"})
    client.delete("configmaps", fieldSelector="metadata.name=a").ok()
    assert [
        item["metadata"]["name"]
        for item in client.get("configmaps", labelSelector="go").ok()["items"]
    ] == ["b"]


@case
def the_garbage_collector_takes_what_has_no_owner_any_more(client: CaseClient) -> None:
    owner = made(client, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    made(client, "owned", ownerReferences=[reference])
    client.delete("configmaps/owner", propagationPolicy="Background").ok()
    client.until(lambda: client.get("configmaps/owned").status == 404)  # noqa: PLR2004


@case
def orphans_lose_their_owner_and_stay(client: CaseClient) -> None:
    owner = made(client, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    made(client, "owned", ownerReferences=[reference])
    client.transport.wait(1)
    client.delete("configmaps/owner", propagationPolicy="Orphan").ok()
    client.until(lambda: client.get("configmaps/owner").status == 404)  # noqa: PLR2004
    client.until(lambda: not client.get("configmaps/owned").ok()["metadata"].get("ownerReferences"))


@case
def in_the_foreground_the_owner_goes_last(client: CaseClient) -> None:
    owner = made(client, "owner")
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    made(client, "owned", ownerReferences=[reference], finalizers=[HOLD])
    client.transport.wait(1)
    client.delete("configmaps/owner", propagationPolicy="Foreground").ok()
    client.until(lambda: client.get("configmaps/owned").ok()["metadata"].get("deletionTimestamp"))
    client.get("configmaps/owner").ok()
    client.patch("configmaps/owned", {"metadata": {"finalizers": None}}).ok()
    client.until(lambda: client.get("configmaps/owner").status == 404)  # noqa: PLR2004


@case
def it_is_active_and_names_itself(client: CaseClient) -> None:
    found = client.get(f"namespaces/{client.namespace}").ok()
    assert found["status"]["phase"] == "Active"
    assert found["spec"]["finalizers"] == ["kubernetes"]
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": client.namespace}


@parametrized_case(
    [
        ("default", "default"),
        ("system", "kube-system"),
        ("public", "kube-public"),
        ("leases", "kube-node-lease"),
    ]
)
def a_cluster_is_born_with(client: CaseClient, name: str) -> None:
    assert client.get(f"namespaces/{name}").ok()["status"]["phase"] == "Active"


@parametrized_case([("default", "default"), ("system", "kube-system"), ("public", "kube-public")])
def some_cannot_be_deleted(client: CaseClient, name: str) -> None:
    client.delete(f"namespaces/{name}").refused(
        403, "Forbidden", "this namespace may not be deleted"
    )


@case
def its_name_is_a_label(client: CaseClient) -> None:
    refusal = client.post("namespaces", {"metadata": {"name": "a.b"}}).refused(
        422, "Invalid", "must not contain dots"
    )
    assert refusal.causes == [("metadata.name", "FieldValueInvalid")]


@case
def while_it_ends_nothing_new_is_made(client: CaseClient) -> None:
    name = f"{client.namespace}-e"
    inside = f"/api/v1/namespaces/{name}/configmaps"
    client.post("namespaces", {"metadata": {"name": name}}).ok(201)
    client.post(inside, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}).ok(201)
    ending = client.delete(f"namespaces/{name}").ok()
    assert ending["status"]["phase"] == "Terminating"
    refusal = client.post(inside, {"metadata": {"name": "c"}})
    refusal.refused(
        403,
        "Forbidden",
        f"unable to create new content in namespace {name} because it is being terminated",
    )
    assert refusal.causes == [("metadata.namespace", "NamespaceTerminating")]
    client.until(lambda: client.get(f"{inside}/held").ok()["metadata"].get("deletionTimestamp"))
    client.patch(f"{inside}/held", {"metadata": {"finalizers": None}}).ok()
    client.until(lambda: client.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004


@case
def it_takes_along_what_is_in_it(client: CaseClient) -> None:
    name = f"{client.namespace}-t"
    client.post("namespaces", {"metadata": {"name": name}}).ok(201)
    client.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "c"}}).ok(201)
    client.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases", {"metadata": {"name": "l"}}
    ).ok(201)
    client.delete(f"namespaces/{name}").ok()
    client.until(lambda: client.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004
    client.get(f"/api/v1/namespaces/{name}/configmaps/c").refused(404, "NotFound")


@case
def it_has_a_service_account_soon(client: CaseClient) -> None:
    client.wait_for_service_account()
    client.until(lambda: client.get("configmaps/kube-root-ca.crt").status == 200)  # noqa: PLR2004
