"""Content types: JSON, YAML, tables, partial metadata, discovery; and refusals of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import case, parametrized_case

if TYPE_CHECKING:
    from pytest_kscen.clusters.conformance.case import CaseClient, CaseResponse

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def get_as(client: CaseClient, path: str, accept: str) -> CaseResponse:
    return client.call("GET", path, headers={"Accept": accept})


@case
def yaml_body_is_decoded(client: CaseClient) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    made = client.call("POST", "configmaps", body, type="application/yaml").ok(201)
    assert made["data"] == {"a": "1"}


@case
def yaml_response_is_encoded(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}}).ok(201)
    answer = get_as(client, "configmaps/c", "application/yaml")
    assert answer.headers["content-type"].startswith("application/yaml")
    assert 'data:\n  a: "1"\n' in answer.body


@parametrized_case([("tabs", b"a:\n\t- b"), ("open quote", b"a: 'b")])
def malformed_yaml_is_bad_request(client: CaseClient, body: bytes) -> None:
    answer = client.call("POST", "configmaps", body, type="application/yaml")
    assert answer.status == 400  # noqa: PLR2004


@case
def unknown_content_type_is_unsupported_media_type(client: CaseClient) -> None:
    answer = client.call("POST", "configmaps", b"<a/>", type="text/xml")
    answer.refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")


@case
def unknown_accept_type_is_not_acceptable(client: CaseClient) -> None:
    answer = get_as(client, "configmaps", "text/xml")
    assert answer.status == 406  # noqa: PLR2004
    assert "application/json, application/yaml" in str(answer.body)


@parametrized_case(
    [
        ("first of two", "text/xml, application/json"),
        ("anything", "*/*"),
        ("any application", "application/*"),
        ("quality", "application/json;q=0.9, */*;q=0.1"),
    ]
)
def json_is_negotiated_from_accept_header(client: CaseClient, accept: str) -> None:
    assert (
        get_as(client, "configmaps", accept).headers["content-type"].startswith("application/json")
    )


@case
def table_has_columns_and_rows(client: CaseClient) -> None:
    client.post(
        "configmaps",
        {"metadata": {"name": "c", "labels": {"only": "this"}}, "data": {"a": "1", "b": "2"}},
    ).ok(201)
    table = client.call("GET", "configmaps", headers={"Accept": TABLE}, labelSelector="only").ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["c", 2]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "c"
    assert "data" not in row["object"]


@parametrized_case(
    [
        ("pods", "pods", "Name Ready Status Restarts Age IP Node Nominated_Node Readiness_Gates"),
        (
            "nodes",
            "nodes",
            (
                "Name Status Roles Age Version Internal-IP External-IP OS-Image "
                "Kernel-Version Container-Runtime"
            ),
        ),
        (
            "deployments",
            "deployments",
            "Name Ready Up-to-date Available Age Containers Images Selector",
        ),
        ("replicasets", "replicasets", "Name Desired Current Ready Age Containers Images Selector"),
        ("statefulsets", "statefulsets", "Name Ready Age Containers Images"),
        (
            "daemonsets",
            "daemonsets",
            (
                "Name Desired Current Ready Up-to-date Available Node_Selector Age "
                "Containers Images Selector"
            ),
        ),
        ("jobs", "jobs", "Name Status Completions Duration Age Containers Images Selector"),
        (
            "cronjobs",
            "cronjobs",
            "Name Schedule Timezone Suspend Active Last_Schedule Age Containers Images Selector",
        ),
        ("services", "services", "Name Type Cluster-IP External-IP Port(s) Age Selector"),
        ("namespaces", "namespaces", "Name Status Age"),
        ("secrets", "secrets", "Name Type Data Age"),
        (
            "events",
            "events",
            "Last_Seen Type Reason Object Subobject Source Message First_Seen Count Name",
        ),
        (
            "volumes",
            "persistentvolumes",
            (
                "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass "
                "VolumeAttributesClass Reason Age VolumeMode"
            ),
        ),
        (
            "claims",
            "persistentvolumeclaims",
            (
                "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass "
                "Age VolumeMode"
            ),
        ),
        ("leases", "leases", "Name Holder Age"),
        (
            "budgets",
            "poddisruptionbudgets",
            "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
        ),
        (
            "classes",
            "storageclasses",
            "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
        ),
        ("endpointslices", "endpointslices", "Name AddressType Ports Endpoints Age"),
        ("ingresses", "ingresses", "Name Class Hosts Address Ports Age"),
        ("priorities", "priorityclasses", "Name Value Global-Default Age PreemptionPolicy"),
        ("definitions", "customresourcedefinitions", "Name Created_At"),
    ]
)
def table_has_kubectl_columns(client: CaseClient, plural: str, columns: str) -> None:
    table = get_as(client, plural, TABLE).ok()
    assert (
        " ".join(column["name"].replace(" ", "_") for column in table["columnDefinitions"])
        == columns
    )


@case
def partial_metadata_is_served(client: CaseClient) -> None:
    client.post("configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}}).ok(201)
    one = get_as(client, "configmaps/c", PARTIAL).ok()
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
        "c",
    )
    assert "data" not in one
    many = get_as(client, "configmaps", PARTIAL_LIST).ok()
    assert many["kind"] == "PartialObjectMetadataList"
    assert all(set(item) <= {"kind", "apiVersion", "metadata"} for item in many["items"])


@case
def oversized_body_is_refused(client: CaseClient) -> None:
    answer = client.call(
        "POST", "configmaps", b'{"metadata":{"name":"c"},"data":{"a":"' + b"x" * 3_200_000 + b'"}}'
    )
    answer.refused(413, "RequestEntityTooLarge", "limit is 3145728")


@parametrized_case([("twice", b'{"metadata":{"name":"c"},"data":{"a":"1","a":"2"}}')])
def duplicate_field_is_reported(client: CaseClient, body: bytes) -> None:
    client.call("POST", "configmaps", body, fieldValidation="Strict").refused(
        400, "BadRequest", 'duplicate field "data.a"'
    )
    answer = client.call("POST", "configmaps", body)
    assert answer.ok(201)["data"] == {"a": "2"}
    assert "duplicate field" in answer.headers["warning"]


@parametrized_case(
    [
        ("unknown group", "/apis/nowhere.example/v1/things", 404),
        ("unknown kind", "/api/v1/things", 404),
        ("unknown version", "/apis/apps/v9/deployments", 404),
        ("root", "/nowhere", 404),
        ("method", "/api/v1/namespaces/default/configmaps", 405),
    ]
)
def unserved_path_is_refused(client: CaseClient, path: str, status: int) -> None:
    answer = client.call("PUT", path, {}) if status == 405 else client.get(path)  # noqa: PLR2004
    assert answer.status == status, answer.body


def group_names(client: CaseClient, path: str) -> list[Any]:
    return [group["name"] for group in client.get(path).ok()["groups"]]


@parametrized_case(
    [
        (group, group)
        for group in (
            "apps",
            "batch",
            "policy",
            "storage.k8s.io",
            "networking.k8s.io",
            "rbac.authorization.k8s.io",
            "events.k8s.io",
        )
    ]
)
def discovery_lists_groups(client: CaseClient, group: str) -> None:
    assert group in group_names(client, "/apis")
    found = client.get(f"/apis/{group}").ok()
    assert (found["kind"], found["name"]) == ("APIGroup", group)
    assert found["preferredVersion"]["version"] == "v1"


@parametrized_case(
    [
        ("pods", "/api/v1", "pods", ("Pod", True, "po")),
        ("nodes", "/api/v1", "nodes", ("Node", False, "no")),
        ("deployments", "/apis/apps/v1", "deployments", ("Deployment", True, "deploy")),
        ("jobs", "/apis/batch/v1", "cronjobs", ("CronJob", True, "cj")),
    ]
)
def discovery_lists_resources(
    client: CaseClient, path: str, plural: str, expected: tuple[str, bool, str]
) -> None:
    listed = client.get(path).ok()
    assert listed["kind"] == "APIResourceList"
    (found,) = [one for one in listed["resources"] if one["name"] == plural]
    assert (found["kind"], found["namespaced"], found["shortNames"][0]) == expected
    assert {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    } == set(found["verbs"])
    assert f"{plural}/status" in {one["name"] for one in listed["resources"]}


@case
def version_endpoint_reports_kubernetes_version(client: CaseClient) -> None:
    version = client.get("/version").ok()
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


@parametrized_case([("health", "/healthz"), ("life", "/livez"), ("readiness", "/readyz")])
def health_endpoints_return_ok(client: CaseClient, path: str) -> None:
    client.until(lambda: client.get(path).status == 200)  # noqa: PLR2004
    assert client.get(path).body == "ok"


@case
def aggregated_discovery_lists_everything(client: CaseClient) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    listed = get_as(client, "/apis", accept).ok()
    assert listed["kind"] == "APIGroupDiscoveryList"
    apps = next(item for item in listed["items"] if item["metadata"]["name"] == "apps")
    (version,) = apps["versions"]
    deployments = next(one for one in version["resources"] if one["resource"] == "deployments")
    assert deployments["responseKind"]["kind"] == "Deployment"
    assert deployments["scope"] == "Namespaced"
    assert {one["subresource"] for one in deployments["subresources"]} == {"scale", "status"}


@case
def openapi_v3_schemas_are_published(client: CaseClient) -> None:
    paths = client.get("/openapi/v3").ok()["paths"]
    document = client.get(paths["apis/apps/v1"]["serverRelativeURL"].partition("?")[0]).ok()
    deployment = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    kind = {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert kind in deployment["x-kubernetes-group-version-kind"]
    assert "spec" in deployment["properties"]
