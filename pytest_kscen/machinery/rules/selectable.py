"""Fields that lists and watches can be narrowed by, besides an object's name and namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj

    Reader = Callable[[Obj], str]


def field(path: str, absent: str = "") -> Reader:
    """Reads the value at a dotted path, as text."""
    *steps, last = path.split(".")

    def read(obj: Obj) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step)
            if value is None:
                return absent
        return text(value.get(last), absent)

    return read


def text(value: Any, absent: str = "") -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def fields(*paths: str, **renamed: Reader) -> dict[str, Reader]:
    return {**{path: field(path) for path in paths}, **renamed}


def _first_ip(pod: Obj) -> str:
    addresses = (pod.get("status") or {}).get("podIPs")
    return str(addresses[0].get("ip", "")) if addresses else ""


def _nothing(_: Obj) -> str:
    """A field that may be asked for, and that nothing has."""
    return ""


def _source(event: Obj) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


POD_FIELDS = {
    **fields("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    "spec.hostNetwork": field("spec.hostNetwork", "false"),
    **fields("status.phase", "status.nominatedNodeName"),
    "status.podIP": _first_ip,
    "status.podIPs": _nothing,
    "spec.host": field("spec.nodeName"),
}
NODE_FIELDS = {"spec.unschedulable": field("spec.unschedulable", "false")}
NAMESPACE_FIELDS = fields("status.phase")
SECRET_FIELDS = fields("type")
SERVICE_FIELDS = fields("spec.clusterIP", "spec.type")
REPLICA_FIELDS = {"status.replicas": field("status.replicas", "0")}
JOB_FIELDS = {"status.successful": field("status.succeeded", "0")}
CERTIFICATE_FIELDS = fields("spec.signerName")
RESOURCE_SLICE_FIELDS = fields("spec.nodeName", "spec.driver")
INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
EVENT_FIELDS = {
    **fields(*(f"involvedObject.{part}" for part in INVOLVED), "reason", "reportingComponent", "type"),
    "source": _source,
}
REGARDING_FIELDS = {
    **{f"regarding.{part}": field(f"regarding.{part}") for part in INVOLVED},
    **fields("reason", "reportingController", "type"),
}
