"""Rules of StatefulSets and ControllerRevisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import GO_ROLLING_PARTITION, as_go_struct
from pytest_kscen.embedded.apiserver.rules.checks import strategy_as_go_struct as shown
from pytest_kscen.embedded.apiserver.rules.claims import default_claim, validate_claim_spec
from pytest_kscen.embedded.apiserver.rules.fields import ensure_object, keep_spec, set_defaults
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    validate_always_restarts,
    validate_template,
    validate_template_selected,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.workloads import (
    prepare_workload_update,
    validate_collision_count,
    workload_initializer,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

RETENTION_DEFAULTS = {"whenDeleted": "Retain", "whenScaled": "Retain"}
MUTABLE_FIELDS = (
    *(
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ),
    "minReadySeconds",
)
REPLICA_COUNTERS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_MUTABLE_FIELD_LIST = (
    f"{', '.join(repr(field) for field in MUTABLE_FIELDS[:-1])} and 'minReadySeconds'"
)
_UPDATE_FORBIDDEN = (
    f"updates to statefulset spec for fields other than {_MUTABLE_FIELD_LIST} are forbidden"
)


def default_stateful_set(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        default_claim(claim)
    set_defaults(
        spec, {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10}
    )
    strategy = ensure_object(spec, "updateStrategy")
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        ensure_object(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        set_defaults(strategy["rollingUpdate"], {"partition": 0})
    set_defaults(ensure_object(spec, "persistentVolumeClaimRetentionPolicy"), RETENTION_DEFAULTS)


_reset_status = workload_initializer(replicas=0, availableReplicas=0)


def prepare_stateful_set_create(obj: Obj, core: Core) -> None:
    _reset_status(obj, core)
    _drop_disabled_fields(obj)


def prepare_stateful_set_update(new: Obj, old: Obj, core: Core) -> None:
    prepare_workload_update(new, old, core)
    _drop_disabled_fields(new)


def _drop_disabled_fields(obj: Obj) -> None:
    """Remove `maxUnavailable` of a rolling update, a feature that is disabled by default."""
    strategy = obj["spec"]["updateStrategy"]
    if "maxUnavailable" in strategy.get("rollingUpdate", {}):
        rolling = {
            name: value
            for name, value in strategy["rollingUpdate"].items()
            if name != "maxUnavailable"
        }
        obj["spec"] = {**obj["spec"], "updateStrategy": {**strategy, "rollingUpdate": rolling}}


def validate_stateful_set(obj: Obj) -> Causes:
    spec = obj["spec"]
    management, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    if management not in {"OrderedReady", "Parallel"}:
        yield Cause.invalid(
            "spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'"
        )
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            yield Cause.invalid(
                "spec.updateStrategy.rollingUpdate",
                as_go_struct(GO_ROLLING_PARTITION, rolling),
                detail,
            )
    elif strategy["type"] != "RollingUpdate":
        yield Cause.invalid(
            "spec.updateStrategy",
            shown(GO_ROLLING_PARTITION, strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )
    elif rolling is not None:
        yield from checks.validate_nonnegative(
            "spec.updateStrategy.rollingUpdate.partition", rolling.get("partition")
        )
    for name, policy in spec["persistentVolumeClaimRetentionPolicy"].items():
        yield from checks.validate_enum(
            f"spec.persistentVolumeClaimRetentionPolicy.{name}", policy, ("Retain", "Delete")
        )
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from validate_claim_spec(f"spec.volumeClaimTemplates[{index}].spec", claim["spec"])
    yield from checks.validate_nonnegative_fields("spec", spec, ("replicas", "minReadySeconds"))
    yield from checks.validate_nonnegative(
        "spec.ordinals.start", spec.get("ordinals", {}).get("start")
    )
    if spec.get("serviceName"):
        yield from checks.validate_name(
            "spec.serviceName", spec["serviceName"], names.dns1123_label
        )
    yield from _validate_pod_template(spec)


def _validate_pod_template(spec: Obj) -> Causes:
    selector, given = spec.get("selector"), spec["template"]
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.validate_label_selector("spec.selector", selector)
        if checks.is_empty_selector(selector):
            yield Cause.invalid(
                "spec.selector", selector, "empty selector is invalid for statefulset"
            )
    if selector is not None and checks.selector_matches(selector, {}) is None:
        yield Cause.invalid("spec.selector", checks.selector_in_go_order(selector))
    else:
        if selector is None or not checks.is_empty_selector(selector):
            yield from validate_template_selected("spec.template", given, selector)
        # Validate the template as the pods will have it: with the claims' volumes, and without the
        # names that the controller sets.
        pod = {
            name: value
            for name, value in spec["template"]["spec"].items()
            if name not in {"hostname", "subdomain"}
        }
        claims = [
            claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
        ]
        if claims:
            made = [
                {"name": name, "persistentVolumeClaim": {"claimName": name}}
                for name in dict.fromkeys(claims)
            ]
            pod["volumes"] = [
                *made,
                *(
                    volume
                    for volume in pod.get("volumes") or ()
                    if volume.get("name") not in claims
                ),
            ]
        yield from validate_template("spec.template", {**spec["template"], "spec": pod})
    yield from validate_always_restarts("spec.template", given, "StatefulSet")


def validate_stateful_set_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    synchronized = {**spec, "serviceName": ""}  # immutable, so its old value is not validated again
    yield from (
        cause
        for cause in validate_stateful_set({**new, "spec": synchronized})
        if not cause.field.startswith("spec.volumeClaimTemplates[")
    )
    fixed, was = (
        {name: value for name, value in one.items() if name not in MUTABLE_FIELDS}
        for one in (spec, before)
    )
    if fixed != was:
        yield Cause.forbidden("spec", _UPDATE_FORBIDDEN)


def validate_stateful_set_status(new: Obj, old: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.validate_nonnegative_fields(
        "status", status, ("replicas", *REPLICA_COUNTERS, "observedGeneration", "collisionCount")
    )
    yield from checks.validate_fields_at_most(
        "status", status, REPLICA_COUNTERS, "replicas", "cannot be greater than status.replicas"
    )
    detail = "cannot be greater than status.readyReplicas"
    yield from checks.validate_fields_at_most(
        "status", status, ("availableReplicas",), "readyReplicas", detail
    )
    yield from validate_collision_count(new, old)


def validate_revision(obj: Obj) -> Causes:
    yield from _validate_revision_number(obj)
    data = obj.get("data")
    if data is None:
        yield Cause.required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield Cause.required("data", "data must be a valid JSON object")


def _validate_revision_number(obj: Obj) -> Causes:
    return checks.validate_nonnegative("revision", obj.get("revision"))


def validate_revision_update(new: Obj, old: Obj) -> Causes:
    yield from _validate_revision_number(new)
    yield from checks.validate_immutable("data", new.get("data"), old.get("data"))


RULES = {
    ("apps", "statefulsets"): Rules(
        default=default_stateful_set,
        prepare_create=prepare_stateful_set_create,
        prepare_update=prepare_stateful_set_update,
        validate=validate_stateful_set,
        validate_update=validate_stateful_set_update,
        parts={"status": SubresourceRules(keep_spec, validate_stateful_set_status)},
        name=names.dns1123_label,
        qualified_finalizers=True,
    ),
    ("apps", "controllerrevisions"): Rules(
        validate=validate_revision,
        validate_update=validate_revision_update,
        qualified_finalizers=True,
        generation=None,
    ),
}
