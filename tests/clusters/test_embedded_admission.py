from __future__ import annotations

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import NAMESPACES, PODS, PRIORITY_CLASSES

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("admission", nodes=1)
    yield cluster
    cluster.close()


def ask(cluster, verb, *arguments, **more):
    return cluster.runner.ask(getattr(cluster.api("test"), verb)(*arguments, **more))


def test_pod_is_created_right_after_namespace(cluster):
    ask(cluster, "create", NAMESPACES, {"metadata": {"name": "n"}})
    pod = ask(cluster, "create", PODS, POD, "n")
    assert pod["spec"]["serviceAccountName"] == "default"
    cluster.until(
        lambda: ask(cluster, "get", PODS, "p", "n")["status"]["phase"] == "Running", timeout="1m"
    )


def test_system_priority_classes_exist(cluster):
    classes = ask(cluster, "list", PRIORITY_CLASSES).items
    assert {each["metadata"]["name"]: each["value"] for each in classes} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }


def test_hook_of_test_refuses_pod(cluster):
    cluster.admission.add(
        Hook(
            "no-pause",
            validate=lambda review: "name another image",
            resources=[PODS],
            operations=["CREATE"],
        )
    )
    with pytest.raises(
        Forbidden, match='admission webhook "no-pause" denied the request: name another image'
    ):
        ask(cluster, "create", PODS, POD, "default")
