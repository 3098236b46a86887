"""Columns of nodes, namespaces, events and the small things of the core group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.wire.tables.ages import age
from pytest_kscen.machinery.wire.tables.cells import condition
from pytest_kscen.machinery.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    count,
    text,
    whole,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.machinery.wire.tables.columns import Cell
    from pytest_kscen.objects.resources import Obj

ROLE_PREFIX, ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
UNKNOWN = "<unknown>"


def _node_status(node: Obj) -> str:
    ready = condition(node, "Ready").get("status")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return status + ",SchedulingDisabled" * bool(field_at(node, "spec.unschedulable"))


def _roles(node: Obj) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {name.removeprefix(ROLE_PREFIX) for name in labels if name.startswith(ROLE_PREFIX)} | {labels.get(ROLE, "")}
    return ",".join(sorted(roles - {""})) or NONE


def _address(type_: str) -> Cell:
    def cell(node: Obj, _: float) -> str:
        addresses = field_at(node, "status.addresses") or ()
        return next((entry["address"] for entry in addresses if entry["type"] == type_), NONE)

    return cell


def _kernel(node: Obj) -> str:
    info = field_at(node, "status.nodeInfo") or {}
    architecture = info.get("architecture")
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


# An Event has two spellings, that of the core group and that of events.k8s.io.


def _either(obj: Obj, *names: str) -> Any:
    return next((found for name in names if (found := field_at(obj, name))), None)


def _first_seen(event: Obj, now: float) -> str:
    when = _either(event, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    return age(when, now) if when else UNKNOWN


def _last_seen(event: Obj, now: float) -> str:
    when = _either(event, "series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")
    return age(when, now) if when else _first_seen(event, now)


def _times(event: Obj) -> int:
    return int(_either(event, "series.count", "count", "deprecatedCount") or 1)


def _target(event: Obj) -> str:
    target = _either(event, "involvedObject", "regarding") or {}
    name = target.get("name")
    return str(target.get("kind", "")).lower() + (f"/{name}" if name else "")


def _subobject(event: Obj) -> str:
    return str(_either(event, "involvedObject.fieldPath", "regarding.fieldPath") or "")


def _source(event: Obj) -> str:
    component = _either(event, "source.component", "deprecatedSource.component", "reportingComponent", "reportingController")
    host = _either(event, "source.host", "deprecatedSource.host", "reportingInstance")
    return ", ".join(filter(None, (component or "", host)))


def _message(event: Obj) -> str:
    return str(_either(event, "message", "note") or "").strip()


EVENTS = (
    Column("Last Seen", _last_seen),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", whole(_target)),
    wide("Subobject", whole(_subobject)),
    wide("Source", whole(_source)),
    Column("Message", whole(_message)),
    wide("First Seen", _first_seen),
    wide("Count", whole(_times)),
    Column("Name", text("metadata.name"), format="name", wide=True),
)


def _quota(*, limits: bool) -> Cell:
    """What is used of what is granted, for the limits or for the rest."""

    def cell(quota: Obj, _: float) -> str:
        hard, used = field_at(quota, "status.hard") or {}, field_at(quota, "status.used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _health(component: Obj, part: str) -> str:
    healthy: Obj = next((entry for entry in component.get("conditions") or () if entry["type"] == "Healthy"), {})
    if part != "status":
        return str(healthy.get(part, ""))
    return {"True": "Healthy", None: "Unknown"}.get(healthy.get("status"), "Unhealthy")


TABLES = {
    ("", "nodes"): (
        NAME,
        Column("Status", whole(_node_status)),
        Column("Roles", whole(_roles)),
        AGE,
        Column("Version", text("status.nodeInfo.kubeletVersion")),
        wide("Internal-IP", _address("InternalIP")),
        wide("External-IP", _address("ExternalIP")),
        wide("OS-Image", text("status.nodeInfo.osImage", UNKNOWN)),
        wide("Kernel-Version", whole(_kernel)),
        wide("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
    ("", "namespaces"): (NAME, Column("Status", text("status.phase")), AGE),
    ("", "events"): EVENTS,
    ("events.k8s.io", "events"): EVENTS,
    ("", "configmaps"): (NAME, Column("Data", count("data", "binaryData")), AGE),
    ("", "secrets"): (NAME, Column("Type", text("type")), Column("Data", count("data")), AGE),
    ("", "serviceaccounts"): (NAME, AGE),
    ("", "resourcequotas"): (NAME, Column("Request", _quota(limits=False)), Column("Limit", _quota(limits=True)), AGE),
    ("", "componentstatuses"): (
        NAME,
        Column("Status", whole(lambda component: _health(component, "status"))),
        Column("Message", whole(lambda component: _health(component, "message"))),
        Column("Error", whole(lambda component: _health(component, "error"))),
    ),
    ("coordination.k8s.io", "leases"): (NAME, Column("Holder", text("spec.holderIdentity")), AGE),
    ("node.k8s.io", "runtimeclasses"): (NAME, Column("Handler", text("handler")), AGE),
}
