"""Deletion: immediate, by finalizers, with preconditions, with dependents, of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient


HOLD = "example.com/hold"


def create_config_map(client: CaseClient, name: str = "c", **metadata: Any) -> dict[str, Any]:
    created = client.post("configmaps", {"metadata": {"name": name, **metadata}})
    return created.ok(201)  # type: ignore[no-any-return]


@case
def deletion_returns_success_status(client: CaseClient) -> None:
    uid = create_config_map(client)["metadata"]["uid"]
    answer = client.delete("configmaps/c").ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    client.get("configmaps/c").refused(404, "NotFound")


@case
def deletion_of_missing_object_is_not_found(client: CaseClient) -> None:
    client.delete("configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')


@case
def finalizer_delays_deletion(client: CaseClient) -> None:
    create_config_map(client, finalizers=[HOLD])
    marked = client.delete("configmaps/c").ok()
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = client.delete("configmaps/c").ok()
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    client.get("configmaps/c").refused(404, "NotFound")


@case
def creation_during_deletion_already_exists(client: CaseClient) -> None:
    create_config_map(client, finalizers=[HOLD])
    client.delete("configmaps/c").ok()
    refusal = client.post("configmaps", {"metadata": {"name": "c"}})
    refusal.refused(409, "AlreadyExists", 'object is being deleted: configmaps "c" already exists')
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()


@case
def dry_run_keeps_object(client: CaseClient) -> None:
    create_config_map(client)
    client.delete("configmaps/c", dryRun="All").ok()
    client.get("configmaps/c").ok()


@parametrized_case([("query", True), ("body", False)])
def options_are_accepted_in_query_or_body(
    client: CaseClient,
    in_query: bool,  # noqa: FBT001
) -> None:
    create_config_map(client)
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
def failed_precondition_is_conflict(
    client: CaseClient, preconditions: dict[str, str], words: str
) -> None:
    create_config_map(client)
    client.delete("configmaps/c", {"preconditions": preconditions}).refused(409, "Conflict", words)
    client.get("configmaps/c").ok()


@case
def met_precondition_allows_deletion(client: CaseClient) -> None:
    metadata = create_config_map(client)["metadata"]
    kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    client.delete("configmaps/c", {"preconditions": kept}).ok()


@parametrized_case(
    [
        ("policy", {"propagationPolicy": "Sideways"}, 422, "Invalid"),
        ("both ways", {"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "Invalid"),
        ("dry run", {"dryRun": ["Some"]}, 422, "Invalid"),
    ]
)
def invalid_options_are_refused(
    client: CaseClient, options: dict[str, Any], status: int, reason: str
) -> None:
    create_config_map(client)
    client.delete("configmaps/c", options).refused(status, reason)
    client.get("configmaps/c").ok()


@case
def foreground_deletion_adds_finalizer(client: CaseClient) -> None:
    create_config_map(client, finalizers=[HOLD])
    held = client.delete("configmaps/c", propagationPolicy="Foreground").ok()
    assert sorted(held["metadata"]["finalizers"]) == [HOLD, "foregroundDeletion"]
    client.patch("configmaps/c", {"metadata": {"finalizers": []}}).ok()
    client.until(lambda: client.get("configmaps/c").status == 404)  # noqa: PLR2004


@case
def collection_is_deleted_by_label(client: CaseClient) -> None:
    create_config_map(client, "a", labels={"go": "yes"})
    create_config_map(client, "b", labels={"go": "yes"})
    create_config_map(client, "c", labels={"go": "no"})
    answer = client.delete("configmaps", labelSelector="go=yes").ok()
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    left = client.get("configmaps", labelSelector="go").ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@case
def collection_is_deleted_by_field(client: CaseClient) -> None:
    create_config_map(client, "a", labels={"go": "x"})
    create_config_map(client, "b", labels={"go": "x"})
    client.delete("configmaps", fieldSelector="metadata.name=a").ok()
    assert [
        item["metadata"]["name"]
        for item in client.get("configmaps", labelSelector="go").ok()["items"]
    ] == ["b"]


@case
def garbage_collector_deletes_dependents(client: CaseClient) -> None:
    owner = create_config_map(client, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    create_config_map(client, "owned", ownerReferences=[reference])
    client.delete("configmaps/owner", propagationPolicy="Background").ok()
    client.until(lambda: client.get("configmaps/owned").status == 404)  # noqa: PLR2004


@case
def orphan_policy_keeps_dependents(client: CaseClient) -> None:
    owner = create_config_map(client, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    create_config_map(client, "owned", ownerReferences=[reference])
    client.transport.wait(1)
    client.delete("configmaps/owner", propagationPolicy="Orphan").ok()
    client.until(lambda: client.get("configmaps/owner").status == 404)  # noqa: PLR2004
    client.until(lambda: not client.get("configmaps/owned").ok()["metadata"].get("ownerReferences"))


@case
def foreground_deletion_removes_owner_last(client: CaseClient) -> None:
    owner = create_config_map(client, "owner")
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    create_config_map(client, "owned", ownerReferences=[reference], finalizers=[HOLD])
    client.transport.wait(1)
    client.delete("configmaps/owner", propagationPolicy="Foreground").ok()
    client.until(lambda: client.get("configmaps/owned").ok()["metadata"].get("deletionTimestamp"))
    client.get("configmaps/owner").ok()
    client.patch("configmaps/owned", {"metadata": {"finalizers": None}}).ok()
    client.until(lambda: client.get("configmaps/owner").status == 404)  # noqa: PLR2004


@case
def namespace_is_active_with_name_label(client: CaseClient) -> None:
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
def initial_namespace_exists(client: CaseClient, name: str) -> None:
    assert client.get(f"namespaces/{name}").ok()["status"]["phase"] == "Active"


@parametrized_case([("default", "default"), ("system", "kube-system"), ("public", "kube-public")])
def system_namespace_cannot_be_deleted(client: CaseClient, name: str) -> None:
    client.delete(f"namespaces/{name}").refused(
        403, "Forbidden", "this namespace may not be deleted"
    )


@case
def namespace_name_must_be_label(client: CaseClient) -> None:
    refusal = client.post("namespaces", {"metadata": {"name": "a.b"}}).refused(
        422, "Invalid", "must not contain dots"
    )
    assert refusal.causes == [("metadata.name", "FieldValueInvalid")]


@case
def terminating_namespace_refuses_creation(client: CaseClient) -> None:
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
def namespace_deletion_deletes_contents(client: CaseClient) -> None:
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
def namespace_receives_service_account(client: CaseClient) -> None:
    client.wait_for_service_account()
    client.until(lambda: client.get("configmaps/kube-root-ca.crt").status == 200)  # noqa: PLR2004
