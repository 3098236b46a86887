"""kubectl on an embedded cluster, whose time advances by the wall clock while kubectl waits."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from pytest_kscen.clusters.controlplane import programs
from pytest_kscen.clusters.embedded import EmbeddedCluster

pytestmark = pytest.mark.skipif(
    bool(programs.missing_programs(("kubectl",))),
    reason=f"kubectl not found; build it with: {programs.BUILD_COMMAND}",
)

LABELS = {"app": "web"}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "c", "image": "pause"}]},
        },
    },
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "shortNames": ["wd"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "description": "how big it is"}
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
WIDGET = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {"size": 3},
}


@pytest.fixture(scope="module")
def cluster():
    cluster = EmbeddedCluster(1, nodes=2)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return the discovery cache folder of kubectl."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubectl(cluster, home):
    def run(*words, body=None, fails=False):
        done = subprocess.run(
            [programs.find_programs(("kubectl",))["kubectl"], *words],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(home)},
            input=json.dumps(body) if body else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_kubectl_manages_deployment(kubectl):
    assert kubectl("apply", "-f", "-", body=WEB) == "deployment.apps/web created\n"
    assert "successfully rolled out" in kubectl(
        "rollout", "status", "deployment/web", "--timeout=30s"
    )
    assert kubectl("apply", "-f", "-", body=WEB) == "deployment.apps/web unchanged\n"
    assert kubectl("get", "deploy", "web", "--no-headers").split()[:4] == ["web", "2/2", "2", "2"]
    pods = [
        line.split()[:4]
        for line in kubectl("get", "pods", "-l", "app=web", "--no-headers").splitlines()
    ]
    assert [pod[1:] for pod in pods] == [["1/1", "Running", "0"]] * 2
    assert "Events:" in kubectl("describe", "deployment", "web")

    kubectl("scale", "deployment/web", "--replicas=3")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=30s")
    kubectl("patch", "deployment/web", "-p", '{"metadata":{"labels":{"strategic":"yes"}}}')
    kubectl(
        "patch", "deployment/web", "--type=merge", "-p", '{"metadata":{"labels":{"merge":"yes"}}}'
    )
    kubectl(
        "patch",
        "deployment/web",
        "--type=json",
        "-p",
        '[{"op":"add","path":"/metadata/labels/json","value":"yes"}]',
    )
    kubectl("label", "deployment/web", "labelled=yes")
    kubectl("annotate", "deployment/web", "noted=yes")
    labels = json.loads(kubectl("get", "deployment", "web", "-o", "json"))["metadata"]["labels"]
    assert labels == dict.fromkeys(("strategic", "merge", "json", "labelled"), "yes")

    assert kubectl("delete", "deployment/web").startswith(
        'deployment.apps "web" deleted'
    )  # older ones say no namespace
    kubectl("wait", "--for=delete", "pods", "-l", "app=web", "--timeout=60s")
    assert kubectl("get", "pods", "-l", "app=web", "-o", "name") == ""


def test_kubectl_applies_list(kubectl):
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}}
    of = {"apiVersion": "v1", "kind": "List"}
    assert (
        kubectl("apply", "-f", "-", body={**of, "items": [config_map]})
        == "configmap/listed created\n"
    )
    refused = kubectl(
        "apply", "-f", "-", body={**of, "items": [{**config_map, "dat": 1}]}, fails=True
    )
    assert 'unknown field "dat" in io.k8s.api.core.v1.ConfigMap' in refused


def test_kubectl_server_side_apply_shows_owners(kubectl):
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned"},
        "data": {"a": "1"},
    }
    kubectl("apply", "--server-side", "-f", "-", body=config_map)
    other = {**config_map, "data": {"a": "2"}}
    refused = kubectl(
        "apply", "--server-side", "--field-manager=other", "-f", "-", body=other, fails=True
    )
    assert 'conflict with "kubectl": .data.a' in refused
    kubectl(
        "apply",
        "--server-side",
        "--field-manager=other",
        "--force-conflicts",
        "-f",
        "-",
        body=other,
    )
    assert kubectl("get", "configmap", "owned", "-o", "jsonpath={.data.a}") == "2"


def test_kubectl_protobuf_requests_are_accepted(kubectl):
    kubectl("create", "configmap", "made", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "made", "--from-literal=p=q")
    kubectl("create", "job", "made", "--image=pause", "--", "true")
    assert kubectl("get", "configmap", "made", "-o", "jsonpath={.data.a}") == "b"
    assert kubectl("get", "secret", "made", "-o", "jsonpath={.data.p}") == "cQ=="
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "system:admin" in kubectl("auth", "whoami")


def test_kubectl_manages_custom_resources(kubectl):
    kubectl("apply", "-f", "-", body=WIDGETS)
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=30s")
    kubectl("apply", "-f", "-", body=WIDGET)
    assert kubectl("get", "wd").split() == ["NAME", "SIZE", "w", "3"]
    kubectl("scale", "widget/w", "--replicas=5")
    assert kubectl("get", "widget", "w", "-o", "jsonpath={.spec.size}") == "5"
    assert "how big it is" in kubectl("explain", "widget.spec.size")
    assert "unknown field" in kubectl("apply", "-f", "-", body={**WIDGET, "spek": {}}, fails=True)


def test_kubectl_lists_api_resources(kubectl):
    assert "deployments   " in kubectl("api-resources", "--api-group=apps")
    assert "apps/v1" in kubectl("api-versions").splitlines()
    assert "FIELD: image <string>" in kubectl("explain", "pod.spec.containers.image")
    assert "Server Version: v1.36.4+kscen" in kubectl("version")
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert kubectl("get", "nodes", "-o", "wide", "--no-headers").count(" Ready ") == 2
    assert "Ready            True" in kubectl("describe", "node", "node-1")


def test_kubectl_prints_refusals(kubectl):
    assert (
        kubectl("get", "pod", "nope", fails=True)
        == 'Error from server (NotFound): pods "nope" not found\n'
    )
    assert "the server doesn't have a resource type" in kubectl("get", "nopes", fails=True)
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No_DNS"}}
    assert "a lowercase RFC 1123 subdomain must consist of" in kubectl(
        "apply", "-f", "-", body=bad, fails=True
    )
    assert 'strict decoding error: unknown field "datas"' in kubectl(
        "apply",
        "-f",
        "-",
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "datas": {}},
        fails=True,
    )
