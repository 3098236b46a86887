import pytest

from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds
from pytest_kscen.embedded.apiserver.openapi import openapi_v2, openapi_v3, openapi_v3_index
from pytest_kscen.objects.resources import Resource

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
WIDGET = Resource("example.com", "v1", "widgets", "Widget")
STRUCTURE = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}


@pytest.fixture
def kinds():
    return Kinds(builtin_kinds())


def all_documents(part):
    yield part
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from all_documents(inner)


def references(document):
    return {
        part["$ref"]
        for part in all_documents(document)
        if isinstance(part, dict) and isinstance(part.get("$ref"), str)
    }


def test_index_links_every_document(kinds):
    paths = openapi_v3_index(kinds)["paths"]
    assert list(paths)[:2] == ["api/v1", "apis/apiregistration.k8s.io/v1"]
    for path, entry in paths.items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        assert openapi_v3(kinds, path)["openapi"] == "3.0.0"
    assert openapi_v3(kinds, "apis/example.com/v1") is None


def test_document_is_complete_and_has_no_recording_marks(kinds):
    for path in openapi_v3_index(kinds)["paths"]:
        document = openapi_v3(kinds, path)
        held = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= held
        assert not [
            key
            for part in all_documents(document)
            if isinstance(part, dict)
            for key in part
            if key.startswith("x-go-")
        ]


def test_kubectl_extensions_are_present(kinds):
    document = openapi_v3(kinds, "apis/apps/v1")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == DEPLOYMENT
    assert patch["operationId"] == "patchAppsV1NamespacedDeployment"
    assert {"dryRun", "fieldValidation"} <= {given["name"] for given in patch["parameters"]}
    types = document["components"]["schemas"]
    assert types["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"] == [DEPLOYMENT]
    ports = types["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert (ports["x-kubernetes-patch-merge-key"], ports["x-kubernetes-patch-strategy"]) == (
        "containerPort",
        "merge",
    )


def test_custom_kind_document_url_has_schema_hash(kinds):
    kinds.add(Kind(WIDGET, custom=True, structure=STRUCTURE))
    types = openapi_v3(kinds, "apis/example.com/v1")["components"]["schemas"]
    widget = types["com.example.v1.Widget"]
    assert widget["properties"]["spec"] == STRUCTURE["properties"]["spec"]
    assert widget["properties"]["metadata"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]
    }
    assert types["com.example.v1.WidgetList"]["properties"]["items"]["items"] == {
        "$ref": "#/components/schemas/com.example.v1.Widget"
    }
    before = openapi_v3_index(kinds)["paths"]["apis/example.com/v1"]
    kinds.add(Kind(WIDGET, custom=True, structure={"type": "object"}))
    assert openapi_v3_index(kinds)["paths"]["apis/example.com/v1"] != before


def test_v2_refers_to_definitions_only(kinds):
    kinds.add(Kind(WIDGET, custom=True, structure=STRUCTURE))
    document = openapi_v2(kinds)
    assert references(document) <= {f"#/definitions/{name}" for name in document["definitions"]}
    assert {"com.example.v1.Widget", "io.k8s.api.core.v1.Pod"} <= {*document["definitions"]}
    assert (
        document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]["operationId"]
        == "patchCoreV1NamespacedPod"
    )
