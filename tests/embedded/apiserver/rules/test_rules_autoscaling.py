import pytest

from pytest_kscen.objects.resources import Resource

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}


def autoscaler(**spec):
    return {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


def cpu(**target):
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {},
            {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "minReplicas": 1,
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ],
            },
        ),
        (
            {"behavior": {}},
            {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "minReplicas": 1,
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ],
                "behavior": {
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0,
                        "selectPolicy": "Max",
                        "policies": [
                            {"type": "Pods", "value": 4, "periodSeconds": 15},
                            {"type": "Percent", "value": 100, "periodSeconds": 15},
                        ],
                    },
                    "scaleDown": {
                        "selectPolicy": "Max",
                        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                    },
                },
            },
        ),
        (
            {
                "behavior": {
                    "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]}
                }
            },
            {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "minReplicas": 1,
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ],
                "behavior": {
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0,
                        "selectPolicy": "Max",
                        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}],
                    },
                    "scaleDown": {
                        "selectPolicy": "Max",
                        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                    },
                },
            },
        ),
    ],
)
def test_defaults(judge, given, filled):
    assert judge.made(AUTOSCALERS, autoscaler(**given))["spec"] == filled


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"minReplicas": 0},
            [
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                (
                    "spec.metrics: Forbidden: must specify at least one Object or "
                    "External metric to support scaling to "
                    "zero replicas"
                ),
            ],
        ),
        (
            {"minReplicas": 5},
            ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
        ),
        (
            {"maxReplicas": 0},
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                (
                    "spec.maxReplicas: Invalid value: 0: must be greater than or equal to "
                    "`minReplicas`"
                ),
            ],
        ),
        (
            {"minReplicas": -1, "maxReplicas": -1},
            [
                "spec.minReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
            ],
        ),
        (
            {"scaleTargetRef": {}},
            [
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                (
                    'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must '
                    "specify API group"
                ),
            ],
        ),
        (
            {"scaleTargetRef": {"kind": "a/b", "name": "c", "apiVersion": "a/b/c"}},
            [
                "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
                (
                    'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected '
                    "GroupVersion string: a/b/c"
                ),
            ],
        ),
    ],
)
def test_refused(judge, spec, wrong):
    assert judge.create(AUTOSCALERS, autoscaler(**spec)) == wrong


@pytest.mark.parametrize(
    ("metric", "wrong"),
    [
        (cpu(type="Utilization", averageUtilization=50), []),
        (cpu(type="AverageValue", averageValue="100m"), []),
        (
            cpu(type="AverageValue", averageValue="100m", averageUtilization=5),
            [
                (
                    "spec.metrics[0].resource.target.averageValue: Forbidden: may not "
                    "set both a target raw value and a "
                    "target utilization"
                )
            ],
        ),
        (
            cpu(type="Utilization"),
            [
                (
                    "spec.metrics[0].resource.target.averageUtilization: Required value: "
                    "must set either a target raw "
                    "value or a target utilization"
                )
            ],
        ),
        (
            cpu(type="Utilization", averageUtilization=-5),
            [
                (
                    "spec.metrics[0].resource.target.averageUtilization: Invalid value: -5: "
                    "must be greater than 0"
                )
            ],
        ),
        (
            cpu(type="X", averageValue="-3"),
            [
                (
                    'spec.metrics[0].resource.target.type: Invalid value: "X": must be '
                    "either Utilization, Value, or AverageValue"
                ),
                (
                    'spec.metrics[0].resource.target.averageValue: Invalid value: "-3": must '
                    "be positive"
                ),
            ],
        ),
        (
            {},
            [
                "spec.metrics[0].type: Required value: must specify a metric source type",
                (
                    'spec.metrics[0].type: Unsupported value: "": supported values: '
                    '"ContainerResource", "External", '
                    '"Object", "Pods", "Resource"'
                ),
            ],
        ),
        (
            {"type": "X"},
            [
                (
                    'spec.metrics[0].type: Unsupported value: "X": supported values: '
                    '"ContainerResource", "External", '
                    '"Object", "Pods", "Resource"'
                )
            ],
        ),
        (
            {"type": "Resource"},
            [
                (
                    "spec.metrics[0].resource: Required value: must populate information for "
                    "the given metric source"
                )
            ],
        ),
        (
            {
                "type": "Pods",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 3},
                },
            },
            [
                (
                    "spec.metrics[0].pods: Required value: must populate information for the "
                    "given metric source"
                )
            ],
        ),
        (
            {"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "AverageValue"}}},
            [
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                (
                    "spec.metrics[0].pods.target.averageValue: Required value: must specify "
                    "a positive target averageValue"
                ),
            ],
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m/n"},
                    "describedObject": {},
                    "target": {"type": "Value"},
                },
            },
            [
                "spec.metrics[0].object.describedObject.kind: Required value",
                "spec.metrics[0].object.describedObject.name: Required value",
                "spec.metrics[0].object.metric.name: Invalid value: \"m/n\": may not contain '/'",
                (
                    "spec.metrics[0].object.target.averageValue: Required value: must set "
                    "either a target value or averageValue"
                ),
            ],
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "1", "averageValue": "2"},
                },
            },
            [
                (
                    "spec.metrics[0].external.target.value: Forbidden: may not set both a "
                    "target value for metric and a per-pod target"
                )
            ],
        ),
        (
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "",
                    "container": "",
                    "target": {"type": "Utilization"},
                },
            },
            [
                (
                    "spec.metrics[0].containerResource.name: Required value: must specify a "
                    "resource name"
                ),
                (
                    "spec.metrics[0].containerResource.container: Required value: must "
                    "specify a container"
                ),
                (
                    "spec.metrics[0].containerResource.target.averageUtilization: "
                    "Required value: must set either a "
                    "target raw value or a target utilization"
                ),
            ],
        ),
    ],
)
def test_metrics(judge, metric, wrong):
    assert judge.create(AUTOSCALERS, autoscaler(metrics=[metric])) == wrong


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (
            {"stabilizationWindowSeconds": 9999, "selectPolicy": "X"},
            [
                (
                    "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: "
                    "9999: must be less than or equal to 3600"
                ),
                (
                    'spec.behavior.scaleDown.selectPolicy: Unsupported value: "X": supported '
                    'values: "Disabled", "Max", "Min"'
                ),
            ],
        ),
        (
            {
                "policies": [
                    {"type": "X", "value": 0, "periodSeconds": 0},
                    {"type": "Pods", "value": 1, "periodSeconds": 9999},
                ]
            },
            [
                (
                    'spec.behavior.scaleDown.policies[0].type: Unsupported value: "X": '
                    'supported values: "Percent", "Pods"'
                ),
                (
                    "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be "
                    "greater than zero"
                ),
                (
                    "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: "
                    "must be greater than zero"
                ),
                (
                    "spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 9999: "
                    "must be less than or equal to 1800"
                ),
            ],
        ),
    ],
)
def test_behavior(judge, rules, wrong):
    assert judge.create(AUTOSCALERS, autoscaler(behavior={"scaleDown": rules})) == wrong


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"currentReplicas": 3, "desiredReplicas": 3}, []),
        (
            {"currentReplicas": -3, "desiredReplicas": -3},
            [
                "status.currentReplicas: Invalid value: -3: must be greater than or equal to 0",
                "status.desiredReplicas: Invalid value: -3: must be greater than or equal to 0",
            ],
        ),
    ],
)
def test_status(judge, status, wrong):
    judge.made(AUTOSCALERS, autoscaler())
    assert judge.change(AUTOSCALERS, "h", {"status": status}, "status") == wrong
