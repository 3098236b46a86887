import pytest

from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

STORED = Resource("example.org", "v1", "shapes", "Shape")
OTHER = Resource("example.org", "v1alpha1", "shapes", "Shape")
STRICT = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}
    },
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def custom_resources(site):
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": STRICT}},
        {"name": "v1alpha1", "served": True, "storage": False, "schema": {"openAPIV3Schema": OPEN}},
    ]
    names = {"plural": "shapes", "kind": "Shape", "singular": "shape"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    site.create(CUSTOM_RESOURCE_DEFINITIONS, "shapes.example.org", spec=spec)
    return site


def test_fields_unknown_to_stored_version_are_dropped(custom_resources):
    made = custom_resources.create(OTHER, "a", spec={"colour": "red"}, more=1)
    assert (made["apiVersion"], made["spec"], "more" in made) == (
        "example.org/v1alpha1",
        {"size": 3},
        False,
    )
    assert custom_resources.get(STORED, "a")["spec"] == {"size": 3}
    assert custom_resources.patch(OTHER, "a", {"more": 2})["metadata"]["generation"] == 2
    assert "more" not in custom_resources.get(OTHER, "a")


def test_versions_share_objects(custom_resources):
    watch = custom_resources.watch(OTHER)
    custom_resources.create(STORED, "a", spec={"size": 1})
    custom_resources.patch(OTHER, "a", {"spec": {"size": 2}})
    custom_resources.delete(STORED, "a")
    events = [
        (event.type, event.object["apiVersion"], event.object["spec"]) for event in watch.new()
    ]
    assert events == [
        ("ADDED", "example.org/v1alpha1", {"size": 1}),
        ("MODIFIED", "example.org/v1alpha1", {"size": 2}),
        ("DELETED", "example.org/v1alpha1", {"size": 2}),
    ]
