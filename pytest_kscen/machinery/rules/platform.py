"""Kinds that the platform's own parts use: flow control and devices. Their defaults, and what cannot change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Part, Rules, status_alone
from pytest_kscen.machinery.rules import checks
from pytest_kscen.machinery.rules.filling import fill
from pytest_kscen.machinery.rules.preparing import keep_status, without_status
from pytest_kscen.machinery.rules.selectable import RESOURCE_SLICE_FIELDS
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

FLOW, DEVICES = "flowcontrol.apiserver.k8s.io", "resource.k8s.io"
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
HIGHEST_PRECEDENCE, DEFAULT_PRECEDENCE = 10_000, 1000


def default_flow(obj: Obj) -> None:
    fill(obj["spec"], {"matchingPrecedence": DEFAULT_PRECEDENCE})


def validate_flow(obj: Obj) -> Causes:
    spec = obj["spec"]
    if not 1 <= spec["matchingPrecedence"] <= HIGHEST_PRECEDENCE:
        yield Cause.invalid("spec.matchingPrecedence", spec["matchingPrecedence"], _PRECEDENCE)
    level = spec.get("priorityLevelConfiguration", {}).get("name")
    yield from checks.required_name("spec.priorityLevelConfiguration.name", level, names.dns1123_subdomain)


_PRECEDENCE = f"must be a value between 1 and {HIGHEST_PRECEDENCE}"


def default_level(obj: Obj) -> None:
    spec = obj["spec"]
    if "exempt" in spec:
        fill(spec["exempt"], {"nominalConcurrencyShares": 0, "lendablePercent": 0})
    if "limited" in spec:
        fill(spec["limited"], {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        if "queuing" in spec["limited"].get("limitResponse", {}):
            fill(spec["limited"]["limitResponse"]["queuing"], QUEUING)


def validate_level(obj: Obj) -> Causes:
    spec, kind = obj["spec"], obj["spec"].get("type", "")
    if (obj["metadata"]["name"] == "exempt") != (kind == "Exempt"):
        yield Cause.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt" and "limited" in spec:
        yield Cause.forbidden("spec.limited", "must be nil if the type is not Limited")
    elif kind == "Limited":
        if "exempt" in spec:
            yield Cause.forbidden("spec.exempt", "must be nil if the type is Limited")
        if "limited" not in spec:
            yield Cause.required("spec.limited", "must not be empty when type is Limited")
    elif kind != "Exempt":
        yield from checks.required_one_of("spec.type", kind, ("Exempt", "Limited"))


def default_claim(obj: Obj) -> None:
    _default_requests(obj["spec"])


def default_claim_template(obj: Obj) -> None:
    _default_requests(obj["spec"].get("spec") or {})


def _default_requests(spec: Obj) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None:
                fill(one, {"allocationMode": "ExactCount"})
                if one["allocationMode"] == "ExactCount":
                    fill(one, {"count": 1})


def _same_spec(new: Obj, old: Obj) -> Causes:
    return checks.immutable("spec", new["spec"], old["spec"])


RULES = {
    (FLOW, "flowschemas"): Rules(
        default=default_flow,
        prepare_create=without_status,
        prepare_update=keep_status,
        validate=validate_flow,
        validate_update=lambda new, _: validate_flow(new),
        parts={"status": Part(status_alone)},
        qualified_finalizers=True,
    ),
    (FLOW, "prioritylevelconfigurations"): Rules(
        default=default_level,
        prepare_create=without_status,
        prepare_update=keep_status,
        validate=validate_level,
        validate_update=lambda new, _: validate_level(new),
        parts={"status": Part(status_alone)},
        qualified_finalizers=True,
    ),
    (DEVICES, "resourceclaims"): Rules(
        default=default_claim,
        prepare_create=without_status,
        prepare_update=keep_status,
        validate_update=_same_spec,
        parts={"status": Part(status_alone)},
        qualified_finalizers=True,
        generation=None,
    ),
    (DEVICES, "resourceclaimtemplates"): Rules(
        default=default_claim_template,
        validate_update=_same_spec,
        qualified_finalizers=True,
        generation=None,
    ),
    (DEVICES, "deviceclasses"): Rules(qualified_finalizers=True),
    (DEVICES, "resourceslices"): Rules(qualified_finalizers=True, fields=RESOURCE_SLICE_FIELDS),
}
