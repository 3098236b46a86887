"""PodDisruptionBudgets, PriorityClasses, RuntimeClasses and Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import BUDGET, TOLERATION, internal
from pytest_kscen.embedded.apiserver.rules.fields import (
    fill,
    fresh_status,
    keep_spec,
    keep_status,
    never,
    round_quantities,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import requirements
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import tolerations
from pytest_kscen.embedded.apiserver.rules.pods.spec import PREEMPTION_POLICIES
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

HIGHEST_OF_USERS = 1_000_000_000
SYSTEM = "system-"
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
BUDGET_COUNTERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
COORDINATED = frozenset(["strategy", "preferredHolder"])


def validate_budget(obj: Obj) -> Causes:
    spec = obj.get("spec") or {}
    limits = [field for field in ("minAvailable", "maxUnavailable") if field in spec]
    if len(limits) > 1:
        yield Cause.invalid(
            "spec", internal(BUDGET, spec), "minAvailable and maxUnavailable cannot be both set"
        )
    for field in limits:
        yield from checks.int_or_percent(f"spec.{field}", spec[field])
        yield from checks.not_above_all(f"spec.{field}", spec[field])
    yield from checks.selector("spec.selector", spec.get("selector"))
    if "unhealthyPodEvictionPolicy" in spec:
        policies = ("AlwaysAllow", "IfHealthyBudget")
        yield from checks.one_of(
            "spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], policies
        )


def update_budget(new: Obj, old: Obj) -> Causes:
    if new.get("spec") is not old.get("spec"):
        yield from validate_budget(new)


def budget_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.conditions("status.conditions", status.get("conditions"))
    yield from checks.none_negative("status", status, BUDGET_COUNTERS)


def default_priority(obj: Obj) -> None:
    fill(obj, {"preemptionPolicy": "PreemptLowerPriority"})


def validate_priority(obj: Obj) -> Causes:
    name, value = obj["metadata"]["name"], obj.get("value", 0)
    if name.startswith(SYSTEM):
        is_default = bool(obj.get("globalDefault"))
        known = SYSTEM_CLASSES.get(name)
        if known is None:
            fault: str = f"{name} is not a known system priority class"
        elif value != known:
            fault = f"value of {name} PriorityClass must be {known}"
        else:
            fault = f"globalDefault of {name} PriorityClass must be false" if is_default else ""
        if fault:
            why = (
                f"priority class names with '{SYSTEM}' prefix are reserved for system use "
                f"only. error: {fault}"
            )
            yield Cause.forbidden("metadata.name", why)
    elif value > HIGHEST_OF_USERS:
        yield Cause.forbidden(
            "value", f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
        )
    if "preemptionPolicy" in obj:
        yield from checks.required_one_of(
            "preemptionPolicy", obj["preemptionPolicy"], PREEMPTION_POLICIES
        )


def update_priority(new: Obj, old: Obj) -> Causes:
    if new.get("value", 0) != old.get("value", 0):
        yield Cause.forbidden("value", "may not be changed in an update.")
    yield from checks.immutable(
        "preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy")
    )


def default_runtime(obj: Obj) -> None:
    if obj.get("overhead", {}).get("podFixed"):
        round_quantities(obj["overhead"]["podFixed"])


def validate_runtime(obj: Obj) -> Causes:
    yield from checks.required_name("handler", obj.get("handler"), names.dns1123_label)
    fixed = obj.get("overhead", {}).get("podFixed")
    if fixed:
        yield from requirements("overhead", {"limits": fixed}, frozenset())
    scheduling = obj.get("scheduling") or {}
    yield from checks.labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    given = scheduling.get("tolerations") or ()
    yield from tolerations("scheduling.tolerations", given)
    keys = [
        {name: value for name, value in one.items() if name != "tolerationSeconds"} for one in given
    ]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            yield Cause.duplicate(
                f"scheduling.tolerations[{place}]", internal(TOLERATION, given[place])
            )


def update_runtime(new: Obj, old: Obj) -> Causes:
    yield from validate_runtime(new)
    yield from checks.immutable("handler", new.get("handler"), old.get("handler"))


def create_lease(obj: Obj, _core: Core) -> None:
    _uncoordinated(obj)


def update_lease(new: Obj, _old: Obj, _core: Core) -> None:
    _uncoordinated(new)


def _uncoordinated(obj: Obj) -> None:
    """Coordinated leader election is a feature that is off."""
    spec = obj.get("spec") or {}
    if not COORDINATED.isdisjoint(spec):
        obj["spec"] = {name: value for name, value in spec.items() if name not in COORDINATED}


def validate_lease(obj: Obj) -> Causes:
    spec = obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield Cause.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield Cause.invalid(
            "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
        )


def update_lease_causes(new: Obj, _old: Obj) -> Causes:
    return validate_lease(new)


RULES = {
    ("policy", "poddisruptionbudgets"): Rules(
        metadata_last=True,
        prepare_create=fresh_status(
            currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0
        ),
        prepare_update=keep_status,
        validate=validate_budget,
        validate_update=update_budget,
        parts={"status": Part(keep_spec, budget_status)},
        name=names.path_segment,
        unconditional_update=False,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Rules(
        default=default_priority,
        validate=validate_priority,
        validate_update=update_priority,
        qualified_finalizers=True,
        generation=never,
    ),
    ("node.k8s.io", "runtimeclasses"): Rules(
        default=default_runtime,
        validate=validate_runtime,
        validate_update=update_runtime,
        generation=None,
        unconditional_update=False,
        create_on_update=True,
    ),
    ("coordination.k8s.io", "leases"): Rules(
        prepare_create=create_lease,
        prepare_update=update_lease,
        validate=validate_lease,
        validate_update=update_lease_causes,
        generation=None,
        unconditional_update=False,
        create_on_update=True,
    ),
}
