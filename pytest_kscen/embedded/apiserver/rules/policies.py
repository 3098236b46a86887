"""Rules of PodDisruptionBudgets, PriorityClasses, RuntimeClasses and Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_DISRUPTION_BUDGET_SPEC,
    GO_TOLERATION,
    as_go_struct,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    keep_spec,
    keep_status,
    never_changes,
    round_quantities,
    set_defaults,
    status_initializer,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import validate_requirements
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import validate_tolerations
from pytest_kscen.embedded.apiserver.rules.pods.spec import PREEMPTION_POLICIES
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

MAX_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_PRIORITIES = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
BUDGET_COUNTERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
COORDINATED_ELECTION_FIELDS = frozenset(["strategy", "preferredHolder"])


def validate_budget(obj: Obj) -> Causes:
    spec = obj.get("spec") or {}
    limits = [field for field in ("minAvailable", "maxUnavailable") if field in spec]
    if len(limits) > 1:
        yield Cause.invalid(
            "spec",
            as_go_struct(GO_DISRUPTION_BUDGET_SPEC, spec),
            "minAvailable and maxUnavailable cannot be both set",
        )
    for field in limits:
        yield from checks.validate_int_or_percent(f"spec.{field}", spec[field])
        yield from checks.validate_at_most_100_percent(f"spec.{field}", spec[field])
    yield from checks.validate_label_selector("spec.selector", spec.get("selector"))
    if "unhealthyPodEvictionPolicy" in spec:
        policies = ("AlwaysAllow", "IfHealthyBudget")
        yield from checks.validate_enum(
            "spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], policies
        )


def validate_budget_update(new: Obj, old: Obj) -> Causes:
    if new.get("spec") is not old.get("spec"):
        yield from validate_budget(new)


def validate_budget_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.validate_conditions("status.conditions", status.get("conditions"))
    yield from checks.validate_nonnegative_fields("status", status, BUDGET_COUNTERS)


def default_priority_class(obj: Obj) -> None:
    set_defaults(obj, {"preemptionPolicy": "PreemptLowerPriority"})


def validate_priority_class(obj: Obj) -> Causes:
    name, value = obj["metadata"]["name"], obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        is_default = bool(obj.get("globalDefault"))
        known = SYSTEM_PRIORITIES.get(name)
        if known is None:
            fault: str = f"{name} is not a known system priority class"
        elif value != known:
            fault = f"value of {name} PriorityClass must be {known}"
        else:
            fault = f"globalDefault of {name} PriorityClass must be false" if is_default else ""
        if fault:
            detail = (
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {fault}"
            )
            yield Cause.forbidden("metadata.name", detail)
    elif value > MAX_USER_PRIORITY:
        yield Cause.forbidden(
            "value", f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        )
    if "preemptionPolicy" in obj:
        yield from checks.validate_required_enum(
            "preemptionPolicy", obj["preemptionPolicy"], PREEMPTION_POLICIES
        )


def validate_priority_class_update(new: Obj, old: Obj) -> Causes:
    if new.get("value", 0) != old.get("value", 0):
        yield Cause.forbidden("value", "may not be changed in an update.")
    yield from checks.validate_immutable(
        "preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy")
    )


def default_runtime_class(obj: Obj) -> None:
    if obj.get("overhead", {}).get("podFixed"):
        round_quantities(obj["overhead"]["podFixed"])


def validate_runtime_class(obj: Obj) -> Causes:
    yield from checks.validate_required_name("handler", obj.get("handler"), names.dns1123_label)
    fixed = obj.get("overhead", {}).get("podFixed")
    if fixed:
        yield from validate_requirements("overhead", {"limits": fixed}, frozenset())
    scheduling = obj.get("scheduling") or {}
    yield from checks.validate_labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    given = scheduling.get("tolerations") or ()
    yield from validate_tolerations("scheduling.tolerations", given)
    keys = [
        {name: value for name, value in one.items() if name != "tolerationSeconds"} for one in given
    ]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield Cause.duplicate(
                f"scheduling.tolerations[{index}]", as_go_struct(GO_TOLERATION, given[index])
            )


def validate_runtime_class_update(new: Obj, old: Obj) -> Causes:
    yield from validate_runtime_class(new)
    yield from checks.validate_immutable("handler", new.get("handler"), old.get("handler"))


def prepare_lease_create(obj: Obj, _core: Core) -> None:
    _drop_coordinated_fields(obj)


def prepare_lease_update(new: Obj, _old: Obj, _core: Core) -> None:
    _drop_coordinated_fields(new)


def _drop_coordinated_fields(obj: Obj) -> None:
    """Remove the fields of coordinated leader election, a feature that is disabled by default."""
    spec = obj.get("spec") or {}
    if not COORDINATED_ELECTION_FIELDS.isdisjoint(spec):
        obj["spec"] = {
            name: value for name, value in spec.items() if name not in COORDINATED_ELECTION_FIELDS
        }


def validate_lease(obj: Obj) -> Causes:
    spec = obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield Cause.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield Cause.invalid(
            "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
        )


def validate_lease_update(new: Obj, _old: Obj) -> Causes:
    return validate_lease(new)


RULES = {
    ("policy", "poddisruptionbudgets"): Rules(
        metadata_last=True,
        prepare_create=status_initializer(
            currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0
        ),
        prepare_update=keep_status,
        validate=validate_budget,
        validate_update=validate_budget_update,
        parts={"status": SubresourceRules(keep_spec, validate_budget_status)},
        name=names.path_segment,
        unconditional_update=False,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Rules(
        default=default_priority_class,
        validate=validate_priority_class,
        validate_update=validate_priority_class_update,
        qualified_finalizers=True,
        generation=never_changes,
    ),
    ("node.k8s.io", "runtimeclasses"): Rules(
        default=default_runtime_class,
        validate=validate_runtime_class,
        validate_update=validate_runtime_class_update,
        generation=None,
        unconditional_update=False,
        create_on_update=True,
    ),
    ("coordination.k8s.io", "leases"): Rules(
        prepare_create=prepare_lease_create,
        prepare_update=prepare_lease_update,
        validate=validate_lease,
        validate_update=validate_lease_update,
        generation=None,
        unconditional_update=False,
        create_on_update=True,
    ),
}
