import pytest

from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


@pytest.fixture
def terminating_namespace(world):
    world.create(NAMESPACES, "doomed")
    return "doomed"


def gone(world, name):
    return name not in world.names(NAMESPACES)


def test_namespace_and_contents_end_after_five_seconds(world, terminating_namespace):
    world.create(CONFIG_MAPS, "c", namespace=terminating_namespace)
    world.delete(NAMESPACES, terminating_namespace)
    assert world.get(NAMESPACES, terminating_namespace)["status"]["phase"] == "Terminating"
    world.advance(4)
    assert "c" in world.names(CONFIG_MAPS, terminating_namespace)
    world.advance(1)
    assert gone(world, terminating_namespace)
    assert (
        world.names(CONFIG_MAPS, terminating_namespace)
        == world.names(SERVICE_ACCOUNTS, terminating_namespace)
        == []
    )


def test_pods_are_deleted_first(world, terminating_namespace):
    world.pod_runner.takedown = 20.0
    world.create(
        PODS, "p", {"containers": [{"name": "c", "image": "app"}]}, namespace=terminating_namespace
    )
    world.create(CONFIG_MAPS, "c", namespace=terminating_namespace)
    world.delete(NAMESPACES, terminating_namespace)
    world.advance(24)
    assert "c" in world.names(CONFIG_MAPS, terminating_namespace)
    world.advance(30)
    assert gone(world, terminating_namespace)


def test_conditions_name_remaining_content(world, terminating_namespace):
    world.create(
        CONFIG_MAPS,
        "held",
        namespace=terminating_namespace,
        metadata={"finalizers": ["example.com/hold"]},
    )
    world.delete(NAMESPACES, terminating_namespace)
    world.advance(5)
    conditions = {
        row["type"]: (row["status"], row["message"])
        for row in world.status(NAMESPACES, terminating_namespace)["conditions"]
    }
    assert conditions == {
        "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            (
                "Some content in the namespace has finalizers remaining: example.com/hold in "
                "1 resource instances"
            ),
        ),
    }
    world.advance(60)
    assert not gone(world, terminating_namespace)
    world.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, terminating_namespace)
    world.advance(10)
    assert gone(world, terminating_namespace)


def test_custom_resources_are_deleted(world, terminating_namespace):
    define(world)
    world.create(WIDGETS, "w", {}, namespace=terminating_namespace)
    world.delete(NAMESPACES, terminating_namespace)
    world.advance(5)
    assert gone(world, terminating_namespace)
    assert world.names(WIDGETS, terminating_namespace) == []


def define(world):
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    world.create(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", spec)
    world.advance(1)
