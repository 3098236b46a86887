import json

import pytest

from pytest_kscen.embedded.apiserver.conversions import (
    BEHAVIOR,
    CONDITIONS,
    CURRENT_METRICS,
    METRICS,
)
from pytest_kscen.objects.resources import Resource

NEW = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
OLD = Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}},
}
CONDITION = {
    "type": "AbleToScale",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "Ready",
    "message": "ready to scale",
}
STATUS = {
    "currentReplicas": 1,
    "desiredReplicas": 2,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 33, "averageValue": "1"}},
        }
    ],
    "conditions": [CONDITION],
}


def spec(**more):
    return {"scaleTargetRef": TARGET, "maxReplicas": 3, **more}


def annotations_of(obj):
    return {name: json.loads(note) for name, note in obj["metadata"].get("annotations", {}).items()}


def test_v1_is_stored_as_v2(site):
    made = site.create(OLD, "x", spec=spec())
    assert made["spec"] == spec(minReplicas=1, targetCPUUtilizationPercentage=80)
    assert made["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    shown = site.get(NEW, "x")
    usual = {"type": "Utilization", "averageUtilization": 80}
    assert shown["apiVersion"] == "autoscaling/v2"
    assert shown["spec"]["metrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "target": usual}}
    ]
    assert shown["status"] == {"desiredReplicas": 0, "currentMetrics": None}


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (
            {
                "type": "Resource",
                "resource": {
                    "name": "memory",
                    "target": {"type": "AverageValue", "averageValue": "1Mi"},
                },
            },
            {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Mi"}},
        ),
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "m"},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                },
            },
            {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "1"}},
        ),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": TARGET,
                    "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "1"},
                },
            },
            {"type": "Object", "object": {"target": TARGET, "metricName": "m", "targetValue": "1"}},
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "m"},
                    "target": {"type": "AverageValue", "averageValue": "2"},
                },
            },
            {"type": "External", "external": {"metricName": "m", "targetAverageValue": "2"}},
        ),
    ],
)
def test_v1_metrics_are_in_annotation(site, newer, older):
    site.create(NEW, "x", spec=spec(metrics=[newer, CPU]))
    shown = site.get(OLD, "x")
    assert annotations_of(shown) == {METRICS: [older]}
    assert shown["spec"] == spec(minReplicas=1, targetCPUUtilizationPercentage=40)
    assert site.update(OLD, shown)["spec"] == shown["spec"]
    assert site.get(NEW, "x")["spec"]["metrics"] == [newer, CPU]


def test_v1_behavior_is_in_annotation(site):
    given = {"scaleDown": {"selectPolicy": "Min"}}
    behavior = site.create(NEW, "x", spec=spec(behavior=given))["spec"]["behavior"]
    shown = site.get(OLD, "x")
    down = {
        "SelectPolicy": "Min",
        "Policies": [{"Type": "Percent", "Value": 100, "PeriodSeconds": 15}],
    }
    assert annotations_of(shown)[BEHAVIOR]["ScaleDown"] == down
    site.update(OLD, shown)
    assert site.get(NEW, "x")["spec"]["behavior"] == behavior


def test_v1_status_is_in_annotations(site):
    site.create(NEW, "x", spec=spec())
    site.patch(NEW, "x", {"status": STATUS}, subresource="status")
    shown = site.get(OLD, "x")
    used = {"name": "cpu", "currentAverageUtilization": 33, "currentAverageValue": "1"}
    assert annotations_of(shown) == {
        CURRENT_METRICS: [{"type": "Resource", "resource": used}],
        CONDITIONS: [CONDITION],
    }
    assert shown["status"] == {
        "currentReplicas": 1,
        "desiredReplicas": 2,
        "currentCPUUtilizationPercentage": 33,
    }


def test_spec_write_keeps_status(site):
    site.create(NEW, "x", spec=spec())
    site.patch(NEW, "x", {"status": STATUS}, subresource="status")
    site.patch(OLD, "x", {"metadata": {"annotations": None}, "spec": {"maxReplicas": 5}})
    kept = site.get(NEW, "x")
    assert (kept["spec"]["maxReplicas"], kept["status"]) == (5, STATUS)


def test_status_write_keeps_spec(site):
    metric = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}},
    }
    site.create(NEW, "x", spec=spec(metrics=[metric]))
    site.patch(
        OLD,
        "x",
        {"metadata": {"annotations": None}, "status": {"currentReplicas": 3}},
        subresource="status",
    )
    kept = site.get(NEW, "x")
    assert (kept["spec"]["metrics"], kept["status"]["currentReplicas"]) == ([metric], 3)
