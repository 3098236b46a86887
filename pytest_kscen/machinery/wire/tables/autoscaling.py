"""What an autoscaler aims at, and where it stands: `cpu: 40%/80%`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.wire.tables.columns import NONE

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

SHOWN = 2
UNKNOWN = "<unknown>"
PARTS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def targets(scaler: Obj) -> str:
    spec, status = scaler.get("spec") or {}, scaler.get("status") or {}
    if "targetCPUUtilizationPercentage" in spec:  # autoscaling/v1
        return _percent("cpu", status.get("currentCPUUtilizationPercentage"), spec["targetCPUUtilizationPercentage"])
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    shown = [_metric(metric, current[place] if place < len(current) else {}) for place, metric in enumerate(metrics[:SHOWN])]
    more = f" + {len(metrics) - SHOWN} more..." if len(metrics) > SHOWN else ""
    return ", ".join(shown) + more or NONE


def _metric(metric: Obj, current: Obj) -> str:
    part = PARTS.get(metric.get("type", ""))
    if part is None:
        return "<unknown type>"
    aim = metric[part].get("target") or {}
    stands = (current.get(part) or {}).get("current") or {}
    if part in ("resource", "containerResource"):
        name = metric[part]["name"]
        if "averageValue" in aim:
            return f"{name}: {stands.get('averageValue', UNKNOWN)}/{aim['averageValue']}"
        return _percent(name, stands.get("averageUtilization"), aim.get("averageUtilization"))
    if part == "pods":
        return f"{stands.get('averageValue', UNKNOWN)}/{aim.get('averageValue')}"
    if "averageValue" in aim:
        return f"{stands.get('averageValue', UNKNOWN)}/{aim['averageValue']} (avg)"
    return f"{stands.get('value', UNKNOWN)}/{aim.get('value')}"


def _percent(name: str, stands: int | None, aim: int | None) -> str:
    shown = UNKNOWN if stands is None else f"{stands}%"
    return f"{name}: {shown}/{'<auto>' if aim is None else f'{aim}%'}"
