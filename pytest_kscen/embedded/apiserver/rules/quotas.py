"""Rules of ResourceQuotas and LimitRanges.

Enforcement is admission's task; only the objects are validated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules.checks import IMMUTABLE, Causes, validate_name
from pytest_kscen.embedded.apiserver.rules.fields import (
    clear_status,
    keep_spec,
    keep_status,
    round_quantities,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import (
    HUGE_PAGES,
    STANDARD_RESOURCES,
    is_overcommit_allowed,
    validate_container_resource_name,
    validate_quantity,
    validate_resource_name,
)
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

UNQUOTABLE = frozenset({"storage"})
POD_SCOPES = (
    "Terminating",
    "NotTerminating",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
QUOTA_SCOPES = frozenset({*POD_SCOPES, "BestEffort", "VolumeAttributesClass"})
POD_RESOURCES = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
CLAIM_RESOURCES = frozenset({"persistentvolumeclaims", "requests.storage"})
CONFLICTING_SCOPES = (
    frozenset({"BestEffort", "NotBestEffort"}),
    frozenset({"Terminating", "NotTerminating"}),
)
EXISTS_ONLY_SCOPES = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)
LIMIT_TYPES = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
LIMIT_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_EXISTS_REQUIRED = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def default_quota(obj: Obj) -> None:
    for kind in ("spec", "status"):
        for field in ("hard", "used"):
            if field in (obj.get(kind) or {}):
                round_quantities(obj[kind][field])


def _validate_quota_amounts(path: str, given: Obj) -> Causes:
    for name, quantity in given.items():
        here = f"{path}[{name}]"
        yield from validate_resource_name(here, name)
        known = name in STANDARD_RESOURCES - UNQUOTABLE or name.startswith(
            (HUGE_PAGES, f"requests.{HUGE_PAGES}")
        )
        if "/" not in name and not known:
            yield Cause.invalid(here, name, "must be a standard resource for quota")
        yield from validate_quantity(f"{path}[{name}]", name, quantity)


def validate_quota(obj: Obj) -> Causes:
    spec = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    yield from _validate_quota_amounts("spec.hard", hard)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in QUOTA_SCOPES:
            yield Cause.invalid("spec.scopes", scopes, "unsupported scope")
        for name in sorted(hard):
            if not _scope_applies(scope, name):
                yield Cause.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    yield from _validate_scope_conflicts("spec.scopes", scopes, scopes)
    if "scopeSelector" in spec:
        yield from _validate_scope_selector("spec.scopeSelector.matchExpressions", spec, hard)


def _scope_applies(scope: str, name: str) -> bool:
    """Report whether a quota scope applies to a resource. A scope of pods applies to compute
    resources and pods, for instance.
    """
    if name not in STANDARD_RESOURCES - UNQUOTABLE and not name.startswith(
        (HUGE_PAGES, f"requests.{HUGE_PAGES}")
    ):
        return True
    if scope in POD_SCOPES:
        return name in POD_RESOURCES
    if scope == "BestEffort":
        return name == "pods"
    return name in CLAIM_RESOURCES if scope == "VolumeAttributesClass" else True


def _validate_scope_conflicts(path: str, scopes: list[str], shown: Any) -> Causes:
    for pair in CONFLICTING_SCOPES:
        if pair <= set(scopes):
            yield Cause.invalid(path, shown, "conflicting scopes")


def _validate_scope_selector(path: str, spec: Obj, hard: Obj) -> Causes:
    selector, seen = spec["scopeSelector"], []
    for part in selector.get("matchExpressions") or ():
        scope, operator, values = (
            part.get("scopeName", ""),
            part.get("operator", ""),
            part.get("values") or [],
        )
        seen.append(scope)
        if scope not in QUOTA_SCOPES:
            yield Cause.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for name in sorted(hard):
            if not _scope_applies(scope, name):
                yield Cause.invalid(path, selector, "unsupported scope applied to resource")
        if scope in EXISTS_ONLY_SCOPES and operator != "Exists":
            yield Cause.invalid(f"{path}.operator", operator, _EXISTS_REQUIRED)
        if operator in {"In", "NotIn"}:
            if not values:
                detail = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )
                yield Cause.required(f"{path}.values", detail)
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                detail = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )
                yield Cause.invalid(f"{path}.values", values, detail)
        else:
            yield Cause.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from _validate_scope_conflicts(path, seen, spec.get("scopes"))


def validate_quota_update(new: Obj, old: Obj) -> Causes:
    yield from validate_quota(new)
    scopes, before = (obj.get("spec", {}).get("scopes") or [] for obj in (new, old))
    if set(scopes) != set(before):
        yield Cause.invalid("spec.scopes", scopes or None, IMMUTABLE)


def validate_quota_status(new: Obj, _: Obj) -> Causes:
    for field in ("hard", "used"):
        yield from _validate_quota_amounts(
            f"status.{field}", (new.get("status") or {}).get(field) or {}
        )


def prepare_limit_range_create(obj: Obj, core: Core) -> None:
    """Set a uid as the name of a nameless LimitRange, the only kind that the real server names
    itself.
    """
    if not obj["metadata"]["name"]:
        obj["metadata"]["name"] = core.uid()


def default_limit_range(obj: Obj) -> None:
    for limit in obj["spec"].get("limits") or ():
        for field in LIMIT_FIELDS:
            if field in limit:
                round_quantities(limit[field])
        if limit.get("type") == "Container":
            # Absent defaults follow from max, absent default requests from the defaults and min.
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            for part, value in (("default", default), ("defaultRequest", request)):
                if value:
                    limit[part] = value


def validate_limit_range(obj: Obj) -> Causes:
    seen: set[str] = set()
    for index, limit in enumerate(obj["spec"].get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type", "")
        here = f"{path}.type"
        wrong = names.label_key(kind)
        yield from validate_name(here, kind, names.label_key)
        if not wrong and "/" not in kind and kind not in LIMIT_TYPES:
            yield Cause.invalid(here, kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield Cause.duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _validate_limit_names(path, limit)
        present = [limit.get(field) or {} for field in LIMIT_FIELDS]
        for name in dict.fromkeys(name for listed in present for name in listed):
            # Amounts of one resource are ordered: min, default request, default, max.
            given: dict[str, str | None] = {
                field: (limit.get(field) or {}).get(name) for field in LIMIT_FIELDS
            }
            if kind == "Pod":
                given = {**given, "default": None, "defaultRequest": None}
            for field, shown, low, low_words, high, high_words in LIMIT_ORDER:
                lower, higher = given[low], given[high]
                if (
                    lower is not None
                    and higher is not None
                    and quantities.compare(lower, higher) > 0
                ):
                    detail = (
                        f"{low_words} value {lower} is greater than {high_words} value {higher}"
                    )
                    yield Cause.invalid(f"{path}.{field}[{name}]", given[shown], detail)
            ratio = given["maxLimitRequestRatio"]
            if ratio is not None:
                yield from _validate_ratio(
                    f"{path}.maxLimitRequestRatio[{name}]", ratio, given["min"], given["max"]
                )
            default, request = given["default"], given["defaultRequest"]
            if (
                default is not None
                and request is not None
                and not is_overcommit_allowed(name)
                and quantities.compare(default, request)
            ):
                detail = (
                    f"default value {default} must equal to defaultRequest value {request} in "
                    f"{name}"
                )
                yield Cause.invalid(f"{path}.defaultRequest[{name}]", request, detail)


def _validate_limit_names(path: str, limit: Obj) -> Causes:
    kind = limit.get("type", "")
    check = (
        validate_container_resource_name if kind in {"Pod", "Container"} else validate_resource_name
    )
    for field in LIMIT_FIELDS:
        if kind == "Pod" and field in {"default", "defaultRequest"}:
            if limit.get(field):
                yield Cause.forbidden(
                    f"{path}.{field}", "may not be specified when `type` is 'Pod'"
                )
        elif (
            field == "maxLimitRequestRatio"
            and kind == "PersistentVolumeClaim"
            and not any("storage" in (limit.get(field) or {}) for field in ("min", "max"))
        ):
            detail = "either minimum or maximum storage value is required, but neither was provided"
            yield Cause.required(f"{path}.limits", detail)
            yield from _validate_resource_names(f"{path}.{field}", limit.get(field), check)
        else:
            yield from _validate_resource_names(f"{path}.{field}", limit.get(field), check)


def _validate_resource_names(path: str, listed: Obj | None, check: Any) -> Causes:
    for name in listed or ():
        yield from check(f"{path}[{name}]", name)


def _validate_ratio(path: str, ratio: str, least: str | None, most: str | None) -> Causes:
    if quantities.compare(ratio, "1") < 0:
        yield Cause.invalid(path, ratio, f"ratio {ratio} is less than 1")
    if least is not None and most is not None and quantities.nanos(least):
        largest = quantities.nanos(most) / quantities.nanos(least)
        if quantities.nanos(ratio) / quantities.NANO > largest:
            yield Cause.invalid(path, ratio, f"ratio {ratio} is greater than max/min = {largest:f}")


LIMIT_ORDER = (  # field of the cause, field of its value, lower and higher field with their words
    ("min", "min", "min", "min", "max", "max"),
    ("defaultRequest", "defaultRequest", "min", "min", "defaultRequest", "default request"),
    ("defaultRequest", "defaultRequest", "defaultRequest", "default request", "max", "max"),
    (
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "default request",
        "default",
        "default limit",
    ),
    ("default", "min", "min", "min", "default", "default"),
    ("default", "max", "default", "default", "max", "max"),
)


def validate_limit_range_update(new: Obj, _old: Obj) -> Causes:
    return validate_limit_range(new)


RULES = {
    ("", "resourcequotas"): Rules(
        default=default_quota,
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_quota,
        validate_update=validate_quota_update,
        parts={"status": SubresourceRules(keep_spec, validate_quota_status)},
        qualified_finalizers=True,
        generation=None,
    ),
    ("", "limitranges"): Rules(
        owned_empty_lists=("spec.limits",),
        default=default_limit_range,
        prepare_create=prepare_limit_range_create,
        validate=validate_limit_range,
        validate_update=validate_limit_range_update,
        qualified_finalizers=True,
        generation=None,
        create_on_update=True,
    ),
}
