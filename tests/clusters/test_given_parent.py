"""Real clusters and their real parents, played by the ports of two embedded ones."""

from __future__ import annotations

import contextlib
import json
import logging

import pytest
import yaml

from pytest_kscen.chaos.clients import ClusterClients
from pytest_kscen.chaos.profiles import NetworkBlock
from pytest_kscen.clusters import open_cluster
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.models.virtualization.objects import virtual_machine
from pytest_kscen.objects.resources import NAMESPACES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.preflight import PreflightRefused, preflight


@pytest.fixture(scope="module")
def world():
    with contextlib.closing(EmbeddedCluster("given", nodes=2)) as cluster:
        api, call = cluster.parent().api_for("test"), cluster.runner.call
        for name in ("others", "strangers"):
            call(api.create(NAMESPACES, {"metadata": {"name": name}}))
            call(api.create(VIRTUAL_MACHINES, virtual_machine("bastion", name)))
        call(api.create(VIRTUAL_MACHINES, virtual_machine("node-1", "others")))
        assert cluster.kubeconfig
        assert cluster._host.kubeconfig
        yield cluster


@pytest.fixture
def cluster(world):
    with contextlib.closing(
        open_cluster("kubeconfig", seed="1", kubeconfig=world.kubeconfig)
    ) as cluster:
        yield cluster


def refusal(cluster, **named):
    with pytest.raises(ClusterRefused) as refused:
        cluster.parent(**named)
    return str(refused.value)


def test_it_is_the_cluster_that_was_named(world, cluster):
    parent = cluster.parent(kubeconfig=world._host.kubeconfig, namespace="vms")
    assert (parent.namespace, parent.owned) == ("vms", False)
    listing = cluster.runner.call(parent.api_for("test").list(VIRTUAL_MACHINES, "vms"))
    assert [vm["metadata"]["name"] for vm in listing.items] == ["node-1", "node-2"]
    assert cluster.parent() is parent


KUBECONFIG = (
    "--parent-kubeconfig FILE (kubeconfig of the cluster that runs its nodes as virtual machines)"
)
NAMESPACE = "--vm-namespace NAME (namespace of these virtual machines)"


def test_what_was_said_when_the_cluster_was_opened_holds(world):
    named = {"parent_kubeconfig": world._host.kubeconfig, "vm_namespace": "vms"}
    with contextlib.closing(
        open_cluster("kubeconfig", seed="1", kubeconfig=world.kubeconfig, **named)
    ) as cluster:
        assert cluster.parent().namespace == "vms"


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (("namespace",), KUBECONFIG),
        (("kubeconfig",), NAMESPACE),
        ((), f"{KUBECONFIG} and {NAMESPACE}"),
    ],
)
def test_what_is_not_named_is_asked_for(world, cluster, named, missing):
    known = {"namespace": "vms", "kubeconfig": world._host.kubeconfig}
    words = refusal(cluster, **{name: known[name] for name in named})
    assert words == f"the parent of the kubeconfig cluster is unknown: give {missing}"


def test_one_without_virtual_machines_is_not_it(world, cluster):
    words = refusal(cluster, kubeconfig=world.kubeconfig, namespace="vms")
    assert (
        "does not serve virtualmachines.virtualization.deckhouse.io: it is not the cluster that "
        "runs the virtual machines"
    ) in words
    assert words.endswith(
        "get virtualmachines -A`, or choose another with --parent-kubeconfig FILE"
    )


def test_a_namespace_without_any_is_answered_with_those_that_have_some(world, cluster):
    words = refusal(cluster, kubeconfig=world._host.kubeconfig, namespace="empty")
    assert (
        "has no virtual machines in the namespace 'empty' (there are some in others, "
        "strangers, vms): see --vm-namespace"
    ) in words


def test_machines_that_are_no_nodes_are_left_alone_and_named(world, cluster, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen.clusters")
    parent = cluster.parent(kubeconfig=world._host.kubeconfig, namespace="others")
    assert parent.machines == {"node-1"}
    assert caplog.messages == [
        "ignoring virtual machines in others that are not nodes of the tested cluster: bastion"
    ]
    with contextlib.closing(Journal(cluster.runner.clock)) as journal:
        context = RunContext(
            cluster.api,
            cluster.runner.clock,
            cluster.chance,
            journal,
            "r",
            owned=False,
            parent=parent,
        )
        assert list(cluster.runner.call(ClusterClients.of(context, "test").machines())) == [
            "node-1"
        ]
        with pytest.raises(PreflightRefused) as refused:
            cluster.runner.call(preflight(context, Plan(chaos=(NetworkBlock(),))))
    assert (
        "network-block needs 2 virtual machines: there are 1 (node-1) in the namespace "
        "others of the parent"
    ) in str(refused.value)


def test_a_namespace_of_other_peoples_machines_is_not_it(world, cluster):
    words = refusal(cluster, kubeconfig=world._host.kubeconfig, namespace="strangers")
    where = (
        "has no virtual machine in the namespace 'strangers' that is a node of the tested cluster"
    )
    assert f"{where} (there are bastion; its nodes are node-1, node-2): see --vm-namespace" in words


def test_a_parent_that_is_not_there_is_refused_by_its_own_option(tmp_path, world, cluster):
    words = refusal(cluster, kubeconfig=tmp_path / "absent", namespace="vms")
    assert words == (
        f"there is not a kubeconfig at {tmp_path / 'absent'}: choose another with "
        "--parent-kubeconfig FILE"
    )


def test_a_kubeconfig_without_a_context_is_refused_by_its_own_option(tmp_path, world, cluster):
    config = yaml.safe_load(world._host.kubeconfig.read_text())
    (tmp_path / "k").write_text(json.dumps({**config, "current-context": ""}))
    words = refusal(cluster, kubeconfig=tmp_path / "k", namespace="vms")
    assert words.endswith("Let --parent-kubeconfig FILE have one of them as its current-context")


def test_after_a_refusal_it_may_be_named_again(world, cluster):
    refusal(cluster, kubeconfig=world._host.kubeconfig, namespace="empty")
    assert cluster.parent(kubeconfig=world._host.kubeconfig, namespace="vms").namespace == "vms"


def test_both_connections_are_closed(world):
    cluster = open_cluster("kubeconfig", seed="1", kubeconfig=world.kubeconfig)
    cluster.parent(kubeconfig=world._host.kubeconfig, namespace="vms")
    parent = cluster._kubeconfig_parent
    cluster.close()
    assert parent._connection._closed
    assert cluster._connection._closed
