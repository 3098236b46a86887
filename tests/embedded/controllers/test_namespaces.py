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
def doomed(world):
    world.create(NAMESPACES, "doomed")
    return "doomed"


def gone(world, name):
    return name not in world.names(NAMESPACES)


def test_it_ends_five_seconds_after_its_deletion_with_all_that_is_in_it(world, doomed):
    world.create(CONFIG_MAPS, "c", namespace=doomed)
    world.delete(NAMESPACES, doomed)
    assert world.get(NAMESPACES, doomed)["status"]["phase"] == "Terminating"
    world.advance(4)
    assert "c" in world.names(CONFIG_MAPS, doomed)
    world.advance(1)
    assert gone(world, doomed)
    assert world.names(CONFIG_MAPS, doomed) == world.names(SERVICE_ACCOUNTS, doomed) == []


def test_pods_go_before_everything_else(world, doomed):
    world.hands.takedown = 20.0
    world.create(PODS, "p", {"containers": [{"name": "c", "image": "app"}]}, namespace=doomed)
    world.create(CONFIG_MAPS, "c", namespace=doomed)
    world.delete(NAMESPACES, doomed)
    world.advance(24)
    assert "c" in world.names(CONFIG_MAPS, doomed)
    world.advance(30)
    assert gone(world, doomed)


def test_what_holds_it_is_told_in_its_conditions(world, doomed):
    world.create(
        CONFIG_MAPS, "held", namespace=doomed, metadata={"finalizers": ["example.com/hold"]}
    )
    world.delete(NAMESPACES, doomed)
    world.advance(5)
    conditions = {
        row["type"]: (row["status"], row["message"])
        for row in world.status(NAMESPACES, doomed)["conditions"]
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
    assert not gone(world, doomed)
    world.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, doomed)
    world.advance(10)
    assert gone(world, doomed)


def test_custom_resources_go_too(world, doomed):
    define(world)
    world.create(WIDGETS, "w", {}, namespace=doomed)
    world.delete(NAMESPACES, doomed)
    world.advance(5)
    assert gone(world, doomed)
    assert world.names(WIDGETS, doomed) == []


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
