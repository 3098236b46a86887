"""HorizontalPodAutoscalers.

The old version says cpu alone, and what else there is in annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.conversions import (
    AUTOSCALING_V1,
    OF_SPEC,
    OF_STATUS,
    OlderAutoscalers,
)
from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import fill, keep_spec, keep_status
from pytest_kscen.embedded.apiserver.rules.pods.resources import container_resource_name
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

CONVERSION = OlderAutoscalers()
LONGEST_PERIOD, LONGEST_WINDOW = 1800, 3600
SELECT_POLICIES, POLICY_TYPES = ("Disabled", "Max", "Min"), ("Percent", "Pods")
METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
TARGETS = frozenset({"Utilization", "Value", "AverageValue"})
_ONE_ONLY, _MISSING = (
    "must populate the given metric source only",
    "must populate information for the given metric source",
)
_RAW = "must set either a target raw value or a target utilization"


def default(obj: Obj) -> None:
    spec = obj["spec"]
    fill(spec, {"minReplicas": 1})
    if obj["apiVersion"] == AUTOSCALING_V1:
        obj.update(CONVERSION.show(CONVERSION.keep(obj)))
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if "behavior" in spec:
        up = {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [_policy("Pods", 4), _policy("Percent", 100)],
        }
        down = {"selectPolicy": "Max", "policies": [_policy("Percent", 100)]}
        given = spec["behavior"]
        if any(
            set(rules) - set(given.get(way) or {})
            for way, rules in (("scaleUp", up), ("scaleDown", down))
        ):
            settled = {
                "scaleUp": {**up, **(given.get("scaleUp") or {})},
                "scaleDown": {**down, **(given.get("scaleDown") or {})},
            }
            spec["behavior"] = {**given, **settled}


def _policy(kind: str, value: int) -> Obj:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _newest(obj: Obj) -> Obj:
    return CONVERSION.keep(obj) if obj["apiVersion"] == AUTOSCALING_V1 else obj


def validate(obj: Obj) -> Causes:
    return _spec(_newest(obj)["spec"], lowest=1)


def validate_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"] or new["apiVersion"] == AUTOSCALING_V1:
        new, old = _newest(new), _newest(old)
        same = all(
            _target(new).get(field) == _target(old).get(field) for field in ("apiVersion", "kind")
        )
        yield from _spec(
            new["spec"], lowest=int(old["spec"].get("minReplicas", 1) != 0), known=same
        )


def _target(obj: Obj) -> Obj:
    return obj["spec"].get("scaleTargetRef") or {}


def _spec(spec: Obj, *, lowest: int, known: bool = False) -> Causes:
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
    yield from _reference("spec.scaleTargetRef", reference, groupless=groupless, judged=not known)
    kinds = [metric.get("type") for metric in spec.get("metrics") or ()]
    for place, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(f"spec.metrics[{place}]", metric)
    if least == 0 and not {"Object", "External"} & set(kinds):
        why = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        yield Cause.forbidden("spec.metrics", why)
    for way in ("scaleUp", "scaleDown"):
        if way in spec.get("behavior", {}):
            yield from _behavior(f"spec.behavior.{way}", spec["behavior"][way])


def _reference(path: str, given: Obj, *, groupless: bool, judged: bool = True) -> Causes:
    for field in ("kind", "name"):
        yield from checks.required_name(f"{path}.{field}", given.get(field), names.path_segment)
    version = given.get("apiVersion", "")
    if not judged:
        return
    if version.count("/") > 1:
        yield Cause.invalid(
            f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"
        )
    elif not groupless and "/" not in version:
        yield Cause.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _behavior(path: str, rules: Obj) -> Causes:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield Cause.invalid(
            f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > LONGEST_WINDOW:
        yield Cause.invalid(
            f"{path}.stabilizationWindowSeconds",
            window,
            f"must be less than or equal to {LONGEST_WINDOW}",
        )
    if "selectPolicy" in rules:
        yield from checks.one_of(f"{path}.selectPolicy", rules["selectPolicy"], SELECT_POLICIES)
    if not rules.get("policies"):
        yield Cause.required(f"{path}.policies", "must specify at least one Policy")
    for place, policy in enumerate(rules.get("policies") or ()):
        here, period = f"{path}.policies[{place}]", policy.get("periodSeconds", 0)
        yield from checks.one_of(f"{here}.type", policy.get("type", ""), POLICY_TYPES)
        for field in ("value", "periodSeconds"):
            if policy.get(field, 0) <= 0:
                yield Cause.invalid(
                    f"{here}.{field}", policy.get(field, 0), "must be greater than zero"
                )
        if period > LONGEST_PERIOD:
            yield Cause.invalid(
                f"{here}.periodSeconds", period, f"must be less than or equal to {LONGEST_PERIOD}"
            )
    if "tolerance" in rules and quantities.nanos(rules["tolerance"]) < 0:
        yield Cause.invalid(f"{path}.tolerance", rules["tolerance"], checks.NOT_NEGATIVE)


def _metric(path: str, metric: Obj) -> Causes:
    kind, present = metric.get("type", ""), [field for field in SOURCES if field in metric]
    if not kind:
        yield Cause.required(f"{path}.type", "must specify a metric source type")
    yield from checks.one_of(f"{path}.type", kind, METRIC_TYPES)
    for field in present[:1]:
        yield from SOURCES[field](f"{path}.{field}", metric[field])
    expected = kind[:1].lower() + kind[1:]
    if kind not in METRIC_TYPES:
        yield Cause.unsupported(f"{path}.type", kind, METRIC_TYPES)
    elif expected not in metric:
        yield Cause.required(f"{path}.{expected}", _MISSING)
    if len(present) != 1:
        for field in present:
            if field != expected:
                yield Cause.forbidden(f"{path}.{field}", _ONE_ONLY)


def _object(path: str, source: Obj) -> Causes:
    yield from _reference(
        f"{path}.describedObject", source.get("describedObject") or {}, groupless=True
    )
    target = _target_of(source)
    yield from _named_target(path, source)
    if "value" not in target and "averageValue" not in target:
        yield Cause.required(
            f"{path}.target.averageValue", "must set either a target value or averageValue"
        )


def _external(path: str, source: Obj) -> Causes:
    target = _target_of(source)
    yield from _named_target(path, source)
    if "value" not in target and "averageValue" not in target:
        why = "must set either a target value for metric or a per-pod target"
        yield Cause.required(f"{path}.target.averageValue", why)
    if "value" in target and "averageValue" in target:
        yield Cause.forbidden(
            f"{path}.target.value",
            "may not set both a target value for metric and a per-pod target",
        )


def _pods(path: str, source: Obj) -> Causes:
    yield from _named_target(path, source)
    if "averageValue" not in _target_of(source):
        yield Cause.required(
            f"{path}.target.averageValue", "must specify a positive target averageValue"
        )


def _resource(path: str, source: Obj) -> Causes:
    if not source.get("name"):
        yield Cause.required(f"{path}.name", "must specify a resource name")
    yield from _utilization(path, source)


def _container_resource(path: str, source: Obj) -> Causes:
    if source.get("name"):
        yield from container_resource_name(f"{path}.name", source["name"])
    else:
        yield Cause.required(f"{path}.name", "must specify a resource name")
    if source.get("container"):
        yield from checks.named(f"{path}.container", source["container"], names.dns1123_label)
    else:
        yield Cause.required(f"{path}.container", "must specify a container")
    yield from _utilization(path, source)


def _utilization(path: str, source: Obj) -> Causes:
    target = _target_of(source)
    yield from _target_causes(f"{path}.target", target)
    if "averageUtilization" not in target and "averageValue" not in target:
        yield Cause.required(f"{path}.target.averageUtilization", _RAW)
    if "averageUtilization" in target and "averageValue" in target:
        why = "may not set both a target raw value and a target utilization"
        yield Cause.forbidden(f"{path}.target.averageValue", why)


def _target_of(source: Obj) -> dict[str, Any]:
    return source.get("target") or {}


def _named_target(path: str, source: Obj) -> Causes:
    name = (source.get("metric") or {}).get("name")
    if name:
        yield from checks.named(f"{path}.metric.name", name, names.path_segment)
    else:
        yield Cause.required(f"{path}.metric.name", "must specify a metric name")
    yield from _target_causes(f"{path}.target", _target_of(source))


def _target_causes(path: str, target: Obj) -> Causes:
    kind = target.get("type", "")
    if not kind:
        yield Cause.required(f"{path}.type", "must specify a metric target type")
    if kind not in TARGETS:
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


SOURCES: dict[str, Callable[[str, Obj], Causes]] = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container_resource,
}


def create(obj: Obj, _core: Core) -> None:
    """Only the older version prints the replicas of now."""
    obj["status"] = {
        "desiredReplicas": 0,
        **(
            {"currentReplicas": 0}
            if obj["apiVersion"] == AUTOSCALING_V1
            else {"currentMetrics": None}
        ),
    }


def update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _keep_notes(new, old, OF_STATUS)


def update_status(new: Obj, old: Obj, core: Core) -> None:
    keep_spec(new, old, core)
    _keep_notes(new, old, OF_SPEC)


def _keep_notes(new: Obj, old: Obj, ours: Iterable[str]) -> None:
    """In the older version these annotations are a part of the status, or of the spec."""
    if new["apiVersion"] == AUTOSCALING_V1:
        before = old["metadata"].get("annotations") or {}
        notes = {
            name: note
            for name, note in (new["metadata"].get("annotations") or {}).items()
            if name not in ours
        }
        notes |= {name: before[name] for name in ours if name in before}
        rest = {name: value for name, value in new["metadata"].items() if name != "annotations"}
        new["metadata"] = {**rest, **({"annotations": notes} if notes else {})}


def status(new: Obj, _: Obj) -> Causes:
    return checks.none_negative(
        "status", new.get("status") or {}, ("currentReplicas", "desiredReplicas")
    )


RULES = {
    ("autoscaling", "horizontalpodautoscalers"): Rules(
        default=default,
        prepare_create=create,
        prepare_update=update,
        validate=validate,
        validate_update=validate_update,
        parts={"status": Part(update_status, status)},
        qualified_finalizers=True,
        generation=None,
    )
}
