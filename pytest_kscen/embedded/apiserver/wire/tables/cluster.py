"""Printer columns of core kinds (nodes, namespaces, events), RBAC, webhooks, policies, API
services.

Read by `table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    age,
    condition,
    count,
    duration,
    integer,
    number,
    object_cell,
    present,
    selector_line,
    text,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.wire.tables.columns import Cell
    from pytest_kscen.objects.resources import Obj


ROLE_PREFIX, ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
UNKNOWN = "<unknown>"
READINESS = {None: "Unknown", "True": "Ready"}


def _roles(node: Obj) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {name.removeprefix(ROLE_PREFIX) for name in labels if name.startswith(ROLE_PREFIX)} | {
        labels.get(ROLE, "")
    }
    return ",".join(sorted(roles - {""})) or NONE


def _address(type_: str) -> Cell:
    def cell(node: Obj, _: float) -> str:
        addresses = field_at(node, "status.addresses") or ()
        return next((entry["address"] for entry in addresses if entry["type"] == type_), NONE)

    return cell


# Events come with the fields of core/v1 or of events.k8s.io/v1.


def _first_value(obj: Obj, *names: str) -> Any:
    return next((found for name in names if (found := field_at(obj, name))), None)


def _seen(*names: str) -> Cell:
    """Return a cell with the time since the first of these instants that is set."""

    def cell(event: Obj, now: float) -> str:
        when = _first_value(event, *names)
        return age(when, now) if when else UNKNOWN

    return cell


def _target(event: Obj) -> str:
    target = _first_value(event, "involvedObject", "regarding") or {}
    name = target.get("name")
    return str(target.get("kind", "")).lower() + (f"/{name}" if name else "")


FIRST_TIMES = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
LAST_TIMES = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", *FIRST_TIMES)
COMPONENTS = (
    "source.component",
    "deprecatedSource.component",
    "reportingComponent",
    "reportingController",
)
HOSTS = ("source.host", "deprecatedSource.host", "reportingInstance")

EVENTS = (
    Column("Last Seen", _seen(*LAST_TIMES)),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", object_cell(_target)),
    wide(
        "Subobject",
        object_cell(
            lambda event: str(
                _first_value(event, "involvedObject.fieldPath", "regarding.fieldPath") or ""
            )
        ),
    ),
    wide(
        "Source",
        object_cell(
            lambda event: ", ".join(
                filter(None, (_first_value(event, *COMPONENTS), _first_value(event, *HOSTS)))
            )
        ),
    ),
    Column(
        "Message",
        object_cell(lambda event: str(_first_value(event, "message", "note") or "").strip()),
    ),
    wide("First Seen", _seen(*FIRST_TIMES)),
    wide(
        "Count",
        object_cell(
            lambda event: int(_first_value(event, "series.count", "count", "deprecatedCount") or 1)
        ),
    ),
    Column("Name", text("metadata.name"), format="name", wide=True),
)


def _quota(*, limits: bool) -> Cell:
    """Return a cell with used and granted amounts, of the limits or of the rest."""

    def cell(quota: Obj, _: float) -> str:
        hard, used = field_at(quota, "status.hard") or {}, field_at(quota, "status.used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _health(component: Obj, part: str) -> str:
    healthy: Obj = next(
        (entry for entry in component.get("conditions") or () if entry["type"] == "Healthy"), {}
    )
    if part != "status":
        return str(healthy.get(part, ""))
    return {"True": "Healthy", None: "Unknown"}.get(healthy.get("status"), "Unhealthy")


CLUSTER_TABLES = {
    ("", "nodes"): (
        NAME,
        Column(
            "Status",
            object_cell(
                lambda node: (
                    READINESS.get(condition(node, "Ready").get("status"), "NotReady")
                    + ",SchedulingDisabled" * bool(field_at(node, "spec.unschedulable"))
                )
            ),
        ),
        Column("Roles", object_cell(_roles)),
        AGE,
        Column("Version", text("status.nodeInfo.kubeletVersion")),
        wide("Internal-IP", _address("InternalIP")),
        wide("External-IP", _address("ExternalIP")),
        wide("OS-Image", text("status.nodeInfo.osImage", UNKNOWN)),
        wide(
            "Kernel-Version",
            object_cell(
                lambda node: (
                    (field_at(node, "status.nodeInfo.kernelVersion") or UNKNOWN)
                    + (
                        f" ({architecture})"
                        if (architecture := field_at(node, "status.nodeInfo.architecture"))
                        else ""
                    )
                )
            ),
        ),
        wide("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
    ("", "namespaces"): (NAME, Column("Status", text("status.phase")), AGE),
    ("", "events"): EVENTS,
    ("events.k8s.io", "events"): EVENTS,
    ("", "configmaps"): (NAME, Column("Data", count("data", "binaryData")), AGE),
    ("", "secrets"): (NAME, Column("Type", text("type")), Column("Data", count("data")), AGE),
    ("", "serviceaccounts"): (NAME, AGE),
    ("", "resourcequotas"): (
        NAME,
        Column("Request", _quota(limits=False)),
        Column("Limit", _quota(limits=True)),
        AGE,
    ),
    ("", "componentstatuses"): (
        NAME,
        Column("Status", object_cell(lambda component: _health(component, "status"))),
        Column("Message", object_cell(lambda component: _health(component, "message"))),
        Column("Error", object_cell(lambda component: _health(component, "error"))),
    ),
    ("coordination.k8s.io", "leases"): (NAME, Column("Holder", text("spec.holderIdentity")), AGE),
    ("node.k8s.io", "runtimeclasses"): (NAME, Column("Handler", text("handler")), AGE),
}


# Access control, admission and API priority.


def _subjects(kind: str) -> Cell:
    def cell(binding: Obj, _: float) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject["kind"] == kind]
        spaced = kind == "ServiceAccount"
        return ", ".join(
            f"{subject.get('namespace', '')}/" * spaced + subject["name"] for subject in found
        )

    return cell


def _parameter_kind(policy: Obj) -> str:
    found = field_at(policy, "spec.paramKind")
    return f"{found['apiVersion']}/{found['kind']}" if found else UNSET


def _parameter(binding: Obj) -> str:
    found = field_at(binding, "spec.paramRef") or {}
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return selector_line(found["selector"]) if found.get("selector") else UNSET


def _signing_state(request: Obj) -> str:
    given = [entry["type"] for entry in field_at(request, "status.conditions") or ()]
    state = "Denied" if "Denied" in given else "Approved" if "Approved" in given else "Pending"
    issued = bool(field_at(request, "status.certificate"))
    return state + ",Failed" * ("Failed" in given) + ",Issued" * issued


def _available(api_service: Obj) -> str:
    found = condition(api_service, "Available")
    status, reason = str(found.get("status", "Unknown")), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status


BINDING = (
    NAME,
    Column("Role", object_cell(lambda binding: "{kind}/{name}".format(**binding["roleRef"]))),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)
WEBHOOKS = (NAME, integer("Webhooks", count("webhooks")), AGE)
POLICY_BINDING = (
    NAME,
    Column("PolicyName", text("spec.policyName")),
    Column("ParamRef", object_cell(_parameter)),
    AGE,
)
QUEUING = "spec.limited.limitResponse.queuing"

ACCESS_TABLES = {
    ("rbac.authorization.k8s.io", "rolebindings"): BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): BINDING,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): WEBHOOKS,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): (
        NAME,
        integer("Mutations", count("spec.mutations")),
        Column("ParamKind", object_cell(_parameter_kind)),
        AGE,
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        NAME,
        integer("Validations", count("spec.validations")),
        Column("ParamKind", object_cell(_parameter_kind)),
        AGE,
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): POLICY_BINDING,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): POLICY_BINDING,
    ("certificates.k8s.io", "certificatesigningrequests"): (
        NAME,
        AGE,
        Column("SignerName", text("spec.signerName", NONE)),
        Column("Requestor", text("spec.username")),
        Column(
            "RequestedDuration",
            object_cell(
                lambda request: (
                    NONE
                    if (seconds := field_at(request, "spec.expirationSeconds")) is None
                    else duration(seconds)
                )
            ),
        ),
        Column("Condition", object_cell(_signing_state)),
    ),
    ("apiregistration.k8s.io", "apiservices"): (
        NAME,
        Column(
            "Service",
            object_cell(
                lambda api_service: (
                    "{namespace}/{name}".format(**service)
                    if (service := field_at(api_service, "spec.service"))
                    else "Local"
                )
            ),
        ),
        Column("Available", object_cell(_available)),
        AGE,
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): (
        NAME,
        Column("PriorityLevel", text("spec.priorityLevelConfiguration.name")),
        Column("MatchingPrecedence", number("spec.matchingPrecedence")),
        Column("DistinguisherMethod", text("spec.distinguisherMethod.type", NONE)),
        AGE,
        Column(
            "MissingPL",
            object_cell(lambda schema: str(condition(schema, "Dangling").get("status", "?"))),
        ),
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
