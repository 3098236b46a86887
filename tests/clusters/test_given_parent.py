"""Parents given by kubeconfig, on the HTTPS ports of two embedded clusters."""

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
def parent_cluster():
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
def cluster(parent_cluster):
    with contextlib.closing(
        open_cluster("kubeconfig", seed="1", kubeconfig=parent_cluster.kubeconfig)
    ) as cluster:
        yield cluster


def refusal(cluster, **named):
    with pytest.raises(ClusterRefused) as refused:
        cluster.parent(**named)
    return str(refused.value)


def test_parent_is_given_cluster(parent_cluster, cluster):
    parent = cluster.parent(kubeconfig=parent_cluster._host.kubeconfig, namespace="vms")
    assert (parent.namespace, parent.owned) == ("vms", False)
    listing = cluster.runner.call(parent.api_for("test").list(VIRTUAL_MACHINES, "vms"))
    assert [vm["metadata"]["name"] for vm in listing.items] == ["node-1", "node-2"]
    assert cluster.parent() is parent


KUBECONFIG = (
    "--parent-kubeconfig FILE (kubeconfig of the cluster that runs its nodes as virtual machines)"
)
NAMESPACE = "--vm-namespace NAME (namespace of these virtual machines)"


def test_parent_given_at_open_is_used(parent_cluster):
    named = {"parent_kubeconfig": parent_cluster._host.kubeconfig, "vm_namespace": "vms"}
    with contextlib.closing(
        open_cluster("kubeconfig", seed="1", kubeconfig=parent_cluster.kubeconfig, **named)
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
def test_missing_option_is_named(parent_cluster, cluster, named, missing):
    known = {"namespace": "vms", "kubeconfig": parent_cluster._host.kubeconfig}
    words = refusal(cluster, **{name: known[name] for name in named})
    assert words == f"the parent of the kubeconfig cluster is unknown: give {missing}"


def test_parent_without_vm_resource_is_refused(parent_cluster, cluster):
    words = refusal(cluster, kubeconfig=parent_cluster.kubeconfig, namespace="vms")
    assert (
        "does not serve virtualmachines.virtualization.deckhouse.io: it is not the cluster that "
        "runs the virtual machines"
    ) in words
    assert words.endswith(
        "get virtualmachines -A`, or choose another with --parent-kubeconfig FILE"
    )


def test_empty_namespace_error_lists_others(parent_cluster, cluster):
    words = refusal(cluster, kubeconfig=parent_cluster._host.kubeconfig, namespace="empty")
    assert (
        "has no virtual machines in the namespace 'empty' (there are some in others, "
        "strangers, vms): see --vm-namespace"
    ) in words


def test_foreign_machines_are_ignored_and_logged(parent_cluster, cluster, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen.clusters")
    parent = cluster.parent(kubeconfig=parent_cluster._host.kubeconfig, namespace="others")
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


def test_namespace_of_foreign_machines_is_refused(parent_cluster, cluster):
    words = refusal(cluster, kubeconfig=parent_cluster._host.kubeconfig, namespace="strangers")
    where = (
        "has no virtual machine in the namespace 'strangers' that is a node of the tested cluster"
    )
    assert f"{where} (there are bastion; its nodes are node-1, node-2): see --vm-namespace" in words


def test_missing_kubeconfig_error_names_parent_option(tmp_path, parent_cluster, cluster):
    words = refusal(cluster, kubeconfig=tmp_path / "absent", namespace="vms")
    assert words == (
        f"no kubeconfig at {tmp_path / 'absent'}: choose another with --parent-kubeconfig FILE"
    )


def test_missing_context_error_names_parent_option(tmp_path, parent_cluster, cluster):
    config = yaml.safe_load(parent_cluster._host.kubeconfig.read_text())
    (tmp_path / "k").write_text(json.dumps({**config, "current-context": ""}))
    words = refusal(cluster, kubeconfig=tmp_path / "k", namespace="vms")
    assert words.endswith("Let --parent-kubeconfig FILE have one of them as its current-context")


def test_parent_can_be_given_after_refusal(parent_cluster, cluster):
    refusal(cluster, kubeconfig=parent_cluster._host.kubeconfig, namespace="empty")
    assert (
        cluster.parent(kubeconfig=parent_cluster._host.kubeconfig, namespace="vms").namespace
        == "vms"
    )


def test_close_closes_both_connections(parent_cluster):
    cluster = open_cluster("kubeconfig", seed="1", kubeconfig=parent_cluster.kubeconfig)
    cluster.parent(kubeconfig=parent_cluster._host.kubeconfig, namespace="vms")
    parent = cluster._kubeconfig_parent
    cluster.close()
    assert parent._connection._closed
    assert cluster._connection._closed
