"""StatefulSets, and the ControllerRevisions that they and DaemonSets remember their templates
by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Part, Rules
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import PARTITION, internal
from pytest_kscen.embedded.apiserver.rules.checks import strategy as shown
from pytest_kscen.embedded.apiserver.rules.claims import claim_spec, default_claim
from pytest_kscen.embedded.apiserver.rules.fields import fill, keep_spec, part
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    restarts_always,
    selected,
    template,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import default_template
from pytest_kscen.embedded.apiserver.rules.workloads import collisions, creating, update
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

RETENTION = {"whenDeleted": "Retain", "whenScaled": "Retain"}
CHANGEABLE = (
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
REPLICAS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_OTHERS = f"{', '.join(repr(field) for field in CHANGEABLE[:-1])} and 'minReadySeconds'"
_FORBIDDEN = f"updates to statefulset spec for fields other than {_OTHERS} are forbidden"


def default(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec.get("template"))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        default_claim(claim)
    fill(spec, {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10})
    strategy = part(spec, "updateStrategy")
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        part(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        fill(strategy["rollingUpdate"], {"partition": 0})
    fill(part(spec, "persistentVolumeClaimRetentionPolicy"), RETENTION)


_create = creating(replicas=0, availableReplicas=0)


def create_set(obj: Obj, core: Core) -> None:
    _create(obj, core)
    _drop_disabled(obj)


def update_set(new: Obj, old: Obj, core: Core) -> None:
    update(new, old, core)
    _drop_disabled(new)


def _drop_disabled(obj: Obj) -> None:
    """A rolling update's maxUnavailable is behind a feature that is off."""
    strategy = obj["spec"]["updateStrategy"]
    if "maxUnavailable" in strategy.get("rollingUpdate", {}):
        rolling = {
            name: value
            for name, value in strategy["rollingUpdate"].items()
            if name != "maxUnavailable"
        }
        obj["spec"] = {**obj["spec"], "updateStrategy": {**strategy, "rollingUpdate": rolling}}


def validate(obj: Obj) -> Causes:
    spec = obj["spec"]
    management, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    if management not in {"OrderedReady", "Parallel"}:
        yield Cause.invalid(
            "spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'"
        )
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete":
        if rolling is not None:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            yield Cause.invalid(
                "spec.updateStrategy.rollingUpdate", internal(PARTITION, rolling), why
            )
    elif strategy["type"] != "RollingUpdate":
        yield Cause.invalid(
            "spec.updateStrategy",
            shown(PARTITION, strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )
    elif rolling is not None:
        yield from checks.not_negative(
            "spec.updateStrategy.rollingUpdate.partition", rolling.get("partition")
        )
    for name, policy in spec["persistentVolumeClaimRetentionPolicy"].items():
        yield from checks.one_of(
            f"spec.persistentVolumeClaimRetentionPolicy.{name}", policy, ("Retain", "Delete")
        )
    for place, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from claim_spec(f"spec.volumeClaimTemplates[{place}].spec", claim["spec"])
    yield from checks.none_negative("spec", spec, ("replicas", "minReadySeconds"))
    yield from checks.not_negative("spec.ordinals.start", spec.get("ordinals", {}).get("start"))
    if spec.get("serviceName"):
        yield from checks.named("spec.serviceName", spec["serviceName"], names.dns1123_label)
    yield from _template(spec)


def _template(spec: Obj) -> Causes:
    selector, given = spec.get("selector"), spec["template"]
    if selector is None:
        yield Cause.required("spec.selector")
    else:
        yield from checks.selector("spec.selector", selector)
        if checks.is_empty(selector):
            yield Cause.invalid(
                "spec.selector", selector, "empty selector is invalid for statefulset"
            )
    if selector is not None and checks.matches(selector, {}) is None:
        yield Cause.invalid("spec.selector", checks.printed(selector))
    else:
        if selector is None or not checks.is_empty(selector):
            yield from selected("spec.template", given, selector)
        # The template with the volumes that the claims will be, and without the names that the
        # set gives.
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
        yield from template("spec.template", {**spec["template"], "spec": pod})
    yield from restarts_always("spec.template", given, "StatefulSet")


def validate_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is before:
        return
    settled = {**spec, "serviceName": ""}  # what cannot change is not judged again
    yield from (
        cause
        for cause in validate({**new, "spec": settled})
        if not cause.field.startswith("spec.volumeClaimTemplates[")
    )
    fixed, was = (
        {name: value for name, value in one.items() if name not in CHANGEABLE}
        for one in (spec, before)
    )
    if fixed != was:
        yield Cause.forbidden("spec", _FORBIDDEN)


def validate_status(new: Obj, old: Obj) -> Causes:
    status = new.get("status") or {}
    yield from checks.none_negative(
        "status", status, ("replicas", *REPLICAS, "observedGeneration", "collisionCount")
    )
    yield from checks.none_above(
        "status", status, REPLICAS, "replicas", "cannot be greater than status.replicas"
    )
    why = "cannot be greater than status.readyReplicas"
    yield from checks.none_above("status", status, ("availableReplicas",), "readyReplicas", why)
    yield from collisions(new, old)


def validate_revision(obj: Obj) -> Causes:
    yield from _revision(obj)
    data = obj.get("data")
    if data is None:
        yield Cause.required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield Cause.required("data", "data must be a valid JSON object")


def _revision(obj: Obj) -> Causes:
    return checks.not_negative("revision", obj.get("revision"))


def validate_revision_update(new: Obj, old: Obj) -> Causes:
    yield from _revision(new)
    yield from checks.immutable("data", new.get("data"), old.get("data"))


RULES = {
    ("apps", "statefulsets"): Rules(
        default=default,
        prepare_create=create_set,
        prepare_update=update_set,
        validate=validate,
        validate_update=validate_update,
        parts={"status": Part(keep_spec, validate_status)},
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
