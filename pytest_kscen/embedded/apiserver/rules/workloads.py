"""Rules of Deployments, ReplicaSets, ReplicationControllers and DaemonSets: defaults, selector, pod
template, update strategy and status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, content_changed
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import GO_ROLLING_UPDATE
from pytest_kscen.embedded.apiserver.rules.checks import strategy_as_go_struct as strategy
from pytest_kscen.embedded.apiserver.rules.fields import (
    REPLICA_FIELDS,
    ensure_object,
    keep_spec,
    keep_status,
    set_defaults,
    status_initializer,
)
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    validate_always_restarts,
    validate_template,
    validate_template_selected,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.pods.rules import drop_disabled_fields
from pytest_kscen.embedded.apiserver.schema.decode_errors import Undecodable
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

ROLLING_DEFAULTS = {"maxUnavailable": "25%", "maxSurge": "25%"}
REPLICA_COUNTERS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)
DEPLOYMENT_COUNTERS = (
    *(
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ),
    *("terminatingReplicas", "collisionCount"),
)
DAEMON_COUNTERS = (
    *(
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
    ),
    *("updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
)
DEPLOYMENT_STRATEGIES = ("Recreate", "RollingUpdate")
DAEMON_STRATEGIES = ("RollingUpdate", "OnDelete")
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ABOVE_REPLICAS = "cannot be greater than status.replicas"


def default_deployment(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    set_defaults(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _default_rolling_update(ensure_object(spec, "strategy"), ROLLING_DEFAULTS)


def default_replica_set(obj: Obj) -> None:
    default_template(obj["spec"].get("template"))
    set_defaults(obj["spec"], {"replicas": 1})


def default_daemon_set(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    set_defaults(spec, {"revisionHistoryLimit": 10})
    _default_rolling_update(
        ensure_object(spec, "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0}
    )
    _set_template_generation(obj, _template_generation(obj))


def _default_rolling_update(strategy: Obj, defaults: Obj) -> None:
    set_defaults(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        set_defaults(ensure_object(strategy, "rollingUpdate"), defaults)
    elif strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"] = {**dict.fromkeys(defaults, 0), **strategy["rollingUpdate"]}


def default_replication_controller(obj: Obj) -> None:
    """Set defaults. A ReplicationController without labels or selector takes the labels of its pod
    template.
    """
    spec = obj["spec"]
    default_template(spec.get("template"))
    set_defaults(spec, {"replicas": 1})
    own = (spec.get("template", {}).get("metadata") or {}).get("labels")
    if own:
        set_defaults(spec, {"selector": own})
        set_defaults(obj["metadata"], {"labels": own})


def workload_initializer(**zeros: Any) -> Callable[[Obj, Core], None]:
    """Return a preparation of creations that resets the status to these counters and removes
    disabled fields of the pod template.
    """
    reset = status_initializer(**zeros)

    def create(obj: Obj, core: Core) -> None:
        reset(obj, core)
        _drop_disabled_fields(obj)

    return create


def prepare_workload_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _drop_disabled_fields(new)


def _drop_disabled_fields(obj: Obj) -> None:
    given = obj["spec"].get("template")
    if given:
        reduced = dict(given)
        drop_disabled_fields(reduced)
        if reduced["spec"] is not given["spec"]:
            obj["spec"] = {**obj["spec"], "template": reduced}


def prepare_daemon_set_create(obj: Obj, core: Core) -> None:
    _initialize_daemon_set(obj, core)
    _set_template_generation(obj, max(1, _template_generation(obj)))


_initialize_daemon_set = workload_initializer(**dict.fromkeys(DAEMON_COUNTERS[:4], 0))


def prepare_daemon_set_update(new: Obj, old: Obj, core: Core) -> None:
    """Prepare an update. An annotation counts the versions of the template, as a field did in older
    API versions.
    """
    prepare_workload_update(new, old, core)
    changed = new["spec"].get("template") != old["spec"].get("template")
    _set_template_generation(new, _template_generation(old) + changed)


def _template_generation(obj: Obj) -> int:
    stated = (obj["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
    if not _INTEGER.fullmatch(stated):
        raise Undecodable(
            "DaemonSet", "v1", f"strconv.ParseInt: parsing {quoted(stated)}: invalid syntax"
        )
    return int(stated)


def _set_template_generation(obj: Obj, generation: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        TEMPLATE_GENERATION: str(generation),
    }


def prepare_deployment_status(new: Obj, old: Obj, core: Core) -> None:
    keep_spec(new, old, core)
    metadata = new["metadata"] = dict(new["metadata"])
    metadata.pop("labels", None)
    if "labels" in old["metadata"]:
        metadata["labels"] = old["metadata"]["labels"]


def validate_deployment(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from checks.validate_nonnegative("spec.replicas", spec.get("replicas"))
    yield from _validate_selected_template(
        spec, "invalid label selector", "empty selector is invalid for deployment"
    )
    path = "spec.strategy"
    given = spec["strategy"]
    if given.get("type") == "Recreate":
        if "rollingUpdate" in given:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield Cause.forbidden(f"{path}.rollingUpdate", detail)
    elif given.get("type") == "RollingUpdate":
        unavailable, surge = (given["rollingUpdate"].get(field, 0) for field in ROLLING_DEFAULTS)
        yield from checks.validate_int_or_percent(
            f"{path}.rollingUpdate.maxUnavailable", unavailable
        )
        yield from checks.validate_int_or_percent(f"{path}.rollingUpdate.maxSurge", surge)
        if checks.int_or_percent_value(unavailable) == checks.int_or_percent_value(surge) == 0:
            detail = "may not be 0 when `maxSurge` is 0"
            yield Cause.invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, detail)
        yield from checks.validate_at_most_100_percent(
            f"{path}.rollingUpdate.maxUnavailable", unavailable
        )
    else:
        yield Cause.unsupported(path, strategy(GO_ROLLING_UPDATE, given), DEPLOYMENT_STRATEGIES)
    yield from checks.validate_nonnegative_fields(
        "spec", spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield Cause.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def validate_replica_set(obj: Obj) -> Causes:
    yield from checks.validate_nonnegative_fields(
        "spec", obj["spec"], ("replicas", "minReadySeconds")
    )
    yield from _validate_selected_template(
        obj["spec"], "invalid label selector", "empty selector is invalid for deployment"
    )


def _validate_selected_template(spec: Obj, malformed: str, empty: str) -> Causes:
    selector, given = spec.get("selector"), spec["template"]
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.validate_label_selector("spec.selector", selector)
        if checks.is_empty_selector(selector):
            yield Cause.invalid("spec.selector", selector, empty)
    if selector is not None and checks.selector_matches(selector, {}) is None:
        yield Cause.invalid("spec.selector", checks.selector_in_go_order(selector), malformed)
        return
    if selector is None or not checks.is_empty_selector(selector):
        yield from validate_template_selected("spec.template", given, selector)
    yield from validate_template("spec.template", given)
    yield from validate_always_restarts("spec.template", given, "ReplicaSet")


def validate_daemon_set(obj: Obj) -> Causes:
    spec = obj["spec"]
    selector, given = spec.get("selector"), spec["template"]
    yield from checks.validate_label_selector("spec.selector", selector)
    yield from validate_template_selected("spec.template", given, selector)
    if selector is not None and checks.is_empty_selector(selector):
        yield Cause.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from validate_template("spec.template", given)
    yield from validate_always_restarts("spec.template", given, "DaemonSet")
    yield from checks.validate_nonnegative_fields("spec", spec, ("minReadySeconds",))
    path = "spec.updateStrategy"
    update_strategy = spec["updateStrategy"]
    if update_strategy.get("type") not in DAEMON_STRATEGIES:
        yield Cause.unsupported(
            path, strategy(GO_ROLLING_UPDATE, update_strategy), DAEMON_STRATEGIES
        )
    elif update_strategy["type"] == "RollingUpdate":
        here, rolling = f"{path}.rollingUpdate", update_strategy["rollingUpdate"]
        values = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
        for name, value in values.items():
            yield from checks.validate_int_or_percent(f"{here}.{name}", value)
        for name, value in values.items():
            yield from checks.validate_at_most_100_percent(f"{here}.{name}", value)
        unavailable, surge = (checks.int_or_percent_value(value) for value in values.values())
        if unavailable and surge:
            yield Cause.invalid(
                f"{here}.maxSurge",
                values["maxSurge"],
                "may not be set when maxUnavailable is non-zero",
            )
        elif not unavailable and not surge:
            yield Cause.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    yield from checks.validate_nonnegative_fields("spec", spec, ("revisionHistoryLimit",))


def validate_replication_controller(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from checks.validate_nonnegative_fields("spec", spec, ("minReadySeconds",))
    selector, given = spec.get("selector"), spec.get("template")
    if not selector:
        yield Cause.required("spec.selector")
    yield from checks.validate_nonnegative("spec.replicas", spec.get("replicas"))
    if not given:
        yield Cause.required("spec.template")
        return
    if selector:
        yield from validate_template_selected("spec.template", given, {"matchLabels": selector})
    yield from validate_template("spec.template", given)
    yield from validate_always_restarts("spec.template", given, "ReplicationController")


def validate_deployment_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_deployment(new)
        yield from checks.validate_selector_unchanged(new, old)


def validate_replica_set_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_replica_set(new)
        yield from checks.validate_selector_unchanged(new, old)


def validate_daemon_set_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from checks.validate_selector_unchanged(new, old)
        yield from validate_daemon_set(new)


def validate_replication_controller_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_replication_controller(new)


def validate_replica_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.validate_nonnegative_fields(
        "status", status, (*REPLICA_COUNTERS, "terminatingReplicas")
    )
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from checks.validate_fields_at_most("status", status, parts, "replicas", _ABOVE_REPLICAS)
    yield from checks.validate_fields_at_most(
        "status",
        status,
        ("availableReplicas",),
        "readyReplicas",
        "cannot be greater than readyReplicas",
    )


def validate_deployment_status(new: Obj, old: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.validate_nonnegative_fields("status", status, DEPLOYMENT_COUNTERS)
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    yield from checks.validate_fields_at_most("status", status, parts, "replicas", _ABOVE_REPLICAS)
    yield from checks.validate_fields_at_most(
        "status",
        status,
        ("availableReplicas",),
        "readyReplicas",
        "cannot be greater than readyReplicas",
    )
    yield from validate_collision_count(new, old)


def validate_daemon_set_status(new: Obj, old: Obj) -> Causes:
    yield from checks.validate_nonnegative_fields(
        "status", new.get("status") or {}, DAEMON_COUNTERS
    )
    yield from validate_collision_count(new, old)


def validate_collision_count(new: Obj, old: Obj) -> Causes:
    after, before = ((obj.get("status") or {}).get("collisionCount") for obj in (new, old))
    if before is not None and (after is None or after < before):
        yield Cause.invalid("status.collisionCount", after or 0, "cannot be decremented")


def has_deployment_changed(new: Obj, old: Obj) -> bool:
    return content_changed(new, old) or new["metadata"].get("annotations") != old["metadata"].get(
        "annotations"
    )


RULES = {
    ("apps", "deployments"): Rules(
        default=default_deployment,
        prepare_create=workload_initializer(),
        prepare_update=prepare_workload_update,
        validate=validate_deployment,
        validate_update=validate_deployment_update,
        parts={"status": SubresourceRules(prepare_deployment_status, validate_deployment_status)},
        qualified_finalizers=True,
        generation=has_deployment_changed,
    ),
    ("apps", "replicasets"): Rules(
        default=default_replica_set,
        prepare_create=workload_initializer(replicas=0),
        prepare_update=prepare_workload_update,
        validate=validate_replica_set,
        validate_update=validate_replica_set_update,
        parts={"status": SubresourceRules(keep_spec, validate_replica_status)},
        qualified_finalizers=True,
    ),
    ("apps", "daemonsets"): Rules(
        default=default_daemon_set,
        prepare_create=prepare_daemon_set_create,
        prepare_update=prepare_daemon_set_update,
        validate=validate_daemon_set,
        validate_update=validate_daemon_set_update,
        parts={"status": SubresourceRules(keep_spec, validate_daemon_set_status)},
        qualified_finalizers=True,
    ),
    ("", "replicationcontrollers"): Rules(
        default=default_replication_controller,
        prepare_create=workload_initializer(replicas=0),
        prepare_update=prepare_workload_update,
        validate=validate_replication_controller,
        validate_update=validate_replication_controller_update,
        parts={"status": SubresourceRules(keep_spec, validate_replica_status)},
        qualified_finalizers=True,
        fields=REPLICA_FIELDS,
    ),
}
