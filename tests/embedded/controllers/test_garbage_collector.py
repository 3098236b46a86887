import pytest
from test_namespaces import WIDGETS, define

from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    SECRETS,
    Resource,
)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def family(world):
    """Create ConfigMaps that own each other."""

    def make(called, *owners, kind=CONFIG_MAP, **reference):
        references = [
            {
                **kind,
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                **reference,
            }
            for owner in owners
        ]
        return world.create(CONFIG_MAPS, called, metadata={"ownerReferences": references})

    return make


def names(world):
    return [name for name in world.names(CONFIG_MAPS) if name != "kube-root-ca.crt"]


def owners(world, name):
    return [
        reference["name"]
        for reference in world.get(CONFIG_MAPS, name)["metadata"].get("ownerReferences", [])
    ]


def test_dependents_are_deleted_with_owner(world, family):
    grandfather = family("grandfather")
    family("child", family("father", grandfather))
    family("other")
    world.delete(CONFIG_MAPS, "grandfather")
    assert names(world) == ["other"]


def test_one_remaining_owner_keeps_dependent(world, family):
    family("child", family("one"), family("two"))
    world.delete(CONFIG_MAPS, "one")
    assert owners(world, "child") == ["two"]
    world.delete(CONFIG_MAPS, "two")
    assert names(world) == []


def test_orphans_lose_owner_reference(world, family):
    family("child", family("father"))
    world.delete(CONFIG_MAPS, "father", propagation="Orphan")
    assert names(world) == ["child"]
    assert owners(world, "child") == []


def test_foreground_deletion_removes_owner_last(world, family):
    father = family("father")
    held = family("held", father, blockOwnerDeletion=True)
    world.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.delete(CONFIG_MAPS, "father", propagation="Foreground")
    assert names(world) == ["father", "held"]
    assert world.get(CONFIG_MAPS, "father")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert world.get(CONFIG_MAPS, "held")["metadata"]["uid"] == held["metadata"]["uid"]
    world.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})
    world.advance(1)
    assert names(world) == []


def test_foreground_deletion_ignores_non_blocking_dependents(world, family):
    family("held", family("father"))
    world.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.delete(CONFIG_MAPS, "father", propagation="Foreground")
    assert names(world) == ["held"]


def test_foreground_deletion_of_tree(world, family):
    grandfather = family("grandfather")
    father = family("father", grandfather, blockOwnerDeletion=True)
    family("child", father, blockOwnerDeletion=True)
    world.delete(CONFIG_MAPS, "grandfather", propagation="Foreground")
    world.advance(1)
    assert names(world) == []


def test_owner_cycle_is_deleted(world, family):
    one = family("one")
    two = family("two", one, blockOwnerDeletion=True)
    reference = {
        **CONFIG_MAP,
        "name": "two",
        "uid": two["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    world.patch(CONFIG_MAPS, "one", {"metadata": {"ownerReferences": [reference]}})
    world.delete(CONFIG_MAPS, "one", propagation="Foreground")
    world.advance(5)
    assert names(world) == []


@pytest.mark.parametrize("wrong", [{"uid": "another"}, {"name": "nobody"}], ids=["uid", "name"])
def test_nonexistent_owner_counts_as_missing(world, family, wrong):
    family("child", family("father"), **wrong)
    world.advance(1)
    assert names(world) == ["father"]


def test_owner_in_other_namespace_counts_as_missing(world):
    world.create(NAMESPACES, "far")
    owner = world.create(CONFIG_MAPS, "father", namespace="far")
    reference = {**CONFIG_MAP, "name": "father", "uid": owner["metadata"]["uid"]}
    world.create(SECRETS, "child", metadata={"ownerReferences": [reference]})
    world.advance(1)
    assert world.names(SECRETS) == []
    named = f"[v1/ConfigMap, namespace: default, name: father, uid: {owner['metadata']['uid']}]"
    assert world.events("child") == [f'ownerRef {named} does not exist in namespace "default"']


def test_cluster_scoped_object_ignores_namespaced_owner(world):
    owner = world.create(CONFIG_MAPS, "father")
    reference = {**CONFIG_MAP, "name": "father", "uid": owner["metadata"]["uid"]}
    world.create(NODES, "child", {}, metadata={"ownerReferences": [reference]})
    world.delete(CONFIG_MAPS, "father")
    world.advance(5)
    assert world.names(NODES) == ["child"]


def test_cluster_scoped_owner(world):
    node = world.create(NODES, "father", {})
    reference = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "father",
        "uid": node["metadata"]["uid"],
    }
    world.create(CONFIG_MAPS, "child", metadata={"ownerReferences": [reference]})
    world.advance(1)
    assert names(world) == ["child"]
    world.delete(NODES, "father")
    assert names(world) == []


def test_later_defined_kinds_are_collected(world, family):
    define(world)
    owner = world.create(WIDGETS, "owner", {})
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    family("child", owner, kind=kind)
    world.advance(1)
    assert names(world) == ["child"]
    world.delete(WIDGETS, "owner")
    assert names(world) == []
    family("other", world.create(WIDGETS, "owner", {}), kind=kind)
    world.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    world.advance(5)
    assert names(world) == []


def test_owner_of_unknown_kind_keeps_dependent(world, family):
    ghost = {"metadata": {"name": "ghost", "uid": "ghost"}}
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    family("child", ghost, kind=kind)
    world.advance(600)
    assert names(world) == ["child"]
    define(world)
    assert names(world) == []


def test_recreated_owner_is_another_owner(world, family):
    family("child", family("father"))
    held = Resource("", "v1", "configmaps", "ConfigMap")
    world.ask(world.api.delete(held, "father", "default"))
    world.ask(world.api.create(held, {"metadata": {"name": "father"}}, "default"))
    world.advance(1)
    assert names(world) == ["father"]
