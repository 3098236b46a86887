"""Rules of HorizontalPodAutoscalers in `autoscaling/v1` and `autoscaling/v2`.

The store keeps v2. A v1 object holds everything but the CPU target in annotations, and is validated
after conversion to v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.conversions import (
    AUTOSCALING_V1,
    SPEC_ANNOTATIONS,
    STATUS_ANNOTATIONS,
    AutoscalerV1Conversion,
)
from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import keep_spec, keep_status, set_defaults
from pytest_kscen.embedded.apiserver.rules.pods.resources import validate_container_resource_name
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

V1_CONVERSION = AutoscalerV1Conversion()
MAX_PERIOD_SECONDS, MAX_WINDOW_SECONDS = 1800, 3600
SELECT_POLICIES, POLICY_TYPES = ("Disabled", "Max", "Min"), ("Percent", "Pods")
METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
TARGET_TYPES = frozenset({"Utilization", "Value", "AverageValue"})
_OTHER_SOURCE, _MISSING_SOURCE = (
    "must populate the given metric source only",
    "must populate information for the given metric source",
)
_MISSING_TARGET = "must set either a target raw value or a target utilization"


METRIC_SOURCES: dict[str, Callable[[str, Obj], Causes]] = {}


def default_autoscaler(obj: Obj) -> None:
    spec = obj["spec"]
    set_defaults(spec, {"minReplicas": 1})
    if obj["apiVersion"] == AUTOSCALING_V1:
        obj.update(V1_CONVERSION.to_served(V1_CONVERSION.to_stored(obj)))
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if "behavior" in spec:
        up = {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [_scaling_policy("Pods", 4), _scaling_policy("Percent", 100)],
        }
        down = {"selectPolicy": "Max", "policies": [_scaling_policy("Percent", 100)]}
        given = spec["behavior"]
        if any(
            set(rules) - set(given.get(way) or {})
            for way, rules in (("scaleUp", up), ("scaleDown", down))
        ):
            synchronized = {
                "scaleUp": {**up, **(given.get("scaleUp") or {})},
                "scaleDown": {**down, **(given.get("scaleDown") or {})},
            }
            spec["behavior"] = {**given, **synchronized}


def _scaling_policy(kind: str, value: int) -> Obj:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _as_v2(obj: Obj) -> Obj:
    return V1_CONVERSION.to_stored(obj) if obj["apiVersion"] == AUTOSCALING_V1 else obj


def validate_autoscaler(obj: Obj) -> Causes:
    return _validate_spec(_as_v2(obj)["spec"], lowest=1)


def validate_autoscaler_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"] or new["apiVersion"] == AUTOSCALING_V1:
        new, old = _as_v2(new), _as_v2(old)
        same = all(
            _scale_target(new).get(field) == _scale_target(old).get(field)
            for field in ("apiVersion", "kind")
        )
        yield from _validate_spec(
            new["spec"], lowest=int(old["spec"].get("minReplicas", 1) != 0), known=same
        )


def _scale_target(obj: Obj) -> Obj:
    return obj["spec"].get("scaleTargetRef") or {}


def _validate_spec(spec: Obj, *, lowest: int, known: bool = False) -> Causes:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < lowest:
        yield Cause.invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}")
    if not most:
        yield Cause.required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield Cause.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield Cause.invalid(
            "spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"
        )
    reference = spec.get("scaleTargetRef") or {}
    groupless = known or reference.get("kind") == "ReplicationController"
    yield from _validate_object_reference(
        "spec.scaleTargetRef", reference, groupless=groupless, validate_version=not known
    )
    kinds = [metric.get("type") for metric in spec.get("metrics") or ()]
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _validate_metric(f"spec.metrics[{index}]", metric)
    if least == 0 and not {"Object", "External"} & set(kinds):
        detail = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        yield Cause.forbidden("spec.metrics", detail)
    for way in ("scaleUp", "scaleDown"):
        if way in spec.get("behavior", {}):
            yield from _validate_scaling_rules(f"spec.behavior.{way}", spec["behavior"][way])


def _validate_object_reference(
    path: str, given: Obj, *, groupless: bool, validate_version: bool = True
) -> Causes:
    for field in ("kind", "name"):
        yield from checks.validate_required_name(
            f"{path}.{field}", given.get(field), names.path_segment
        )
    version = given.get("apiVersion", "")
    if not validate_version:
        return
    if version.count("/") > 1:
        yield Cause.invalid(
            f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"
        )
    elif not groupless and "/" not in version:
        yield Cause.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _validate_scaling_rules(path: str, rules: Obj) -> Causes:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield Cause.invalid(
            f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > MAX_WINDOW_SECONDS:
        yield Cause.invalid(
            f"{path}.stabilizationWindowSeconds",
            window,
            f"must be less than or equal to {MAX_WINDOW_SECONDS}",
        )
    if "selectPolicy" in rules:
        yield from checks.validate_enum(
            f"{path}.selectPolicy", rules["selectPolicy"], SELECT_POLICIES
        )
    if not rules.get("policies"):
        yield Cause.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        here, period = f"{path}.policies[{index}]", policy.get("periodSeconds", 0)
        yield from checks.validate_enum(f"{here}.type", policy.get("type", ""), POLICY_TYPES)
        for field in ("value", "periodSeconds"):
            if policy.get(field, 0) <= 0:
                yield Cause.invalid(
                    f"{here}.{field}", policy.get(field, 0), "must be greater than zero"
                )
        if period > MAX_PERIOD_SECONDS:
            yield Cause.invalid(
                f"{here}.periodSeconds",
                period,
                f"must be less than or equal to {MAX_PERIOD_SECONDS}",
            )
    if "tolerance" in rules and quantities.nanos(rules["tolerance"]) < 0:
        yield Cause.invalid(f"{path}.tolerance", rules["tolerance"], checks.NOT_NEGATIVE)


def _validate_metric(path: str, metric: Obj) -> Causes:
    kind, present = metric.get("type", ""), [field for field in METRIC_SOURCES if field in metric]
    if not kind:
        yield Cause.required(f"{path}.type", "must specify a metric source type")
    yield from checks.validate_enum(f"{path}.type", kind, METRIC_TYPES)
    for field in present[:1]:
        yield from METRIC_SOURCES[field](f"{path}.{field}", metric[field])
    expected = kind[:1].lower() + kind[1:]
    if kind not in METRIC_TYPES:
        yield Cause.unsupported(f"{path}.type", kind, METRIC_TYPES)
    elif expected not in metric:
        yield Cause.required(f"{path}.{expected}", _MISSING_SOURCE)
    if len(present) != 1:
        for field in present:
            if field != expected:
                yield Cause.forbidden(f"{path}.{field}", _OTHER_SOURCE)


@checks.registered(METRIC_SOURCES, "object")
def _validate_object_metric(path: str, source: Obj) -> Causes:
    yield from _validate_object_reference(
        f"{path}.describedObject", source.get("describedObject") or {}, groupless=True
    )
    target = _metric_target(source)
    yield from _validate_metric_and_target(path, source)
    if "value" not in target and "averageValue" not in target:
        yield Cause.required(
            f"{path}.target.averageValue", "must set either a target value or averageValue"
        )


@checks.registered(METRIC_SOURCES, "external")
def _validate_external_metric(path: str, source: Obj) -> Causes:
    target = _metric_target(source)
    yield from _validate_metric_and_target(path, source)
    if "value" not in target and "averageValue" not in target:
        detail = "must set either a target value for metric or a per-pod target"
        yield Cause.required(f"{path}.target.averageValue", detail)
    if "value" in target and "averageValue" in target:
        yield Cause.forbidden(
            f"{path}.target.value",
            "may not set both a target value for metric and a per-pod target",
        )


@checks.registered(METRIC_SOURCES, "pods")
def _validate_pods_metric(path: str, source: Obj) -> Causes:
    yield from _validate_metric_and_target(path, source)
    if "averageValue" not in _metric_target(source):
        yield Cause.required(
            f"{path}.target.averageValue", "must specify a positive target averageValue"
        )


@checks.registered(METRIC_SOURCES, "resource")
def _validate_resource_metric(path: str, source: Obj) -> Causes:
    if not source.get("name"):
        yield Cause.required(f"{path}.name", "must specify a resource name")
    yield from _validate_utilization_target(path, source)


@checks.registered(METRIC_SOURCES, "containerResource")
def _validate_container_resource_metric(path: str, source: Obj) -> Causes:
    if source.get("name"):
        yield from validate_container_resource_name(f"{path}.name", source["name"])
    else:
        yield Cause.required(f"{path}.name", "must specify a resource name")
    if source.get("container"):
        yield from checks.validate_name(
            f"{path}.container", source["container"], names.dns1123_label
        )
    else:
        yield Cause.required(f"{path}.container", "must specify a container")
    yield from _validate_utilization_target(path, source)


def _validate_utilization_target(path: str, source: Obj) -> Causes:
    target = _metric_target(source)
    yield from _validate_metric_target(f"{path}.target", target)
    if "averageUtilization" not in target and "averageValue" not in target:
        yield Cause.required(f"{path}.target.averageUtilization", _MISSING_TARGET)
    if "averageUtilization" in target and "averageValue" in target:
        detail = "may not set both a target raw value and a target utilization"
        yield Cause.forbidden(f"{path}.target.averageValue", detail)


def _metric_target(source: Obj) -> dict[str, Any]:
    return source.get("target") or {}


def _validate_metric_and_target(path: str, source: Obj) -> Causes:
    name = (source.get("metric") or {}).get("name")
    if name:
        yield from checks.validate_name(f"{path}.metric.name", name, names.path_segment)
    else:
        yield Cause.required(f"{path}.metric.name", "must specify a metric name")
    yield from _validate_metric_target(f"{path}.target", _metric_target(source))


def _validate_metric_target(path: str, target: Obj) -> Causes:
    kind = target.get("type", "")
    if not kind:
        yield Cause.required(f"{path}.type", "must specify a metric target type")
    if kind not in TARGET_TYPES:
        yield Cause.invalid(
            f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"
        )
    for field in ("value", "averageValue"):
        if field in target and quantities.nanos(target[field]) <= 0:
            yield Cause.invalid(f"{path}.{field}", target[field], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield Cause.invalid(
            f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0"
        )


def prepare_autoscaler_create(obj: Obj, _core: Core) -> None:
    """Set the initial status. Only v1 prints `currentReplicas` of a new object; v2 prints a null
    `currentMetrics` in its place.
    """
    obj["status"] = {
        "desiredReplicas": 0,
        **(
            {"currentReplicas": 0}
            if obj["apiVersion"] == AUTOSCALING_V1
            else {"currentMetrics": None}
        ),
    }


def prepare_autoscaler_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _keep_annotations(new, old, STATUS_ANNOTATIONS)


def prepare_autoscaler_status(new: Obj, old: Obj, core: Core) -> None:
    keep_spec(new, old, core)
    _keep_annotations(new, old, SPEC_ANNOTATIONS)


def _keep_annotations(new: Obj, old: Obj, preserved: Iterable[str]) -> None:
    """Restore the stored values of conversion annotations in a v1 object.

    In v1 some annotations belong to the status and others to the spec, so a write to one part must
    not change those of the other.
    """
    if new["apiVersion"] == AUTOSCALING_V1:
        before = old["metadata"].get("annotations") or {}
        notes = {
            name: note
            for name, note in (new["metadata"].get("annotations") or {}).items()
            if name not in preserved
        }
        notes |= {name: before[name] for name in preserved if name in before}
        rest = {name: value for name, value in new["metadata"].items() if name != "annotations"}
        new["metadata"] = {**rest, **({"annotations": notes} if notes else {})}


def validate_autoscaler_status(new: Obj, _: Obj) -> Causes:
    return checks.validate_nonnegative_fields(
        "status", new.get("status") or {}, ("currentReplicas", "desiredReplicas")
    )


RULES = {
    ("autoscaling", "horizontalpodautoscalers"): Rules(
        default=default_autoscaler,
        prepare_create=prepare_autoscaler_create,
        prepare_update=prepare_autoscaler_update,
        validate=validate_autoscaler,
        validate_update=validate_autoscaler_update,
        parts={"status": SubresourceRules(prepare_autoscaler_status, validate_autoscaler_status)},
        qualified_finalizers=True,
        generation=None,
    )
}
