"""Objects, each with the line that a real server prints for it."""

import pytest

from pytest_kscen.embedded.apiserver.recorded import resources
from pytest_kscen.embedded.apiserver.wire.tables import Printer, columns_of
from pytest_kscen.objects.resources import Resource

NOW = 1767225600.0 + 3600
CONTAINERS = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
TEMPLATE = {"spec": {"containers": CONTAINERS, "nodeSelector": {"k": "v"}}}
SELECTOR = {"matchLabels": {"a": "b"}}
HOST = {"http": {"paths": []}}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "100Mi"}}}
EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "5"}},
}
TARGET = {"kind": "Deployment", "name": "d"}


def cells(group, plural, obj, **metadata):
    obj = {
        "metadata": {"name": "o", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
        **obj,
    }
    return Printer(columns_of(Resource(group, "v1", plural, "Kind")), NOW).of_one(obj)["rows"][0][
        "cells"
    ]


@pytest.mark.parametrize(
    ("group", "plural", "obj", "expected"),
    [
        (
            "apps",
            "deployments",
            {
                "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
                "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
            },
            ["o", "2/3", 1, 2, "60m", "a,b", "x,y", "a=b"],
        ),
        (
            "apps",
            "replicasets",
            {
                "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
                "status": {"replicas": 3, "readyReplicas": 2},
            },
            ["o", 3, 3, 2, "60m", "a,b", "x,y", "a=b"],
        ),
        (
            "apps",
            "statefulsets",
            {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 2}},
            ["o", "2/3", "60m", "a,b", "x,y"],
        ),
        (
            "apps",
            "daemonsets",
            {
                "spec": {"selector": SELECTOR, "template": TEMPLATE},
                "status": {
                    "desiredNumberScheduled": 3,
                    "currentNumberScheduled": 2,
                    "numberReady": 1,
                },
            },
            ["o", 3, 2, 1, 0, 0, "k=v", "60m", "a,b", "x,y", "a=b"],
        ),
        (
            "batch",
            "jobs",
            {
                "spec": {"completions": 3, "template": TEMPLATE},
                "status": {"startTime": "2026-01-01T00:55:00Z", "succeeded": 1},
            },
            ["o", "Running", "1/3", "5m", "60m", "a,b", "x,y", "<none>"],
        ),
        (
            "batch",
            "jobs",
            {
                "spec": {"parallelism": 3},
                "status": {
                    "conditions": [{"type": "Complete", "status": "True"}],
                    "startTime": "2026-01-01T00:00:00Z",
                    "completionTime": "2026-01-01T00:00:09Z",
                },
            },
            ["o", "Complete", "0/1 of 3", "9s", "60m", "", "", "<none>"],
        ),
        (
            "batch",
            "cronjobs",
            {
                "spec": {
                    "schedule": "* * * * *",
                    "suspend": True,
                    "jobTemplate": {"spec": {"template": TEMPLATE}},
                },
                "status": {"lastScheduleTime": "2026-01-01T00:50:00Z", "active": [{}]},
            },
            ["o", "* * * * *", "<none>", "True", 1, "10m", "60m", "a,b", "x,y", "<none>"],
        ),
        (
            "",
            "services",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
                }
            },
            ["o", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP", "60m", "<none>"],
        ),
        (
            "",
            "services",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "externalIPs": ["9.9.9.9"],
                    "selector": {"b": "x", "a": "y"},
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "5.5.5.5"}, {"hostname": "h"}]}},
            },
            ["o", "LoadBalancer", "<none>", "5.5.5.5,h,9.9.9.9", "<none>", "60m", "a=y,b=x"],
        ),
        (
            "",
            "services",
            {"spec": {"type": "LoadBalancer"}},
            ["o", "LoadBalancer", "<none>", "<pending>", "<none>", "60m", "<none>"],
        ),
        (
            "",
            "endpoints",
            {
                "subsets": [
                    {
                        "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
                        "ports": [{"port": 80}, {"port": 90}],
                    },
                    {"addresses": [{"ip": "fd00::1"}]},
                ]
            },
            ["o", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:90 + 2 more...", "60m"],
        ),
        ("", "endpoints", {}, ["o", "<none>", "60m"]),
        (
            "discovery.k8s.io",
            "endpointslices",
            {
                "addressType": "IPv4",
                "ports": [{"port": 80}, {"name": "b"}],
                "endpoints": [{"addresses": ["1.1.1.1"]}],
            },
            ["o", "IPv4", "80,b", "1.1.1.1", "60m"],
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            {"addressType": "IPv4"},
            ["o", "IPv4", "<unset>", "<unset>", "60m"],
        ),
        (
            "networking.k8s.io",
            "ingresses",
            {
                "spec": {
                    "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}],
                    "tls": [{}],
                }
            },
            ["o", "<none>", "a,b,c + 1 more...", "", "80, 443", "60m"],
        ),
        (
            "networking.k8s.io",
            "ingresses",
            {"spec": {"rules": [HOST]}},
            ["o", "<none>", "*", "", "80", "60m"],
        ),
        (
            "networking.k8s.io",
            "networkpolicies",
            {
                "spec": {
                    "podSelector": {
                        "matchLabels": {"b": "x", "a": "y"},
                        "matchExpressions": [
                            {"key": "aa", "operator": "In", "values": ["z", "y"]},
                            {"key": "c", "operator": "Exists"},
                            {"key": "d", "operator": "DoesNotExist"},
                            {"key": "e", "operator": "NotIn", "values": ["q"]},
                        ],
                    }
                }
            },
            ["o", "a=y,aa in (y,z),b=x,c,!d,e notin (q)", "60m"],
        ),
        (
            "",
            "persistentvolumeclaims",
            {
                "spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Block"},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "2Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                },
            },
            ["o", "Bound", "v", "2Gi", "RWO,RWX", "s", "<unset>", "60m", "Block"],
        ),
        (
            "",
            "persistentvolumeclaims",
            {"status": {"phase": "Pending"}},
            ["o", "Pending", "", "", "", "", "<unset>", "60m", "<unset>"],
        ),
        (
            "",
            "persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadOnlyMany"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "n", "name": "c"},
                },
                "status": {"phase": "Bound"},
            },
            ["o", "1Gi", "ROX", "Retain", "Bound", "n/c", "", "<unset>", "", "60m", "<unset>"],
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            {"provisioner": "x/y"},
            ["o", "x/y", "Delete", "Immediate", False, "60m"],
        ),
        (
            "",
            "nodes",
            {
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "Unknown"}],
                    "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}],
                    "nodeInfo": {
                        "kubeletVersion": "v1",
                        "kernelVersion": "6",
                        "architecture": "amd64",
                    },
                },
            },
            [
                "o",
                "NotReady,SchedulingDisabled",
                "<none>",
                "60m",
                "v1",
                "1.1.1.1",
                "<none>",
                "<unknown>",
                "6 (amd64)",
                "<unknown>",
            ],
        ),
        (
            "",
            "events",
            {
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
                "type": "Normal",
                "reason": "R",
                "message": " hello\n",
                "firstTimestamp": "2026-01-01T00:10:00Z",
                "lastTimestamp": "2026-01-01T00:58:00Z",
                "count": 4,
                "source": {"component": "kubelet", "host": "h"},
            },
            ["2m", "Normal", "R", "pod/p", "spec", "kubelet, h", "hello", "50m", 4, "o"],
        ),
        (
            "events.k8s.io",
            "events",
            {
                "regarding": {"kind": "Pod"},
                "note": "n",
                "eventTime": "2026-01-01T00:59:00.000000Z",
                "reportingController": "x",
                "series": {"count": 7, "lastObservedTime": "2026-01-01T00:59:30.000000Z"},
            },
            ["30s", "", "", "pod", "", "x", "n", "60s", 7, "o"],
        ),
        (
            "policy",
            "poddisruptionbudgets",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
            ["o", "50%", "N/A", 2, "60m"],
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            {
                "spec": {
                    "scaleTargetRef": TARGET,
                    "maxReplicas": 5,
                    "minReplicas": 1,
                    "metrics": [CPU, MEMORY, EXTERNAL],
                },
                "status": {
                    "currentReplicas": 2,
                    "currentMetrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "current": {"averageUtilization": 40}},
                        }
                    ],
                },
            },
            [
                "o",
                "Deployment/d",
                "cpu: 40%/80%, memory: <unknown>/100Mi + 1 more...",
                "1",
                5,
                2,
                "60m",
            ],
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            {
                "roleRef": {"kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "User", "name": "v"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                ],
            },
            ["o", "ClusterRole/view", "60m", "u, v", "", "n/s"],
        ),
        (
            "",
            "resourcequotas",
            {"status": {"hard": {"pods": "9", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            ["o", "pods: 1/9", "limits.cpu: 0/2", "60m"],
        ),
        ("", "configmaps", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, ["o", 3, "60m"]),
        ("", "limitranges", {}, ["o", "2026-01-01T00:00:00Z"]),
        ("example.com", "unknown", {}, ["o", "2026-01-01T00:00:00Z"]),
    ],
)
def test_object_cells(group, plural, obj, expected):
    assert cells(group, plural, obj) == expected


def test_names_with_details():
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    assert cells("storage.k8s.io", "storageclasses", {}, **default)[0] == "o (default)"
    roles = {
        "labels": {
            "node-role.kubernetes.io/b": "",
            "node-role.kubernetes.io/a": "",
            "kubernetes.io/role": "c",
        }
    }
    assert cells("", "nodes", {}, **roles)[:3] == ["o", "Unknown", "a,b,c"]
    owner = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "t", "controller": True}
        ]
    }
    assert cells("apps", "controllerrevisions", {"revision": 4}, **owner) == [
        "o",
        "statefulset.apps/t",
        4,
        "60m",
    ]


@pytest.mark.parametrize(
    "path", [path for path, row in resources().items() if "list" in row["verbs"]]
)
def test_empty_object_of_any_kind_is_printed(path):
    group, version, plural = path.split("/")
    columns = columns_of(Resource(group, version, plural, "Kind"))
    bare = {
        "metadata": {"name": "o"},
        "spec": {"scaleTargetRef": TARGET},
        "roleRef": {"kind": "Role", "name": "r"},
    }
    row = Printer(columns, NOW).of_one(bare)["rows"][0]
    assert len(row["cells"]) == len(columns)
