"""Conversions between two served versions of one stored kind.

Events: events.k8s.io/v1 stored as core/v1. HorizontalPodAutoscalers: v1 stored as v2. Used through
`kinds.Kind.conversion`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.objects.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.kinds import Conversion
    from pytest_kscen.objects.resources import Obj


AUTOSCALING_V1, AUTOSCALING_V2 = "autoscaling/v1", "autoscaling/v2"
PREFIX = "autoscaling.alpha.kubernetes.io"
METRICS, BEHAVIOR = f"{PREFIX}/metrics", f"{PREFIX}/behavior"
CURRENT_METRICS, CONDITIONS = f"{PREFIX}/current-metrics", f"{PREFIX}/conditions"
SPEC_ANNOTATIONS, STATUS_ANNOTATIONS = (METRICS, BEHAVIOR), (CURRENT_METRICS, CONDITIONS)
DEFAULT_CPU = 80
SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "targetValue": ("target", "value"),
        "currentValue": ("current", "value"),
        "selector": ("metric", "selector"),
        "averageValue": ("target", "averageValue"),
    },
    "pods": {
        "metricName": ("metric", "name"),
        "targetAverageValue": ("target", "averageValue"),
        "currentAverageValue": ("current", "averageValue"),
        "selector": ("metric", "selector"),
    },
    "resource": {
        "name": ("name",),
        "targetAverageUtilization": ("target", "averageUtilization"),
        "targetAverageValue": ("target", "averageValue"),
        "currentAverageUtilization": ("current", "averageUtilization"),
        "currentAverageValue": ("current", "averageValue"),
    },
    "external": {
        "metricName": ("metric", "name"),
        "metricSelector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
        "currentValue": ("current", "value"),
        "currentAverageValue": ("current", "averageValue"),
    },
}
SOURCES["containerResource"] = {**SOURCES["resource"], "container": ("container",)}
"""Paths in autoscaling/v2 of the fields of a v2beta1-style metric, as v1's annotations hold it."""


class AutoscalerV1Conversion:
    """`kinds.Conversion` of HorizontalPodAutoscaler v1, stored as v2.

    Annotations of v1 hold the metrics, behavior and conditions that v1 has no fields for.
    """

    home = ("autoscaling", "horizontalpodautoscalers")

    def to_stored(self, obj: Obj) -> Obj:
        notes = obj["metadata"].get("annotations") or {}
        spec, status = dict(obj["spec"]), dict(obj.get("status") or {})
        cpu, used = (
            spec.pop("targetCPUUtilizationPercentage", None),
            status.pop("currentCPUUtilizationPercentage", None),
        )
        metrics = _read_annotation(notes, METRICS) or []
        metrics += (
            [_cpu_metric({"target": {"type": "Utilization", "averageUtilization": cpu}})]
            if cpu is not None
            else []
        )
        spec["metrics"] = metrics or [
            _cpu_metric({"target": {"type": "Utilization", "averageUtilization": DEFAULT_CPU}})
        ]
        if behavior := _read_annotation(notes, BEHAVIOR):
            spec["behavior"] = behavior
        current = _read_annotation(notes, CURRENT_METRICS) or []
        current += (
            [_cpu_metric({"current": {"averageUtilization": used}})]
            if used is not None and not current
            else []
        )
        status["currentMetrics"] = current or None
        if not status.get("currentReplicas"):
            status.pop("currentReplicas", None)
        if conditions := _read_annotation(notes, CONDITIONS):
            status["conditions"] = conditions
        return {
            **obj,
            "apiVersion": AUTOSCALING_V2,
            "metadata": _with_annotations(obj["metadata"], {}),
            "spec": spec,
            "status": status,
        }

    def to_served(self, obj: Obj) -> Obj:
        spec, status = dict(obj["spec"]), dict(obj.get("status") or {})
        metrics, current = spec.pop("metrics", None) or [], status.pop("currentMetrics", None) or []
        annotated_values = {
            METRICS: [
                _older_metric(metric, "target")
                for metric in metrics
                if _cpu_utilization(metric, "target") is None
            ],
            CURRENT_METRICS: [_older_metric(metric, "current") for metric in current],
            BEHAVIOR: _convert_case(spec.pop("behavior", {}), str.upper),
            CONDITIONS: status.pop("conditions", []),
        }
        notes = {
            name: json.dumps(value, separators=(",", ":"))
            for name, value in annotated_values.items()
            if value
        }
        cpu = [use for metric in metrics if (use := _cpu_utilization(metric, "target")) is not None]
        used = [
            use for metric in current if (use := _cpu_utilization(metric, "current")) is not None
        ]
        spec |= {"targetCPUUtilizationPercentage": cpu[0]} if cpu else {}
        status |= {"currentCPUUtilizationPercentage": used[-1]} if used else {}
        status = {"currentReplicas": 0, **status}
        return {
            **obj,
            "apiVersion": AUTOSCALING_V1,
            "metadata": _with_annotations(obj["metadata"], notes),
            "spec": spec,
            "status": status,
        }


