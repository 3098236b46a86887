"""Columns of what lets in, judges and keeps order at the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.wire.tables.ages import duration
from pytest_kscen.machinery.wire.tables.cells import condition, written_selector
from pytest_kscen.machinery.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    count,
    integer,
    number,
    present,
    text,
    whole,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.machinery.wire.tables.columns import Cell
    from pytest_kscen.objects.resources import Obj


def _role(binding: Obj) -> str:
    return f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Obj, _: float) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject["kind"] == kind]
        spaced = kind == "ServiceAccount"
        return ", ".join(f"{subject.get('namespace', '')}/" * spaced + subject["name"] for subject in found)

    return cell


def _parameter_kind(policy: Obj) -> str:
    found = field_at(policy, "spec.paramKind")
    return f"{found['apiVersion']}/{found['kind']}" if found else UNSET


def _parameter(binding: Obj) -> str:
    found = field_at(binding, "spec.paramRef") or {}
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return written_selector(found["selector"]) if found.get("selector") else UNSET


def _signing(request: Obj) -> str:
    given = [entry["type"] for entry in field_at(request, "status.conditions") or ()]
    state = "Denied" if "Denied" in given else "Approved" if "Approved" in given else "Pending"
    issued = bool(field_at(request, "status.certificate"))
    return state + ",Failed" * ("Failed" in given) + ",Issued" * issued


def _requested(request: Obj) -> str:
    seconds = field_at(request, "spec.expirationSeconds")
    return NONE if seconds is None else duration(seconds)


def _dangling(schema: Obj) -> str:
    return str(condition(schema, "Dangling").get("status", "?"))


def _service(api_service: Obj) -> str:
    found = field_at(api_service, "spec.service")
    return f"{found['namespace']}/{found['name']}" if found else "Local"


def _available(api_service: Obj) -> str:
    found = condition(api_service, "Available")
    status, reason = str(found.get("status", "Unknown")), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status


BINDING = (
    NAME,
    Column("Role", whole(_role)),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)
WEBHOOKS = (NAME, integer("Webhooks", count("webhooks")), AGE)
POLICY_BINDING = (NAME, Column("PolicyName", text("spec.policyName")), Column("ParamRef", whole(_parameter)), AGE)
QUEUING = "spec.limited.limitResponse.queuing"

TABLES = {
    ("rbac.authorization.k8s.io", "rolebindings"): BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): BINDING,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): WEBHOOKS,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): (
        NAME,
        integer("Mutations", count("spec.mutations")),
        Column("ParamKind", whole(_parameter_kind)),
        AGE,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        NAME,
        integer("Validations", count("spec.validations")),
        Column("ParamKind", whole(_parameter_kind)),
        AGE,
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): POLICY_BINDING,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): POLICY_BINDING,
    ("certificates.k8s.io", "certificatesigningrequests"): (
        NAME,
        AGE,
        Column("SignerName", text("spec.signerName", NONE)),
        Column("Requestor", text("spec.username")),
        Column("RequestedDuration", whole(_requested)),
        Column("Condition", whole(_signing)),
    ),
    ("apiregistration.k8s.io", "apiservices"): (
        NAME,
        Column("Service", whole(_service)),
        Column("Available", whole(_available)),
        AGE,
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): (
        NAME,
        Column("PriorityLevel", text("spec.priorityLevelConfiguration.name")),
        Column("MatchingPrecedence", number("spec.matchingPrecedence")),
        Column("DistinguisherMethod", text("spec.distinguisherMethod.type", NONE)),
        AGE,
        Column("MissingPL", whole(_dangling)),
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): (
        NAME,
        Column("Type", text("spec.type")),
        Column("NominalConcurrencyShares", present("spec.limited.nominalConcurrencyShares", NONE)),
        Column("Queues", present(f"{QUEUING}.queues", NONE)),
        Column("HandSize", present(f"{QUEUING}.handSize", NONE)),
        Column("QueueLengthLimit", present(f"{QUEUING}.queueLengthLimit", NONE)),
        AGE,
    ),
}
