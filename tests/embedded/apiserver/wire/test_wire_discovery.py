import json

from pytest_kscen.embedded.apiserver.kinds import Kind, Subresource
from pytest_kscen.objects.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SCALE = Subresource(("get", "patch", "update"), "Scale", "autoscaling/v1")


def widget(version):
    return Kind(
        Resource("example.com", version, "widgets", "Widget"),
        singular="widget",
        short_names=("w",),
        categories=("all",),
        verbs=("get", "list"),
        subresources={"scale": SCALE},
        custom=True,
    )


def test_groups_are_discovered(client):
    assert client.ask("GET", "/api")[1]["versions"] == ["v1"]
    groups = client.ask("GET", "/apis")[1]["groups"]
    assert [group["name"] for group in groups][:3] == [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
    ]
    scaling = client.ask("GET", "/apis/autoscaling")[1]
    assert [version["version"] for version in scaling["versions"]] == ["v2", "v1"]
    assert scaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}


def test_resources_of_version_are_discovered(client):
    core = client.ask("GET", "/api/v1")[1]
    assert (core["kind"], core["groupVersion"]) == ("APIResourceList", "v1")
    rows = {row["name"]: row for row in core["resources"]}
    assert rows["configmaps"] == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["cm"],
    }
    assert rows["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }


def test_aggregated_discovery_is_cached_by_etag(client):
    answer = client.raw("GET", "/apis", accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    tag = answer.headers["ETag"]
    again = client.raw("GET", "/apis", accept=AGGREGATED, if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    client.server.core.kinds.add(widget("v1"))
    assert client.raw("GET", "/apis", accept=AGGREGATED, if_none_match=tag).status == 200


def test_custom_versions_are_ordered_newest_first(client):
    for version in ("v1beta1", "v2", "v1alpha1", "v1", "v10", "odd"):
        client.server.core.kinds.add(widget(version))
    group = client.ask("GET", "/apis/example.com")[1]
    assert [version["version"] for version in group["versions"]] == [
        "v10",
        "v2",
        "v1",
        "v1beta1",
        "v1alpha1",
        "odd",
    ]
    last = client.ask("GET", "/apis", accept=AGGREGATED)[1]["items"][-1]
    assert last["metadata"] == {"name": "example.com"}
    assert last["versions"][0]["resources"] == [
        {
            "resource": "widgets",
            "responseKind": {"group": "example.com", "version": "v10", "kind": "Widget"},
            "scope": "Namespaced",
            "singularResource": "widget",
            "verbs": ["get", "list"],
            "shortNames": ["w"],
            "categories": ["all"],
            "subresources": [
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": ["get", "patch", "update"],
                }
            ],
        }
    ]


def test_version_is_recorded_one_with_mark(client):
    version = client.ask("GET", "/version")[1]
    assert (version["major"], version["minor"], version["gitVersion"]) == (
        "1",
        "36",
        "v1.36.4+kscen",
    )


def test_health(client):
    assert client.raw("GET", "/readyz").body == b"ok"
    assert client.raw("GET", "/livez/ping").body == b"ok"
    verbose = client.raw("GET", "/healthz?verbose&exclude=etcd").body.decode().splitlines()
    assert verbose == ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok", "healthz check passed"]


def test_root_path_lists_groups(client):
    paths = client.ask("GET", "/")[1]["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/healthz", "/version"} <= set(paths)


def test_openapi_documents_are_indexed_by_hash(client):
    index = client.ask("GET", "/openapi/v3")[1]["paths"]
    url = index["apis/apps/v1"]["serverRelativeURL"]
    kept = client.raw("GET", url)
    assert kept.headers["Cache-Control"] == "public, immutable"
    assert "io.k8s.api.apps.v1.Deployment" in json.loads(kept.body)["components"]["schemas"]
    assert client.raw("GET", url, if_none_match=kept.headers["ETag"]).status == 304
    stale = client.raw("GET", "/openapi/v3/apis/apps/v1?hash=OLD")
    assert (stale.status, stale.headers) == (301, {"Location": url})
    client.server.core.kinds.add(widget("v1"))
    assert client.ask("GET", "/openapi/v3")[1]["paths"]["apis/apps/v1"]["serverRelativeURL"] == url
    assert client.raw("GET", "/openapi/v3/apis/nope/v1").status == 404
    protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    assert client.raw("GET", "/openapi/v3/api/v1", accept=protobuf).status == 406
    assert client.ask("GET", "/openapi/v2")[1]["swagger"] == "2.0"
    older = client.raw(
        "GET", "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    )
    assert (
        older.headers["Content-Type"]
        == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    )
    assert older.body.startswith(b"\n\x032.0\x12")
    assert b"\n\x16io.k8s.api.core.v1.Pod" in older.body
    assert client.raw("GET", "/openapi/v4").body == b"404 page not found\n"
