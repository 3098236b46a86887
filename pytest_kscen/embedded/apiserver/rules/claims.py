"""Rules of PersistentVolumeClaims, and of claim templates in pods and StatefulSets.

After creation the spec is immutable, but for the requested size and the attributes class of a bound
claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules.checks import (
    Causes,
    unified_diff,
    validate_annotations,
    validate_enum,
    validate_immutable,
    validate_label_selector,
    validate_labels,
    validate_name,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    keep_spec,
    round_quantities,
    round_resources,
    set_defaults,
)
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
DATA_SOURCES = ("dataSource", "dataSourceRef")
CLONABLE_KINDS = {
    ("", "PersistentVolumeClaim"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
}
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
RESIZE_STATUSES = (
    *(
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ),
    "NodeResizePending",
)
_SPEC_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims\n"
)
_ATTRIBUTES_CLASS_IN_USE = "is forbidden when status.currentVolumeAttributesClassName is not nil"


def default_claim(claim: Obj) -> None:
    default_claim_spec(claim["spec"])
    status = claim.setdefault("status", {})
    set_defaults(status, {"phase": "Pending"})
    for field in ("capacity", "allocatedResources"):
        if field in status:
            round_quantities(status[field])


def default_claim_spec(spec: Obj) -> None:
    set_defaults(spec, {"volumeMode": "Filesystem"})
    round_resources(spec.get("resources"))


def prepare_claim_create(claim: Obj, _: Core) -> None:
    claim["status"] = {"phase": "Pending"}
    _synchronize_data_sources(claim, None)


def prepare_claim_update(new: Obj, old: Obj, _: Core) -> None:
    new["status"] = old["status"]
    if new["spec"] is not old["spec"]:
        _synchronize_data_sources(new, old)


def _synchronize_data_sources(claim: Obj, old: Obj | None) -> None:
    """Copy `dataSource` to `dataSourceRef` or the reverse, so that both name the same object.

    A reference into another namespace is dropped, because that feature is disabled, unless the old
    claim used it. The spec is replaced, never changed: it may be the stored object's.
    """
    spec, used = (
        claim["spec"],
        old is not None and any(field in old["spec"] for field in DATA_SOURCES),
    )
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference and reference.get("namespace") and not used:
        reference = None
    if source and not reference and not used:
        # The deprecated `dataSource` accepts claims and VolumeSnapshots only.
        kind = source.get("apiGroup") or "", source.get("kind")
        if kind not in CLONABLE_KINDS:
            source = None
    if source and not reference:
        reference = dict(source)
    elif reference and not source and not reference.get("namespace"):
        source = {field: value for field, value in reference.items() if field != "namespace"}
    synchronized = {"dataSource": source, "dataSourceRef": reference}
    if any(synchronized[field] != spec.get(field) for field in DATA_SOURCES):
        rest = {field: value for field, value in spec.items() if field not in DATA_SOURCES}
        claim["spec"] = {**rest, **{field: value for field, value in synchronized.items() if value}}


def validate_claim(claim: Obj) -> Causes:
    return validate_claim_spec("spec", claim["spec"])


def validate_claim_template(path: str, template: Obj) -> Causes:
    """Yield the causes for the template of a pod's ephemeral volume; its metadata may hold labels
    and annotations alone.
    """
    metadata = template.get("metadata") or {}
    yield from validate_annotations(f"{path}.metadata.annotations", metadata.get("annotations"))
    yield from validate_labels(f"{path}.metadata.labels", metadata.get("labels"))
    for field in metadata:
        if field not in {"annotations", "labels"} and metadata[field]:
            yield Cause.forbidden(f"{path}.metadata.{field}", "cannot be set")
    yield from validate_claim_spec(f"{path}.spec", template["spec"])


def validate_claim_spec(path: str, spec: Obj) -> Causes:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield Cause.required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from validate_label_selector(f"{path}.selector", spec.get("selector"))
    yield from validate_access_modes(f"{path}.accessModes", modes)
    yield from _validate_storage_request(
        f"{path}.resources[storage]", (spec.get("resources") or {}).get("requests") or {}
    )
    if spec.get("storageClassName"):
        yield from validate_name(
            f"{path}.storageClassName", spec["storageClassName"], names.dns1123_subdomain
        )
    if "volumeMode" in spec:
        yield from validate_enum(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if field in spec:
            yield from _validate_data_source(f"{path}.{field}", spec[field])
    if "dataSource" in spec and "dataSourceRef" in spec:
        one, other = (
            {field: spec[name].get(field) for field in ("apiGroup", "kind", "name")}
            for name in DATA_SOURCES
        )
        if one != other:
            yield Cause.invalid(path, {}, "must match dataSourceRef")
    if spec.get("volumeAttributesClassName"):
        yield from validate_name(
            f"{path}.volumeAttributesClassName",
            spec["volumeAttributesClassName"],
            names.dns1123_subdomain,
        )


def validate_access_modes(path: str, modes: Sequence[str]) -> Causes:
    for mode in modes:
        yield from validate_enum(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:-1] for mode in modes):
        yield Cause.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_storage_request(path: str, requests: Obj) -> Causes:
    if "storage" not in requests:
        yield Cause.required(path)
    elif quantities.nanos(requests["storage"]) <= 0:
        yield Cause.invalid(path, requests["storage"], "must be greater than zero")


def _validate_data_source(path: str, source: Obj) -> Causes:
    for field in ("name", "kind"):
        if not source.get(field):
            yield Cause.required(f"{path}.{field}")
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        yield Cause.invalid(
            path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        )
    if group:
        yield from validate_name(f"{path}.apiGroup", group, names.dns1123_subdomain)


def validate_claim_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is old["spec"]:
        return
    yield from validate_claim_spec("spec", new["spec"])
    beta, before = (
        claim["metadata"].get("annotations", {}).get(BETA_STORAGE_CLASS, "") for claim in (new, old)
    )
    yield from validate_immutable(f"metadata.annotations.{BETA_STORAGE_CLASS}", beta, before)
    # Undo the permitted changes: what still differs from the old spec is forbidden.
    wanted, earlier = dict(new["spec"]), old["spec"]
    free = [] if earlier.get("volumeName") else ["volumeName"]
    if "storageClassName" not in earlier:
        free.append("storageClassName")
    if new.get("status", {}).get("phase") == "Bound":
        free.append("volumeAttributesClassName")
        requests = (wanted.get("resources") or {}).get("requests")
        if requests is not None and "storage" in (earlier["resources"].get("requests") or {}):
            kept = {**requests, "storage": earlier["resources"]["requests"]["storage"]}
            wanted["resources"] = {**wanted["resources"], "requests": kept}
    for field in free:
        wanted.pop(field, None)
        if field in earlier:
            wanted[field] = earlier[field]
    if wanted != old["spec"]:
        yield Cause.forbidden("spec", _SPEC_IMMUTABLE + unified_diff(old["spec"], wanted))
    size, had = (
        quantities.nanos(
            ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
        )
        for claim in (new, old)
    )
    if size < had and size <= quantities.nanos(
        (old.get("status", {}).get("capacity") or {}).get("storage", "0")
    ):
        yield Cause.forbidden(
            "spec.resources.requests.storage", "field can not be less than status.capacity"
        )
    yield from validate_immutable(
        "volumeMode", new["spec"].get("volumeMode"), old["spec"].get("volumeMode")
    )
    wanted_class = new["spec"].get("volumeAttributesClassName")
    changed = wanted_class != old["spec"].get("volumeAttributesClassName")
    if (
        changed
        and not wanted_class
        and old.get("status", {}).get("currentVolumeAttributesClassName") is not None
    ):
        what = "update to nil" if wanted_class is None else "update to empty string"
        yield Cause.forbidden(
            "spec.volumeAttributesClassName", f"{what} {_ATTRIBUTES_CLASS_IN_USE}"
        )


def validate_claim_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    for name, quantity in (status.get("capacity") or {}).items():
        yield from validate_basic_quantity(f"status.capacity[{name}]", quantity)
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        yield from _validate_resource_key("status.allocatedResourceStatuses", name)
        if state not in RESIZE_STATUSES:
            yield Cause.unsupported("status.allocatedResourceStatuses", name, RESIZE_STATUSES)
    for name, quantity in (status.get("allocatedResources") or {}).items():
        yield from _validate_resource_key("status.allocatedResources", name)
        yield from validate_basic_quantity(f"status.allocatedResources[{name}]", quantity)


def validate_basic_quantity(path: str, quantity: str) -> Causes:
    if quantities.parse(quantity).value < 0:
        yield Cause.invalid(
            path, quantities.parse(quantity).value, "must be a valid resource quantity"
        )


def _validate_resource_key(path: str, name: str) -> Causes:
    yield from validate_name(path, name, names.label_key)
    if (
        not names.label_key(name)
        and ("/" not in name or "kubernetes.io/" in name)
        and name != "storage"
    ):
        yield Cause.unsupported(path, name, ("storage",))


RULES = {
    ("", "persistentvolumeclaims"): Rules(
        default=default_claim,
        prepare_create=prepare_claim_create,
        prepare_update=prepare_claim_update,
        validate=validate_claim,
        validate_update=validate_claim_update,
        parts={"status": SubresourceRules(keep_spec, validate_claim_status)},
        qualified_finalizers=True,
        generation=None,
    )
}
