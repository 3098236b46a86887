"""Recorded clusters are restored equal: same placements, no secrets."""

from __future__ import annotations

import pytest
import yaml

from pytest_kscen.__main__ import main
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
)
from tests.scenario.objects import pod


@pytest.fixture
def original():
    cluster = EmbeddedCluster("original", nodes=2)
    yield cluster
    cluster.close()


def fill(cluster):
    """Create a deployment with a secret and a claim, and an unschedulable pod."""
    api = cluster.api("user")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"password": "geheim"},
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    container = {
        "name": "c",
        "image": "pause",
        "env": [{"name": "PASSWORD", "value": "geheim"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"requests": {"cpu": "100m"}},
    }
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "s", "secret": {"secretName": "s"}},
    ]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "volumes": volumes},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }

    async def make():
        await api.create(SECRETS, secret, "default")
        await api.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")
        await api.create(DEPLOYMENTS, deployment, "default")
        await api.create(PODS, pod("large", "1000"))

    cluster.runner.call(make())
    cluster.advance("1m")


def listed(cluster, resource):
    return cluster.runner.call(cluster.api().list(resource)).items


def places(cluster):
    return {
        each["metadata"]["name"]: each["spec"].get("nodeName") for each in listed(cluster, PODS)
    }


def test_recorded_cluster_is_restored_as_it_was(original, runner, tmp_path):
    fill(original)
    file = tmp_path / "it.scenario.yaml"
    assert (
        main(
            ["record", "--kubeconfig", str(original.kubeconfig), "--name", "mine", "-o", str(file)]
        )
        == 0
    )
    played = runner.play(file)

    assert (played.phase, played.message) == ("Succeeded", "")
    there = places(original)
    assert there.pop("large") is None
    assert len(there) == 3
    assert None not in there.values()
    assert places(runner.cluster) == {**there, "large": None}
    rooms = [
        {each["metadata"]["name"]: each["status"]["allocatable"] for each in listed(one, NODES)}
        for one in (original, runner.cluster)
    ]
    assert rooms[0] == rooms[1]
    assert [
        each["status"]["phase"] for each in listed(runner.cluster, PERSISTENT_VOLUME_CLAIMS)
    ] == ["Bound"]


def test_secrets_and_transient_fields_are_omitted(original, capsys):
    fill(original)
    assert main(["record", "--kubeconfig", str(original.kubeconfig)]) == 0
    text = capsys.readouterr().out
    for word in (
        "geheim",
        "Secret",
        "uid",
        "managedFields",
        "resourceVersion",
        "ownerReferences",
        "creationTimestamp",
        "env:",
    ):
        assert word not in text
    kinds = [
        each["createOperation"]["object"]["kind"]
        for each in yaml.safe_load(text)["spec"]["operations"][:-1]
    ]
    assert list(dict.fromkeys(kinds)) == [
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
    ]


def test_pods_are_placed_again(original, runner, tmp_path):
    fill(original)
    file = tmp_path / "it.scenario.yaml"
    assert (
        main(["record", "--kubeconfig", str(original.kubeconfig), "--reschedule", "-o", str(file)])
        == 0
    )
    assert len(runner.play(file).timeline.of("podScheduled")) == 3


def test_single_namespace(original, capsys):
    fill(original)
    original.runner.call(original.api().create(NAMESPACES, {"metadata": {"name": "elsewhere"}}))
    assert (
        main(["record", "--kubeconfig", str(original.kubeconfig), "--namespace", "elsewhere"]) == 0
    )
    operations = yaml.safe_load(capsys.readouterr().out)["spec"]["operations"]
    assert [each["id"] for each in operations] == [
        "namespace/elsewhere",
        "node/node-1",
        "node/node-2",
        "end",
    ]


def test_unreachable_cluster_is_reported(tmp_path, capsys):
    assert main(["record", "--kubeconfig", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_objects_relevant_to_placement_are_recorded(original, capsys):
    image = {"names": ["app:1"], "sizeBytes": 500_000_000}
    origin = {"kind": "PersistentVolumeClaim", "name": "other"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "dataSource": origin,
    }
    api, call = original.api("user"), original.runner.call
    call(api.create(NODES, {"metadata": {"name": "seen"}}))
    call(api.patch(NODES, "seen", {"status": {"images": [image]}}, subresource="status"))
    call(
        api.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "copy"}, "spec": spec}, "default"
        )
    )
    assert main(["record", "--kubeconfig", str(original.kubeconfig)]) == 0
    operations = yaml.safe_load(capsys.readouterr().out)["spec"]["operations"]
    found = {
        each["id"].split("/")[-1]: each["createOperation"]["object"] for each in operations[:-1]
    }

    assert found["seen"]["status"]["images"] == [image]
    assert not {"dataSource", "dataSourceRef"} & found["copy"]["spec"].keys()


def test_missing_namespace_is_reported(original, capsys):
    assert main(["record", "--kubeconfig", str(original.kubeconfig), "--namespace", "defalt"]) == 1
    assert capsys.readouterr().err.startswith(
        "there is no namespace 'defalt' (did you mean 'default'?); there are "
    )
