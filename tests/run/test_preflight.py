"""Preflight checks: all problems are reported with a remedy before any change."""

from __future__ import annotations

import contextlib

import pytest
from published import published

from pytest_kscen.chaos.profiles import NetworkBlock, PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import ParentCluster, RunContext
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.resources import (
    CILIUM_NETWORK_POLICIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
)
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    NODE_LABEL,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_VOLUMES,
)
from pytest_kscen.objects.storage import NAMESPACE as STORAGE_NAMESPACE
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import STORAGE, PreflightRefused, preflight

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CUT = Plan(chaos=(NetworkBlock(),))


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster(nodes=2)
    yield cluster
    cluster.close()


@pytest.fixture
def do(cluster):
    return cluster.runner.call


def definition(resource, status=OPEN):
    names = {"plural": resource.plural, "kind": resource.kind}
    schema = {"type": "object", "properties": {"spec": OPEN, "status": status}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {
        "metadata": {"name": resource.qualified},
        "spec": {"group": resource.group, "scope": scope, "names": names, "versions": [version]},
    }


async def serve(api, resources, **statuses):
    for resource in resources:
        await api.create(
            CUSTOM_RESOURCE_DEFINITIONS, definition(resource, statuses.get(resource.plural, OPEN))
        )


async def bring_storage(api, **statuses):
    await serve(api, STORAGE, **statuses)
    for name in ("a", "b"):
        await api.create(REPLICATED_STORAGE_CLASSES, {"metadata": {"name": name}})
    for node in (await api.list(NODES)).items:
        await api.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": {NODE_LABEL: ""}}})


async def bring_machines(api, *names):
    await serve(api, [VIRTUAL_MACHINES, CILIUM_NETWORK_POLICIES])
    for name in names:
        await api.create(VIRTUAL_MACHINES, {"metadata": {"name": name}}, "default")


def complaints(cluster, plan, *, parent=True):
    """Return the lines of the refusal, or an empty list."""
    over = ParentCluster(cluster.api, "default", owned=True) if parent else None
    with contextlib.closing(Journal(cluster.runner.clock)) as journal:
        context = RunContext(
            cluster.api, cluster.runner.clock, cluster.chance, journal, "run", parent=over
        )
        try:
            cluster.runner.call(preflight(context, plan))
        except PreflightRefused as refusal:
            return str(refusal).splitlines()
    return []


def test_empty_plan_needs_nothing(cluster):
    assert complaints(cluster, Plan(), parent=False) == []


def test_sufficient_cluster_is_accepted(cluster, do):
    do(bring_storage(cluster.api()))
    do(bring_machines(cluster.api(), "node-1", "node-2"))
    assert complaints(cluster, Plan(Churn(storage_classes=("a", "b")), CUT.chaos)) == []


def test_all_problems_are_reported_at_once(cluster):
    message = complaints(cluster, Plan(Churn(), CUT.chaos))
    assert [line.partition(":")[0] for line in message] == [
        *(f"the tested cluster has no {resource.qualified}" for resource in STORAGE),
        f"no node has the storage's label {NODE_LABEL}",
        "the parent cluster has no ciliumnetworkpolicies.cilium.io",
        "the parent cluster has no virtualmachines.virtualization.deckhouse.io",
    ]


def test_unknown_classes_are_reported_with_existing_ones(cluster, do):
    do(bring_storage(cluster.api()))
    assert complaints(cluster, Plan(Churn(storage_classes=("a", "c", "d")))) == [
        (
            "there are no storage classes c, d; existing ones: a, b: choose from them with "
            "--storage-classes or the marker"
        )
    ]


@pytest.mark.parametrize(
    ("published", "health", "fitting"),
    [
        ("conditions", "effectiveLayout", "conditions"),
        ("conditions", "ready", "conditions"),
        ("effectiveLayout", "conditions", "effectiveLayout or ready"),
        ("conditions", "conditions", None),
        ("effectiveLayout", "effectiveLayout", None),
        ("effectiveLayout", "ready", None),
    ],
)
def test_storage_of_another_generation(cluster, do, published, health, fitting):
    status = {"type": "object", "properties": {published: OPEN}}
    do(bring_storage(cluster.api(), replicatedvolumes=status))
    message = complaints(cluster, Plan(Churn(storage_classes=("a",)), health=health))
    why = (
        f"the storage there does not publish its volumes' health as {health!r}: give "
        f"--kscen-volume-health {fitting}"
    )
    assert message == ([why] if fitting else [])


@pytest.mark.parametrize(
    ("folder", "health"),
    [("storage-conditions", "conditions"), ("storage-effective-layout", "effectiveLayout")],
)
def test_published_definitions_identify_their_generation(cluster, do, folder, health):
    (volumes,) = published(f"{folder}/replicatedvolumes.yaml")
    status = volumes["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    do(bring_storage(cluster.api(), replicatedvolumes=status))
    fits = {
        name: complaints(cluster, Plan(Churn(storage_classes=("a",)), health=name)) == []
        for name in HEALTH_SOURCES
    }
    assert fits == {
        name: (name == "conditions") is (health == "conditions") for name in HEALTH_SOURCES
    }


def test_chaos_on_machines_without_a_parent(cluster):
    assert complaints(cluster, CUT, parent=False) == [
        "network-block: there is no parent cluster: give --parent-kubeconfig and --vm-namespace"
    ]


def test_too_few_machines(cluster, do):
    do(bring_machines(cluster.api(), "node-1"))
    where = "there are 1 (node-1) in the namespace default of the parent cluster"
    assert complaints(cluster, CUT) == [
        f"network-block needs 2 virtual machines: {where}: see --vm-namespace"
    ]


def test_group_leaving_no_other_node_is_refused(cluster, do):
    do(bring_machines(cluster.api(), "node-1", "node-2"))
    assert complaints(cluster, Plan(chaos=(NetworkBlock(group_size=1),))) == []
    left = "network-block: a group of 2 leaves no machine on the other side"
    where = "there are 2 (node-1, node-2) in the namespace default of the parent cluster"
    how = "give --chaos-partition-group-size (or group_size) 1 at most, or 0 for half"
    assert complaints(cluster, Plan(chaos=(NetworkBlock(group_size=2),))) == [
        f"{left}: {where}: {how}"
    ]
    without_groups = NetworkBlock(group_size=2, variants=("blocking-everything", "blocking-drbd"))
    assert complaints(cluster, Plan(chaos=(without_groups,))) == []


def test_nodes_without_machines_are_refused(cluster, do):
    do(bring_storage(cluster.api()))
    do(bring_machines(cluster.api(), "node-1", "worker-7"))
    assert complaints(cluster, CUT) == [
        (
            "no virtual machine in default is named as node-2: are the tested cluster's "
            "nodes the virtual machines of --vm-namespace?"
        )
    ]


def test_classes_needing_more_nodes_are_refused(cluster, do):
    do(bring_storage(cluster.api()))
    for name, spec in (
        ("twice", {"replication": "Availability"}),
        ("thrice", {"replication": "ConsistencyAndAvailability"}),
        ("figures", {"failuresToTolerate": 2, "guaranteedMinimumDataRedundancy": 1}),
    ):
        do(
            cluster.api().create(
                REPLICATED_STORAGE_CLASSES, {"metadata": {"name": name}, "spec": spec}
            )
        )
    assert complaints(cluster, Plan(Churn(storage_classes=("a", "twice")))) == []
    assert complaints(cluster, Plan(Churn(storage_classes=("figures", "twice", "thrice")))) == [
        f"the storage class {name} has its volumes' data on {count} nodes, and the "
        "storage has 2 (node-1, node-2): "
        "give the cluster more, or choose other classes with --storage-classes or the marker"
        for name, count in (("figures", 4), ("thrice", 3))
    ]


def test_missing_pods_are_reported(cluster, do):
    here, nobody = (
        Plan(chaos=(PodDestroy("app=a"), PodDestroy("app in (b, c)"))),
        Plan(chaos=(PodDestroy(namespace="nope"),)),
    )
    where = "in the namespace 'd8-sds-replicated-volume'"
    assert complaints(cluster, Plan(Churn(storage_classes=("a",), pod_destroyer=True)))[-2:] == [
        (
            f"pod-destroy: no pod matches app={app} {where}: "
            "the namespace has no pods; namespaces with pods: none"
        )
        for app in ("agent", "controller")
    ]
    do(cluster.api().create(NAMESPACES, {"metadata": {"name": STORAGE_NAMESPACE}}))
    pod = {
        "metadata": {"name": "one", "labels": {"app": "a", "pod-template-hash": "5"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    do(cluster.api().create(PODS, pod, STORAGE_NAMESPACE))
    assert complaints(cluster, here, parent=False) == [
        f"pod-destroy: no pod matches app in (b, c) {where}: the pods there have app=a"
    ]
    assert complaints(cluster, nobody, parent=False) == [
        f"pod-destroy: no pod matches app={app} in the namespace 'nope': "
        "the namespace has no pods; namespaces with pods: d8-sds-replicated-volume"
        for app in ("agent", "controller")
    ]


def test_preflight_only_reads(cluster, do):
    do(bring_storage(cluster.api()))
    before = cluster.server.core.store.revision
    complaints(cluster, Plan(Churn(storage_classes=("c",)), CUT.chaos))
    assert cluster.server.core.store.revision == before
    assert do(cluster.api().list(REPLICATED_VOLUMES)).items == []
