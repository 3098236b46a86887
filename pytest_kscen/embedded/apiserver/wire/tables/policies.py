"""Printer columns of disruption budgets, priority classes, autoscalers and device claims.

Read by `table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    boolean,
    flag,
    integer,
    number,
    object_cell,
    text,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


SHOWN_METRICS = 2
UNKNOWN = "<unknown>"
METRIC_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def metric_targets(scaler: Obj) -> str:
    spec, status = scaler.get("spec") or {}, scaler.get("status") or {}
    if "targetCPUUtilizationPercentage" in spec:  # autoscaling/v1
        return _percent(
            "cpu",
            status.get("currentCPUUtilizationPercentage"),
            spec["targetCPUUtilizationPercentage"],
        )
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    shown = [
        _metric(metric, current[place] if place < len(current) else {})
        for place, metric in enumerate(metrics[:SHOWN_METRICS])
    ]
    more = f" + {len(metrics) - SHOWN_METRICS} more..." if len(metrics) > SHOWN_METRICS else ""
    return ", ".join(shown) + more or NONE


def _metric(metric: Obj, current: Obj) -> str:
    part = METRIC_FIELDS.get(metric.get("type", ""))
    if part is None:
        return "<unknown type>"
    target = metric[part].get("target") or {}
    observed = (current.get(part) or {}).get("current") or {}
    if part in ("resource", "containerResource"):
        name = metric[part]["name"]
        if "averageValue" in target:
            return f"{name}: {observed.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        return _percent(name, observed.get("averageUtilization"), target.get("averageUtilization"))
    if part == "pods":
        return f"{observed.get('averageValue', UNKNOWN)}/{target.get('averageValue')}"
    if "averageValue" in target:
        return f"{observed.get('averageValue', UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{observed.get('value', UNKNOWN)}/{target.get('value')}"


def _percent(name: str, observed: int | None, target: int | None) -> str:
    shown = UNKNOWN if observed is None else f"{observed}%"
    return f"{name}: {shown}/{'<auto>' if target is None else f'{target}%'}"


def _claim_state(claim: Obj) -> str:
    deleted = bool(claim["metadata"].get("deletionTimestamp"))
    if not field_at(claim, "status.allocation"):
        return "deleted" if deleted else "pending"
    reserved = bool(field_at(claim, "status.reservedFor"))
    return "deleted," * deleted + "allocated" + ",reserved" * reserved


def _amount(budget: Obj, path: str) -> str:
    found = field_at(budget, path)
    return "N/A" if found is None else str(found)


TABLES = {
    ("policy", "poddisruptionbudgets"): (
        NAME,
        Column("Min Available", object_cell(lambda budget: _amount(budget, "spec.minAvailable"))),
        Column(
            "Max Unavailable", object_cell(lambda budget: _amount(budget, "spec.maxUnavailable"))
        ),
        integer("Allowed Disruptions", number("status.disruptionsAllowed")),
        AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        NAME,
        integer("Value", number("value")),
        boolean("Global-Default", flag("globalDefault")),
        AGE,
        Column("PreemptionPolicy", text("preemptionPolicy")),
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        NAME,
        Column(
            "Reference",
            object_cell(lambda scaler: "{kind}/{name}".format(**scaler["spec"]["scaleTargetRef"])),
        ),
        Column("Targets", object_cell(metric_targets)),
        Column(
            "MinPods", object_cell(lambda scaler: str(scaler["spec"].get("minReplicas", UNSET)))
        ),
        Column("MaxPods", number("spec.maxReplicas")),
        Column("Replicas", number("status.currentReplicas")),
        AGE,
    ),
    ("resource.k8s.io", "deviceclasses"): (NAME, AGE),
    ("resource.k8s.io", "resourceclaims"): (NAME, Column("State", object_cell(_claim_state)), AGE),
    ("resource.k8s.io", "resourceclaimtemplates"): (NAME, AGE),
    ("resource.k8s.io", "resourceslices"): (
        NAME,
        Column("Node", text("spec.nodeName")),
        Column("Driver", text("spec.driver")),
        Column("Pool", text("spec.pool.name")),
        AGE,
    ),
}
