import pytest

from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.rules import RULES
from pytest_kscen.objects.errors import BadRequest
from pytest_kscen.objects.resources import (
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)

CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
CONTAINERS = [{"name": "c", "image": "i"}]


def named(name, **content):
    return {"metadata": {"name": name}, **content}


def found(judge, resource, fields):
    return judge.site.names(resource, namespace=judge.namespace, fields=fields)


def test_every_kind_with_rules_is_served():
    assert RULES.keys() <= {(kind.resource.group, kind.resource.plural) for kind in builtin_kinds()}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=n", ["a"]),
        ("spec.nodeName!=n", ["b"]),
        ("spec.nodeName=", ["b"]),
        ("spec.host=n", ["a"]),
        ("spec.restartPolicy=Never", ["b"]),
        ("spec.schedulerName=mine", ["b"]),
        ("spec.serviceAccountName=robot", ["a"]),
        ("spec.hostNetwork=true", ["b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.podIP=1.2.3.4", ["a"]),
        ("status.nominatedNodeName=n", ["b"]),
        ("metadata.name=a,status.phase!=Running", ["a"]),
    ],
)
def test_pods(judge, selector, names):
    judge.made(
        PODS,
        named("a", spec={"containers": CONTAINERS, "nodeName": "n", "serviceAccountName": "robot"}),
    )
    other = {"restartPolicy": "Never", "schedulerName": "mine", "hostNetwork": True}
    judge.made(PODS, named("b", spec={"containers": CONTAINERS, **other}))
    judge.changed(PODS, "a", {"status": {"podIP": "1.2.3.4"}}, "status")
    judge.changed(PODS, "b", {"status": {"nominatedNodeName": "n"}}, "status")
    assert found(judge, PODS, selector) == names


SELECTED = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}}
ENDING = {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
TOLD = {
    "involvedObject": {"kind": "Pod", "namespace": "rules", "name": "p"},
    "reason": "R",
    "type": "Warning",
    "source": {"component": "k"},
}
SERVICE = {"clusterIP": "10.0.0.9", "ports": [{"port": 1}]}


@pytest.mark.parametrize(
    ("resource", "content", "selector"),
    [
        (NODES, {"spec": {"unschedulable": True}}, "spec.unschedulable=true"),
        (NODES, {}, "spec.unschedulable=false"),
        (NAMESPACES, {}, "status.phase=Active"),
        (SECRETS, {"type": "mine"}, "type=mine"),
        (SERVICES, {"spec": SERVICE}, "spec.clusterIP=10.0.0.9,spec.type=ClusterIP"),
        (JOBS, {"spec": ENDING}, "status.successful=0"),
        (CONTROLLERS, {"spec": SELECTED}, "status.replicas=0"),
        (
            EVENTS,
            TOLD,
            "involvedObject.kind=Pod,involvedObject.name=p,reason=R,type=Warning,source=k",
        ),
    ],
)
def test_other_kinds(judge, resource, content, selector):
    judge.made(resource, named("x", **content))
    assert found(judge, resource, selector) == ["x"]
    name, _, value = selector.rpartition("=")
    assert found(judge, resource, f"{name}={value}-not") == []


def test_unsupported_field_selector_is_refused(judge):
    with pytest.raises(BadRequest, match=r"field label not supported: spec.priority$"):
        found(judge, PODS, "spec.priority=1")
