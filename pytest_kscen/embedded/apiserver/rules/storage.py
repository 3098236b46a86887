"""Rules of StorageClasses, VolumeAttributesClasses, CSIStorageCapacities, CSIDrivers, CSINodes and
VolumeAttachments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, prepare_status
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import GO_CSI_NODE_DRIVER, as_go_struct
from pytest_kscen.embedded.apiserver.rules.fields import (
    keep_status,
    set_defaults,
    status_initializer,
)
from pytest_kscen.embedded.apiserver.rules.volume_sources import validate_driver_name
from pytest_kscen.embedded.apiserver.rules.volumes import validate_volume_spec
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


STORAGE_GROUP = "storage.k8s.io"
MAX_PARAMETERS_BYTES = 256 * 1024
MAX_PARAMETERS = 512
IMMUTABLE_CLASS_FIELDS = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def default_storage_class(obj: Obj) -> None:
    set_defaults(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def validate_storage_class(obj: Obj) -> Causes:
    yield from _validate_provisioner("provisioner", obj.get("provisioner", ""))
    yield from _validate_parameters(obj.get("parameters") or {}, needed=False)
    if obj.get("reclaimPolicy"):
        yield from checks.validate_enum("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    yield from checks.validate_enum("volumeBindingMode", obj.get("volumeBindingMode", ""), modes)
    path = "allowedTopologies"
    given = obj.get("allowedTopologies") or []
    seen: list[Any] = []
    for index, term in enumerate(given):
        here, parts = (
            f"{path}[{index}].matchLabelExpressions",
            term.get("matchLabelExpressions") or [],
        )
        for number, part in enumerate(parts):
            values = part.get("values") or []
            if not values:
                yield Cause.required(f"{here}[{number}].values")
            yield from checks.validate_unique(f"{here}[{number}].values", values)
            yield from checks.validate_name(
                f"{here}[{number}].key", part.get("key", ""), names.label_key
            )
            if part.get("key") in [other.get("key") for other in parts[:number]]:
                yield Cause.duplicate(f"{here}[{number}].key", part.get("key", ""))
        terms = {part.get("key"): set(part.get("values") or ()) for part in parts}
        if not terms or terms in seen:
            yield Cause.duplicate(here, "")
        seen.append(terms)


def _validate_provisioner(path: str, name: str) -> Causes:
    if not name:
        yield Cause.required(path)
    else:
        for message in names.label_key(name.lower()):
            yield Cause.invalid(path, name.lower(), message)


def _validate_parameters(given: Obj, *, needed: bool) -> Causes:
    if len(given) > MAX_PARAMETERS:
        yield Cause.too_long("parameters", MAX_PARAMETERS)
    elif (
        sum(len(key.encode()) + len(value.encode()) for key, value in given.items())
        > MAX_PARAMETERS_BYTES
    ):
        yield Cause.too_long("parameters", MAX_PARAMETERS_BYTES)
    elif "" in given:
        yield Cause.invalid("parameters", "", "field can not be empty.")
    elif needed and not given:
        yield Cause.required("parameters", "must contain at least one key/value pair")


def validate_storage_class_update(new: Obj, old: Obj) -> Causes:
    yield from validate_storage_class(new)
    for field in IMMUTABLE_CLASS_FIELDS:
        yield from checks.validate_immutable(field, new.get(field), old.get(field))


def validate_capacity(obj: Obj) -> Causes:
    yield from checks.validate_label_selector("nodeTopology", obj.get("nodeTopology"))
    yield from checks.validate_name(
        "storageClassName", obj.get("storageClassName", ""), names.dns1123_subdomain
    )
    if "capacity" in obj and quantities.nanos(obj["capacity"]) < 0:
        yield Cause.invalid("capacity", obj["capacity"], checks.NOT_NEGATIVE)


def validate_capacity_update(new: Obj, old: Obj) -> Causes:
    yield from validate_capacity(new)
    for field in ("nodeTopology", "storageClassName"):
        yield from checks.validate_immutable(field, new.get(field), old.get(field))


def validate_attributes_class(obj: Obj) -> Causes:
    yield from _validate_provisioner("driverName", obj.get("driverName", ""))
    yield from _validate_parameters(obj.get("parameters") or {}, needed=True)


def validate_attributes_class_update(new: Obj, old: Obj) -> Causes:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield Cause.forbidden(field, f"updates to {field} are forbidden.")
    yield from validate_attributes_class(new)


CLASS_RULES = {
    (STORAGE_GROUP, "storageclasses"): Rules(
        default=default_storage_class,
        validate=validate_storage_class,
        validate_update=validate_storage_class_update,
        qualified_finalizers=True,
        generation=None,
    ),
    (STORAGE_GROUP, "csistoragecapacities"): Rules(
        validate=validate_capacity,
        validate_update=validate_capacity_update,
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
    (STORAGE_GROUP, "volumeattributesclasses"): Rules(
        validate=validate_attributes_class,
        validate_update=validate_attributes_class_update,
        qualified_finalizers=True,
        generation=None,
    ),
}


MAX_METADATA_BYTES = 256 * 1024
MAX_NODE_ID_BYTES, MAX_ERROR_BYTES = 256, 1024
CSI_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_ONE_ATTACHMENT_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def validate_attachment(obj: Obj) -> Causes:
    spec = obj["spec"]
    if spec.get("attacher"):
        yield from validate_driver_name("spec.attacher", spec["attacher"])
    else:
        yield Cause.required("spec.attacher")
    path = "spec.source"
    source = spec.get("source") or {}
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        yield Cause.required(path, _ONE_ATTACHMENT_SOURCE)
    elif inline is not None and name is not None:
        yield Cause.forbidden(path, _ONE_ATTACHMENT_SOURCE)
    elif name == "":
        yield Cause.required(
            f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName"
        )
    elif inline is not None:
        yield from validate_volume_spec(f"{path}.inlineVolumeSpec", inline, "", inline=True)
    yield from checks.validate_name(
        "spec.nodeName", spec.get("nodeName", ""), names.dns1123_subdomain
    )
    yield from validate_attachment_status(obj, obj)
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        yield from checks.validate_name(
            "spec.source.persistentVolumeName", name, names.dns1123_subdomain
        )


def validate_attachment_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    size = sum(
        len(key.encode()) + len(value.encode())
        for key, value in (status.get("attachmentMetadata") or {}).items()
    )
    if size > MAX_METADATA_BYTES:
        yield Cause.too_long("status.attachmentMetadata", MAX_METADATA_BYTES)
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if len(error.get("message", "").encode()) > MAX_ERROR_BYTES:
            yield Cause.too_long(f"status.{field}.message", MAX_METADATA_BYTES)
        if error.get("errorCode", 0) < 0:
            detail = names.within(0, checks.MAX_INT32)
            yield Cause.invalid(f"status.{field}.errorCode", error["errorCode"], detail)


def validate_attachment_update(new: Obj, old: Obj) -> Causes:
    yield from validate_attachment(new)
    yield from checks.validate_immutable("spec", new["spec"], old["spec"])


def default_csi_driver(obj: Obj) -> None:
    set_defaults(obj["spec"], CSI_DRIVER_DEFAULTS)
    if not obj["spec"].get("volumeLifecycleModes"):
        obj["spec"]["volumeLifecycleModes"] = ["Persistent"]


def prepare_csi_driver_create(obj: Obj, _core: Core) -> None:
    _drop_disabled_fields(obj)


def prepare_csi_driver_update(new: Obj, _old: Obj, _core: Core) -> None:
    _drop_disabled_fields(new)


def _drop_disabled_fields(obj: Obj) -> None:
    if "preventPodSchedulingIfMissing" in obj["spec"]:
        obj["spec"] = {
            name: value
            for name, value in obj["spec"].items()
            if name != "preventPodSchedulingIfMissing"
        }


def validate_csi_driver(obj: Obj) -> Causes:
    spec = obj["spec"]
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    yield from checks.validate_enum("spec.fsGroupPolicy", spec["fsGroupPolicy"], policies)
    path = "spec.tokenRequests"
    given = spec.get("tokenRequests") or ()
    seen: set[str] = set()
    for index, request in enumerate(given):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        if audience in seen:
            yield Cause.duplicate(f"{path}[{index}].audience", audience)
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:  # noqa: PLR2004
            detail = "may not specify a duration less than 10 minutes"
            yield Cause.invalid(f"{path}[{index}].expirationSeconds", seconds, detail)
        if seconds is not None and seconds > 1 << 32:
            detail = "may not specify a duration larger than 2^32 seconds"
            yield Cause.invalid(f"{path}[{index}].expirationSeconds", seconds, detail)
    for mode in spec.get("volumeLifecycleModes") or ():
        yield from checks.validate_enum(
            "spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral")
        )
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:  # noqa: PLR2004
        detail = "must be greater than or equal to 10 seconds"
        yield Cause.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail)
    if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield Cause.invalid(
            "spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], detail
        )


def validate_csi_driver_update(new: Obj, old: Obj) -> Causes:
    yield from validate_csi_driver(new)
    for field, shown in (
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ):
        yield from checks.validate_immutable(
            f"spec.{shown}", new["spec"].get(field), old["spec"].get(field)
        )


def validate_csi_node(obj: Obj) -> Causes:
    seen: set[str] = set()
    for index, driver in enumerate(obj["spec"].get("drivers") or ()):
        path, name, node = (
            f"spec.drivers[{index}]",
            driver.get("name", ""),
            driver.get("nodeID", ""),
        )
        yield from validate_driver_name(f"{path}.name", name)
        if not node:
            yield Cause.required(f"{path}.nodeID")
        if len(node.encode()) > MAX_NODE_ID_BYTES:
            yield Cause.invalid(
                f"{path}.nodeID", node, f"must be {MAX_NODE_ID_BYTES} characters or less"
            )
        yield from checks.validate_nonnegative(
            f"{path}.allocatable.count", driver.get("allocatable", {}).get("count")
        )
        if name in seen:
            yield Cause.duplicate(f"{path}.name", name)
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for number, key in enumerate(keys):
            if not key:
                yield Cause.required(path)
            if key in keys[:number]:
                yield Cause.duplicate(path, key)
            yield from checks.validate_name(path, key, names.label_key)


def validate_csi_node_update(new: Obj, old: Obj) -> Causes:
    yield from validate_csi_node(new)
    before = {driver.get("name"): driver for driver in old["spec"].get("drivers") or ()}
    for driver in new["spec"].get("drivers") or ():
        if driver.get("name") in before:
            after, was = (
                {name: value for name, value in one.items() if name != "allocatable"}
                for one in (driver, before[driver.get("name")])
            )
            if after != was:
                yield Cause.invalid(
                    "spec.drivers", as_go_struct(GO_CSI_NODE_DRIVER, after), checks.IMMUTABLE
                )


CSI_RULES = {
    (STORAGE_GROUP, "volumeattachments"): Rules(
        prepare_create=status_initializer(attached=False),
        prepare_update=keep_status,
        validate=validate_attachment,
        validate_update=validate_attachment_update,
        parts={"status": SubresourceRules(prepare_status, validate_attachment_status)},
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
    (STORAGE_GROUP, "csidrivers"): Rules(
        default=default_csi_driver,
        prepare_create=prepare_csi_driver_create,
        prepare_update=prepare_csi_driver_update,
        validate=validate_csi_driver,
        validate_update=validate_csi_driver_update,
        qualified_finalizers=True,
        first_generation=None,
        unconditional_update=False,
    ),
    (STORAGE_GROUP, "csinodes"): Rules(
        validate=validate_csi_node,
        validate_update=validate_csi_node_update,
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
}
