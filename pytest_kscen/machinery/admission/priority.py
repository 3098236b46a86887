"""Priority: a pod's class becomes a number, one class at most is everybody's, and the system's classes stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj

GROUP, PLURAL = "scheduling.k8s.io", "priorityclasses"
PREEMPT = "PreemptLowerPriority"
SYSTEM_CLASSES: tuple[Obj, ...] = (
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2000000000,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    },
)
_SYSTEM = {each["metadata"]["name"]: each for each in SYSTEM_CLASSES}
PROVIDED = "must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name"


def prioritize(review: Review) -> None:
    """A new pod gets its class's priority; an updated one keeps its own."""
    assert review.new is not None
    spec = review.new["spec"]
    if review.old is not None:
        was = review.old["spec"]
        kept = {name: was[name] for name in ("priority", "preemptionPolicy") if name in was and name not in spec}
        if kept:
            review.new["spec"] = {**spec, **kept}
        return
    name = spec.get("priorityClassName") or _name_of_default(review.core)
    found = _class(review.core, name) if name else {"value": 0}
    if found is None:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    priority, policy = found["value"], found.get("preemptionPolicy") or PREEMPT
    _refuse_other(review, "integer value of priority", spec.get("priority"), priority)
    _refuse_other(review, "string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy)
    named = {"priorityClassName": name} if name else {}
    review.new["spec"] = {**spec, **named, "priority": priority, "preemptionPolicy": policy}


def _refuse_other(review: Review, what: str, given: Any, computed: Any) -> None:
    if given is not None and given != computed:
        raise review.forbidden(f"the {what} ({given}) {PROVIDED.format(computed)}")


def _class(core: Core, name: str) -> Obj | None:
    return core.store.get((GROUP, PLURAL, "", name)) or _SYSTEM.get(name)


def _default(core: Core) -> Obj | None:
    """Of the classes that are everybody's, the least."""
    defaults = [each for each in core.store.all(GROUP, PLURAL) if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


def _name_of_default(core: Core) -> str:
    found = _default(core)
    return str(found["metadata"]["name"]) if found else ""


def allow_one_default(review: Review) -> None:
    assert review.new is not None
    if not review.new.get("globalDefault"):
        return
    name = _name_of_default(review.core)
    if name and name != review.new["metadata"]["name"]:
        raise review.forbidden(f"PriorityClass {name} is already marked as default. Only one default can exist")


def keep_system_classes(review: Review) -> None:
    if review.name in _SYSTEM:
        raise review.forbidden("this is a system priority class and cannot be deleted")
