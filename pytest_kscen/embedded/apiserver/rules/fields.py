"""Preparations of writes that kinds share, defaults, and fields for field selectors.

A preparation runs before validation. It may replace parts of the new object, but must not change a
part that the stored object shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.quantities import in_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

    Reader = Callable[[Obj], str]


def status_initializer(**zeros: Any) -> Callable[[Obj, Core], None]:
    """Return a preparation of creations that replaces the status: clients cannot set it.

    `zeros` are counters that the kind prints even when they are 0. The result owns its own copy of
    them.
    """

    def reset(new: Obj, _core: Core) -> None:
        new["status"] = dict(zeros)

    return reset


clear_status = status_initializer()


def keep_status(new: Obj, old: Obj, _core: Core) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def keep_spec(new: Obj, old: Obj, _core: Core) -> None:
    """Prepare a write to `status`: take the new metadata and status, and everything else from the
    stored object.
    """
    metadata, status = new["metadata"], new.get("status", {})
    new.clear()
    new.update(old)
    new["metadata"], new["status"] = metadata, status


def never_changes(_new: Obj, _old: Obj) -> bool:
    """Report no change, for kinds whose generation stays at its first value."""
    return False


def set_defaults(obj: Obj, defaults: Mapping[str, Any]) -> None:
    """Set each absent field to its default.

    Values are shared with the table of defaults, so a table must hold immutable values only. A
    second run changes nothing.
    """
    for name, value in defaults.items():
        if name not in obj:
            obj[name] = value


def ensure_object(obj: Obj, name: str) -> Obj:
    """Return the member of this name, after setting it to an empty object if it is absent
    or null.
    """
    inner: Obj | None = obj.get(name)
    if inner is None:
        inner = obj[name] = {}
    return inner


def round_resources(resources: Obj | None) -> None:
    """Round the limits and requests of a ResourceRequirements up to thousandths, as Kubernetes
    stores them.
    """
    if resources:
        for kind in ("limits", "requests"):
            if kind in resources:
                round_quantities(resources[kind])


def round_quantities(listed: dict[str, Any]) -> None:
    """Round the quantities of a ResourceList up to thousandths. Values that are exact already keep
    their spelling.
    """
    for name, quantity in listed.items():
        rounded = in_millis(quantity)
        if rounded != quantity:
            listed[name] = rounded


def field_reader(path: str, absent: str = "") -> Reader:
    """Return a function that reads the value at a dotted path as text, for field selectors.

    `absent` is the text when the value or an object above it is missing.
    """
    *steps, last = path.split(".")

    def read(obj: Obj) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step)
            if value is None:
                return absent
        return field_text(value.get(last), absent)

    return read


def field_text(value: Any, absent: str = "") -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def field_readers(*paths: str, **renamed: Reader) -> dict[str, Reader]:
    return {**{path: field_reader(path) for path in paths}, **renamed}


POD_FIELDS = {
    **field_readers(
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"
    ),
    "spec.hostNetwork": field_reader("spec.hostNetwork", "false"),
    **field_readers("status.phase", "status.nominatedNodeName"),
    "status.podIP": lambda pod: str(
        next((entry.get("ip", "") for entry in (pod.get("status") or {}).get("podIPs") or ()), "")
    ),
    "status.podIPs": lambda _: "",  # selectors may name it, although no object has it
    "spec.host": field_reader("spec.nodeName"),
}
NODE_FIELDS = {"spec.unschedulable": field_reader("spec.unschedulable", "false")}
NAMESPACE_FIELDS = field_readers("status.phase")
SECRET_FIELDS = field_readers("type")
SERVICE_FIELDS = field_readers("spec.clusterIP", "spec.type")
REPLICA_FIELDS = {"status.replicas": field_reader("status.replicas", "0")}
JOB_FIELDS = {"status.successful": field_reader("status.succeeded", "0")}
CERTIFICATE_FIELDS = field_readers("spec.signerName")
RESOURCE_SLICE_FIELDS = field_readers("spec.nodeName", "spec.driver")
OBJECT_REFERENCE_FIELDS = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
EVENT_FIELDS = {
    **field_readers(
        *(f"involvedObject.{part}" for part in OBJECT_REFERENCE_FIELDS),
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": (
        lambda event: str(
            (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        )
    ),
}
REGARDING_FIELDS = {
    **{f"regarding.{part}": field_reader(f"regarding.{part}") for part in OBJECT_REFERENCE_FIELDS},
    **field_readers("reason", "reportingController", "type"),
}
