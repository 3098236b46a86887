"""Deployments, ReplicaSets, ReplicationControllers, DaemonSets: a selector, a template, and how
to get from old to new.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Part, Rules, content_changed
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import ROLLING, strategy
from pytest_kscen.embedded.apiserver.rules.fields import (
    REPLICA_FIELDS,
    fill,
    fresh_status,
    keep_spec,
    keep_status,
    part,
)
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    restarts_always,
    selected,
    template,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.pods.rules import drop_disabled
from pytest_kscen.embedded.apiserver.schema.decode_errors import Undecodable
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

QUARTER = {"maxUnavailable": "25%", "maxSurge": "25%"}
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
STRATEGIES = ("Recreate", "RollingUpdate")
DAEMON_STRATEGIES = ("RollingUpdate", "OnDelete")
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_ABOVE = "cannot be greater than status.replicas"


def default_deployment(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _rolling(part(spec, "strategy"), QUARTER)


def default_replica_set(obj: Obj) -> None:
    default_template(obj["spec"].get("template"))
    fill(obj["spec"], {"replicas": 1})


def default_daemon_set(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    fill(spec, {"revisionHistoryLimit": 10})
    _rolling(part(spec, "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})
    _stamp(obj, _generation_of(obj))


def _rolling(strategy: Obj, defaults: Obj) -> None:
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), defaults)
    elif strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"] = {**dict.fromkeys(defaults, 0), **strategy["rollingUpdate"]}


def default_controller(obj: Obj) -> None:
    """A ReplicationController borrows its labels and its selector from its template."""
    spec = obj["spec"]
    default_template(spec.get("template"))
    fill(spec, {"replicas": 1})
    own = (spec.get("template", {}).get("metadata") or {}).get("labels")
    if own:
        fill(spec, {"selector": own})
        fill(obj["metadata"], {"labels": own})


def creating(**zeroes: Any) -> Callable[[Obj, Core], None]:
    """How a workload is made, whose new status prints these."""
    reset = fresh_status(**zeroes)

    def create(obj: Obj, core: Core) -> None:
        reset(obj, core)
        _drop(obj)

    return create


def update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    _drop(new)


def _drop(obj: Obj) -> None:
    given = obj["spec"].get("template")
    if given:
        slim = dict(given)
        drop_disabled(slim)
        if slim["spec"] is not given["spec"]:
            obj["spec"] = {**obj["spec"], "template": slim}


def create_daemon_set(obj: Obj, core: Core) -> None:
    _create_daemon_set(obj, core)
    _stamp(obj, max(1, _generation_of(obj)))


_create_daemon_set = creating(**dict.fromkeys(DAEMON_COUNTERS[:4], 0))


def update_daemon_set(new: Obj, old: Obj, core: Core) -> None:
    """An annotation counts the templates, as a field did once."""
    update(new, old, core)
    changed = new["spec"].get("template") != old["spec"].get("template")
    _stamp(new, _generation_of(old) + changed)


def _generation_of(obj: Obj) -> int:
    stated = (obj["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
    if not _WHOLE.fullmatch(stated):
        raise Undecodable(
            "DaemonSet", "v1", f"strconv.ParseInt: parsing {quoted(stated)}: invalid syntax"
        )
    return int(stated)


def _stamp(obj: Obj, generation: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        TEMPLATE_GENERATION: str(generation),
    }


def deployment_status(new: Obj, old: Obj, core: Core) -> None:
    keep_spec(new, old, core)
    metadata = new["metadata"] = dict(new["metadata"])
    metadata.pop("labels", None)
    if "labels" in old["metadata"]:
        metadata["labels"] = old["metadata"]["labels"]


def validate_deployment(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from checks.not_negative("spec.replicas", spec.get("replicas"))
    yield from _selected_template(
        spec, "invalid label selector", "empty selector is invalid for deployment"
    )
    yield from _deployment_strategy("spec.strategy", spec["strategy"])
    yield from checks.none_negative(
        "spec", spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield Cause.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def validate_replica_set(obj: Obj) -> Causes:
    yield from checks.none_negative("spec", obj["spec"], ("replicas", "minReadySeconds"))
    yield from _selected_template(
        obj["spec"], "invalid label selector", "empty selector is invalid for deployment"
    )


def _selected_template(spec: Obj, malformed: str, empty: str) -> Causes:
    selector, given = spec.get("selector"), spec["template"]
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.selector("spec.selector", selector)
        if checks.is_empty(selector):
            yield Cause.invalid("spec.selector", selector, empty)
    if selector is not None and checks.matches(selector, {}) is None:
        yield Cause.invalid("spec.selector", checks.printed(selector), malformed)
        return
    if selector is None or not checks.is_empty(selector):
        yield from selected("spec.template", given, selector)
    yield from template("spec.template", given)
    yield from restarts_always("spec.template", given, "ReplicaSet")


def _deployment_strategy(path: str, given: Obj) -> Causes:
    if given.get("type") == "Recreate":
        if "rollingUpdate" in given:
            why = "may not be specified when strategy `type` is 'Recreate'"
            yield Cause.forbidden(f"{path}.rollingUpdate", why)
    elif given.get("type") == "RollingUpdate":
        unavailable, surge = (given["rollingUpdate"].get(field, 0) for field in QUARTER)
        yield from checks.int_or_percent(f"{path}.rollingUpdate.maxUnavailable", unavailable)
        yield from checks.int_or_percent(f"{path}.rollingUpdate.maxSurge", surge)
        if checks.number_of(unavailable) == checks.number_of(surge) == 0:
            why = "may not be 0 when `maxSurge` is 0"
            yield Cause.invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, why)
        yield from checks.not_above_all(f"{path}.rollingUpdate.maxUnavailable", unavailable)
    else:
        yield Cause.unsupported(path, strategy(ROLLING, given), STRATEGIES)


def validate_daemon_set(obj: Obj) -> Causes:
    spec = obj["spec"]
    selector, given = spec.get("selector"), spec["template"]
    yield from checks.selector("spec.selector", selector)
    yield from selected("spec.template", given, selector)
    if selector is not None and checks.is_empty(selector):
        yield Cause.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from template("spec.template", given)
    yield from restarts_always("spec.template", given, "DaemonSet")
    yield from checks.none_negative("spec", spec, ("minReadySeconds",))
    yield from _daemon_strategy("spec.updateStrategy", spec["updateStrategy"])
    yield from checks.none_negative("spec", spec, ("revisionHistoryLimit",))


def _daemon_strategy(path: str, given: Obj) -> Causes:
    if given.get("type") not in DAEMON_STRATEGIES:
        yield Cause.unsupported(path, strategy(ROLLING, given), DAEMON_STRATEGIES)
    elif given["type"] == "RollingUpdate":
        here, rolling = f"{path}.rollingUpdate", given["rollingUpdate"]
        values = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
        for name, value in values.items():
            yield from checks.int_or_percent(f"{here}.{name}", value)
        for name, value in values.items():
            yield from checks.not_above_all(f"{here}.{name}", value)
        unavailable, surge = (checks.number_of(value) for value in values.values())
        if unavailable and surge:
            yield Cause.invalid(
                f"{here}.maxSurge",
                values["maxSurge"],
                "may not be set when maxUnavailable is non-zero",
            )
        elif not unavailable and not surge:
            yield Cause.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_controller(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from checks.none_negative("spec", spec, ("minReadySeconds",))
    selector, given = spec.get("selector"), spec.get("template")
    if not selector:
        yield Cause.required("spec.selector")
    yield from checks.not_negative("spec.replicas", spec.get("replicas"))
    if not given:
        yield Cause.required("spec.template")
        return
    if selector:
        yield from selected("spec.template", given, {"matchLabels": selector})
    yield from template("spec.template", given)
    yield from restarts_always("spec.template", given, "ReplicationController")


def update_deployment_causes(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_deployment(new)
        yield from checks.same_selector(new, old)


def update_replica_set_causes(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_replica_set(new)
        yield from checks.same_selector(new, old)


def update_daemon_set_causes(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from checks.same_selector(new, old)
        yield from validate_daemon_set(new)


def update_controller_causes(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from validate_controller(new)


def replica_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.none_negative("status", status, (*REPLICA_COUNTERS, "terminatingReplicas"))
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from checks.none_above("status", status, parts, "replicas", _ABOVE)
    yield from checks.none_above(
        "status",
        status,
        ("availableReplicas",),
        "readyReplicas",
        "cannot be greater than readyReplicas",
    )


def deployment_status_causes(new: Obj, old: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.none_negative("status", status, DEPLOYMENT_COUNTERS)
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    yield from checks.none_above("status", status, parts, "replicas", _ABOVE)
    yield from checks.none_above(
        "status",
        status,
        ("availableReplicas",),
        "readyReplicas",
        "cannot be greater than readyReplicas",
    )
    yield from collisions(new, old)


def daemon_status_causes(new: Obj, old: Obj) -> Causes:
    yield from checks.none_negative("status", new.get("status") or {}, DAEMON_COUNTERS)
    yield from collisions(new, old)


def collisions(new: Obj, old: Obj) -> Causes:
    after, before = ((obj.get("status") or {}).get("collisionCount") for obj in (new, old))
    if before is not None and (after is None or after < before):
        yield Cause.invalid("status.collisionCount", after or 0, "cannot be decremented")


def deployment_changed(new: Obj, old: Obj) -> bool:
    return content_changed(new, old) or new["metadata"].get("annotations") != old["metadata"].get(
        "annotations"
    )


RULES = {
    ("apps", "deployments"): Rules(
        default=default_deployment,
        prepare_create=creating(),
        prepare_update=update,
        validate=validate_deployment,
        validate_update=update_deployment_causes,
        parts={"status": Part(deployment_status, deployment_status_causes)},
        qualified_finalizers=True,
        generation=deployment_changed,
    ),
    ("apps", "replicasets"): Rules(
        default=default_replica_set,
        prepare_create=creating(replicas=0),
        prepare_update=update,
        validate=validate_replica_set,
        validate_update=update_replica_set_causes,
        parts={"status": Part(keep_spec, replica_status)},
        qualified_finalizers=True,
    ),
    ("apps", "daemonsets"): Rules(
        default=default_daemon_set,
        prepare_create=create_daemon_set,
        prepare_update=update_daemon_set,
        validate=validate_daemon_set,
        validate_update=update_daemon_set_causes,
        parts={"status": Part(keep_spec, daemon_status_causes)},
        qualified_finalizers=True,
    ),
    ("", "replicationcontrollers"): Rules(
        default=default_controller,
        prepare_create=creating(replicas=0),
        prepare_update=update,
        validate=validate_controller,
        validate_update=update_controller_causes,
        parts={"status": Part(keep_spec, replica_status)},
        qualified_finalizers=True,
        fields=REPLICA_FIELDS,
    ),
}
