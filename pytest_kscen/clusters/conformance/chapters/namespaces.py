"""Namespaces: what they are born with, what they end with, and what cannot be made in one that is ending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clusters.conformance.case import case, case_of

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.visitor import Visitor


@case
def it_is_active_and_names_itself(visitor: Visitor) -> None:
    found = visitor.get(f"namespaces/{visitor.namespace}").ok()
    assert found["status"]["phase"] == "Active"
    assert found["spec"]["finalizers"] == ["kubernetes"]
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": visitor.namespace}


@case_of([("default", "default"), ("system", "kube-system"), ("public", "kube-public"), ("leases", "kube-node-lease")])
def a_cluster_is_born_with(visitor: Visitor, name: str) -> None:
    assert visitor.get(f"namespaces/{name}").ok()["status"]["phase"] == "Active"


@case_of([("default", "default"), ("system", "kube-system"), ("public", "kube-public")])
def some_cannot_be_deleted(visitor: Visitor, name: str) -> None:
    visitor.delete(f"namespaces/{name}").refused(403, "Forbidden", "this namespace may not be deleted")


@case
def its_name_is_a_label(visitor: Visitor) -> None:
    refusal = visitor.post("namespaces", {"metadata": {"name": "a.b"}}).refused(422, "Invalid", "must not contain dots")
    assert refusal.causes == [("metadata.name", "FieldValueInvalid")]


@case
def while_it_ends_nothing_new_is_made(visitor: Visitor) -> None:
    name = f"{visitor.namespace}-e"
    inside = f"/api/v1/namespaces/{name}/configmaps"
    visitor.post("namespaces", {"metadata": {"name": name}}).ok(201)
    visitor.post(inside, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}).ok(201)
    ending = visitor.delete(f"namespaces/{name}").ok()
    assert ending["status"]["phase"] == "Terminating"
    refusal = visitor.post(inside, {"metadata": {"name": "c"}})
    refusal.refused(403, "Forbidden", f"unable to create new content in namespace {name} because it is being terminated")
    assert refusal.causes == [("metadata.namespace", "NamespaceTerminating")]
    visitor.until(lambda: visitor.get(f"{inside}/held").ok()["metadata"].get("deletionTimestamp"))
    visitor.patch(f"{inside}/held", {"metadata": {"finalizers": None}}).ok()
    visitor.until(lambda: visitor.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004


@case
def it_takes_along_what_is_in_it(visitor: Visitor) -> None:
    name = f"{visitor.namespace}-t"
    visitor.post("namespaces", {"metadata": {"name": name}}).ok(201)
    visitor.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "c"}}).ok(201)
    visitor.post(f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases", {"metadata": {"name": "l"}}).ok(201)
    visitor.delete(f"namespaces/{name}").ok()
    visitor.until(lambda: visitor.get(f"namespaces/{name}").status == 404)  # noqa: PLR2004
    visitor.get(f"/api/v1/namespaces/{name}/configmaps/c").refused(404, "NotFound")


@case
def it_has_a_service_account_soon(visitor: Visitor) -> None:
    visitor.settle()
    visitor.until(lambda: visitor.get("configmaps/kube-root-ca.crt").status == 200)  # noqa: PLR2004