def _read_annotation(notes: Obj, name: str) -> Any:
    """Return an annotation's value in v2 form, or None if it is missing or unreadable."""
    if name not in notes:
        return None
    part, field, newer = READINGS[name]
    try:
        stored = {part: {field: newer(json.loads(notes[name]))}}
        decoded = SCHEMA.decode(stored, None, strictness="Ignore", warnings=[])
    except (ValueError, RecursionError, BadRequest):
        return None
    return decoded[part].get(field)


def _newer_metrics(stored: Any, kind: str) -> Any:
    return (
        [_newer_metric(metric, kind) for metric in stored]
        if isinstance(stored, list) and all(isinstance(each, dict) for each in stored)
        else stored
    )


def _with_annotations(metadata: Obj, notes: dict[str, str]) -> Obj:
    """Return metadata with exactly these conversion annotations and all foreign ones."""
    others = {
        name: note
        for name, note in (metadata.get("annotations") or {}).items()
        if name not in {*SPEC_ANNOTATIONS, *STATUS_ANNOTATIONS}
    }
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**rest, **({"annotations": {**others, **notes}} if others or notes else {})}


def _cpu_metric(use: Obj) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", **use}}


def _cpu_utilization(metric: Obj, kind: str) -> int | None:
    """Return the CPU utilization of a metric, or None for other metrics."""
    source = metric.get("resource") or {}
    use: int | None = source.get(kind, {}).get("averageUtilization")
    return use if metric.get("type") == "Resource" and source.get("name") == "cpu" else None


def _newer_metric(metric: Obj, kind: str) -> Obj:
    converted = {"type": metric.get("type", "")}
    for name, fields in SOURCES.items():
        if isinstance(metric.get(name), dict):
            source: Obj = {}
            for older, (part, *inner) in fields.items():
                value = metric[name].get(older)
                if value is None or (inner and part not in {"metric", kind}):
                    continue
                if inner:
                    source.setdefault(part, {})[inner[0]] = value
                else:
                    source[part] = value
            if kind == "target":
                source["target"] = _typed_target(name, source.get("target", {}))
            converted[name] = source
    return converted


def _typed_target(kind: str, target: Obj) -> Obj:
    if "averageUtilization" in target:
        return {"type": "Utilization", **target}
    if kind == "object" and "averageValue" in target:
        return {
            "type": "AverageValue",
            **{name: value for name, value in target.items() if name != "value" or value != "0"},
        }
    return {"type": "Value" if kind == "object" or "value" in target else "AverageValue", **target}


def _older_metric(metric: Obj, kind: str) -> Obj:
    converted = {"type": metric.get("type", "")}
    for name, fields in SOURCES.items():
        if name in metric:
            converted[name] = {
                older: value
                for older, (part, *inner) in fields.items()
                if not inner or part in {"metric", kind}
                if (
                    value := metric[name].get(part, {}).get(inner[0])
                    if inner
                    else metric[name].get(part)
                )
                is not None
            }
    return converted


def _convert_case(value: Any, change_case: Any) -> Any:
    """Convert the case of field names: the annotation has scaling rules with Go's field names."""
    if isinstance(value, dict):
        return {
            change_case(name[0]) + name[1:]: _convert_case(one, change_case)
            for name, one in value.items()
            if one is not None
        }
    return [_convert_case(one, change_case) for one in value] if isinstance(value, list) else value


SCHEMA = BuiltinSchema("autoscaling", "v2", "HorizontalPodAutoscaler")
READINGS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    METRICS: ("spec", "metrics", lambda stored: _newer_metrics(stored, "target")),
    CURRENT_METRICS: ("status", "currentMetrics", lambda stored: _newer_metrics(stored, "current")),
    BEHAVIOR: ("spec", "behavior", lambda stored: _convert_case(stored, str.lower)),
    CONDITIONS: ("status", "conditions", lambda stored: stored),
}
"""For each annotation: its part and field in v2, and the conversion of its value."""


NEWER_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
OLDER_EVENT_FIELDS = {newer: older for older, newer in NEWER_EVENT_FIELDS.items()}
REPORTING_FIELDS = ("reportingComponent", "reportingInstance")
"""Fields shown as empty strings in core/v1 and left out in events.k8s.io/v1."""


class EventsV1Conversion:
    """`kinds.Conversion` of events.k8s.io/v1, stored as core/v1: a renaming of fields."""

    home = ("", "events")

    def to_stored(self, obj: Obj) -> Obj:
        kept = {OLDER_EVENT_FIELDS.get(name, name): value for name, value in obj.items()}
        return {
            **kept,
            "apiVersion": "v1",
            **{name: kept.get(name, "") for name in REPORTING_FIELDS},
        }

    def to_served(self, obj: Obj) -> Obj:
        shown = {
            NEWER_EVENT_FIELDS.get(name, name): value
            for name, value in obj.items()
            if value or name not in REPORTING_FIELDS
        }
        return {**shown, "apiVersion": "events.k8s.io/v1"}


CONVERSIONS: dict[tuple[str, str, str], Conversion] = {
    ("events.k8s.io", "v1", "events"): EventsV1Conversion(),
    ("autoscaling", "v1", "horizontalpodautoscalers"): AutoscalerV1Conversion(),
}
