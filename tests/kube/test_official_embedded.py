"""Official client on an embedded cluster with simulated nodes."""

import kubernetes
import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster

JOB = {
    "metadata": {"name": "p"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "command": ["sh", "-c", "echo one; sleep 60; echo two"],
            }
        ],
    },
}


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster(1, nodes=1)
    yield cluster
    cluster.client.close()
    cluster.close()


def test_watch_receives_pod_phases(cluster):
    core = kubernetes.client.CoreV1Api(cluster.client)
    core.create_namespaced_pod("default", JOB)
    phases = []
    for event in kubernetes.watch.Watch().stream(
        core.list_namespaced_pod, "default", timeout_seconds=600
    ):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Succeeded":
            break
    assert (phases[0], phases[-1]) == ("Pending", "Succeeded")
    assert "Running" in phases


def test_log_is_followed_in_cluster_time(cluster):
    core = kubernetes.client.CoreV1Api(cluster.client)
    core.create_namespaced_pod("default", JOB)
    running = lambda: core.read_namespaced_pod("p", "default").status.phase == "Running"  # noqa: E731
    cluster.until(running)
    began = cluster.now
    lines = kubernetes.watch.Watch().stream(core.read_namespaced_pod_log, "p", "default")
    assert [(line, round(cluster.now - began)) for line in lines] == [("one", 0), ("two", 60)]
    assert core.read_namespaced_pod_log("p", "default") == "one\ntwo\n"


def test_dict_patch_is_strategic_merge(cluster):
    apps = kubernetes.client.AppsV1Api(cluster.client)
    container = {"name": "a", "image": "x"}
    labels = {"app": "web"}
    apps.create_namespaced_deployment(
        "default",
        {
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    )
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "y"}]}}}}
    patched = apps.patch_namespaced_deployment("web", "default", patch)
    assert sorted(each.name for each in patched.spec.template.spec.containers) == ["a", "b"]


def test_dynamic_client_applies_server_side(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dynamic = kubernetes.dynamic.DynamicClient(cluster.client)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    applied = dynamic.server_side_apply(maps, body, namespace="default", field_manager="me")
    assert applied.data.a == "1"
    with pytest.raises(kubernetes.dynamic.exceptions.ConflictError, match="conflict with"):
        dynamic.server_side_apply(
            maps, {**body, "data": {"a": "2"}}, namespace="default", field_manager="you"
        )
