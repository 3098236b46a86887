"""Storage classes, the attributes of volumes, and what room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Part, Rules, status_alone
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import DEVICE_DRIVER, internal
from pytest_kscen.embedded.apiserver.rules.fields import fill, fresh_status, keep_status
from pytest_kscen.embedded.apiserver.rules.volume_sources import driver_name
from pytest_kscen.embedded.apiserver.rules.volumes import volume_spec
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


GROUP = "storage.k8s.io"
LARGEST_PARAMETERS = 256 * 1024
MOST_PARAMETERS = 512
FIXED_OF_CLASSES = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def default_class(obj: Obj) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def validate_class(obj: Obj) -> Causes:
    yield from _provisioner("provisioner", obj.get("provisioner", ""))
    yield from _parameters(obj.get("parameters") or {}, needed=False)
    if obj.get("reclaimPolicy"):
        yield from checks.one_of("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    yield from checks.one_of("volumeBindingMode", obj.get("volumeBindingMode", ""), modes)
    yield from _topologies("allowedTopologies", obj.get("allowedTopologies") or [])


def _provisioner(path: str, name: str) -> Causes:
    if not name:
        yield Cause.required(path)
    else:
        for words in names.label_key(name.lower()):
            yield Cause.invalid(path, name.lower(), words)


def _parameters(given: Obj, *, needed: bool) -> Causes:
    if len(given) > MOST_PARAMETERS:
        yield Cause.too_long("parameters", MOST_PARAMETERS)
    elif (
        sum(len(key.encode()) + len(value.encode()) for key, value in given.items())
        > LARGEST_PARAMETERS
    ):
        yield Cause.too_long("parameters", LARGEST_PARAMETERS)
    elif "" in given:
        yield Cause.invalid("parameters", "", "field can not be empty.")
    elif needed and not given:
        yield Cause.required("parameters", "must contain at least one key/value pair")


def _topologies(path: str, given: list[Obj]) -> Causes:
    seen: list[Any] = []
    for place, term in enumerate(given):
        here, parts = (
            f"{path}[{place}].matchLabelExpressions",
            term.get("matchLabelExpressions") or [],
        )
        for number, part in enumerate(parts):
            values = part.get("values") or []
            if not values:
                yield Cause.required(f"{here}[{number}].values")
            yield from checks.unique(f"{here}[{number}].values", values)
            yield from checks.named(f"{here}[{number}].key", part.get("key", ""), names.label_key)
            if part.get("key") in [other.get("key") for other in parts[:number]]:
                yield Cause.duplicate(f"{here}[{number}].key", part.get("key", ""))
        terms = {part.get("key"): set(part.get("values") or ()) for part in parts}
        if not terms or terms in seen:
            yield Cause.duplicate(here, "")
        seen.append(terms)


def update_class(new: Obj, old: Obj) -> Causes:
    yield from validate_class(new)
    for field in FIXED_OF_CLASSES:
        yield from checks.immutable(field, new.get(field), old.get(field))


def validate_capacity(obj: Obj) -> Causes:
    yield from checks.selector("nodeTopology", obj.get("nodeTopology"))
    yield from checks.named(
        "storageClassName", obj.get("storageClassName", ""), names.dns1123_subdomain
    )
    if "capacity" in obj and quantities.nanos(obj["capacity"]) < 0:
        yield Cause.invalid("capacity", obj["capacity"], checks.NOT_NEGATIVE)


def update_capacity(new: Obj, old: Obj) -> Causes:
    yield from validate_capacity(new)
    for field in ("nodeTopology", "storageClassName"):
        yield from checks.immutable(field, new.get(field), old.get(field))


def validate_attributes(obj: Obj) -> Causes:
    yield from _provisioner("driverName", obj.get("driverName", ""))
    yield from _parameters(obj.get("parameters") or {}, needed=True)


def update_attributes(new: Obj, old: Obj) -> Causes:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield Cause.forbidden(field, f"updates to {field} are forbidden.")
    yield from validate_attributes(new)


CLASS_RULES = {
    (GROUP, "storageclasses"): Rules(
        default=default_class,
        validate=validate_class,
        validate_update=update_class,
        qualified_finalizers=True,
        generation=None,
    ),
    (GROUP, "csistoragecapacities"): Rules(
        validate=validate_capacity,
        validate_update=update_capacity,
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
    (GROUP, "volumeattributesclasses"): Rules(
        validate=validate_attributes,
        validate_update=update_attributes,
        qualified_finalizers=True,
        generation=None,
    ),
}


# What CSI drivers say of themselves and of nodes, and the volumes that they attach.


CSI_GROUP = "storage.k8s.io"
LARGEST_METADATA = 256 * 1024
LONGEST_NODE_ID, LONGEST_ERROR = 256, 1024
DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def validate_attachment(obj: Obj) -> Causes:
    spec = obj["spec"]
    if spec.get("attacher"):
        yield from driver_name("spec.attacher", spec["attacher"])
    else:
        yield Cause.required("spec.attacher")
    yield from _attached("spec.source", spec.get("source") or {})
    yield from checks.named("spec.nodeName", spec.get("nodeName", ""), names.dns1123_subdomain)
    yield from attachment_status(obj, obj)
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        yield from checks.named("spec.source.persistentVolumeName", name, names.dns1123_subdomain)


def _attached(path: str, source: Obj) -> Causes:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        yield Cause.required(path, _ONE_SOURCE)
    elif inline is not None and name is not None:
        yield Cause.forbidden(path, _ONE_SOURCE)
    elif name == "":
        yield Cause.required(
            f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName"
        )
    elif inline is not None:
        yield from volume_spec(f"{path}.inlineVolumeSpec", inline, "", inline=True)


def attachment_status(new: Obj, _: Obj) -> Causes:
    status = new.get("status") or {}
    size = sum(
        len(key.encode()) + len(value.encode())
        for key, value in (status.get("attachmentMetadata") or {}).items()
    )
    if size > LARGEST_METADATA:
        yield Cause.too_long("status.attachmentMetadata", LARGEST_METADATA)
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if len(error.get("message", "").encode()) > LONGEST_ERROR:
            yield Cause.too_long(f"status.{field}.message", LARGEST_METADATA)
        if error.get("errorCode", 0) < 0:
            why = names.within(0, checks.LARGEST_INT32)
            yield Cause.invalid(f"status.{field}.errorCode", error["errorCode"], why)


def update_attachment(new: Obj, old: Obj) -> Causes:
    yield from validate_attachment(new)
    yield from checks.immutable("spec", new["spec"], old["spec"])


def default_driver(obj: Obj) -> None:
    fill(obj["spec"], DRIVER)
    if not obj["spec"].get("volumeLifecycleModes"):
        obj["spec"]["volumeLifecycleModes"] = ["Persistent"]


def create_driver(obj: Obj, _core: Core) -> None:
    _drop_disabled(obj)


def update_driver(new: Obj, _old: Obj, _core: Core) -> None:
    _drop_disabled(new)


def _drop_disabled(obj: Obj) -> None:
    if "preventPodSchedulingIfMissing" in obj["spec"]:
        obj["spec"] = {
            name: value
            for name, value in obj["spec"].items()
            if name != "preventPodSchedulingIfMissing"
        }


def validate_driver(obj: Obj) -> Causes:
    spec = obj["spec"]
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    yield from checks.one_of("spec.fsGroupPolicy", spec["fsGroupPolicy"], policies)
    yield from _tokens("spec.tokenRequests", spec.get("tokenRequests") or ())
    for mode in spec.get("volumeLifecycleModes") or ():
        yield from checks.one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:  # noqa: PLR2004
        why = "must be greater than or equal to 10 seconds"
        yield Cause.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)
    if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield Cause.invalid(
            "spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], why
        )


def _tokens(path: str, given: list[Obj] | tuple[()]) -> Causes:
    seen: set[str] = set()
    for place, request in enumerate(given):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        if audience in seen:
            yield Cause.duplicate(f"{path}[{place}].audience", audience)
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:  # noqa: PLR2004
            why = "may not specify a duration less than 10 minutes"
            yield Cause.invalid(f"{path}[{place}].expirationSeconds", seconds, why)
        if seconds is not None and seconds > 1 << 32:
            why = "may not specify a duration larger than 2^32 seconds"
            yield Cause.invalid(f"{path}[{place}].expirationSeconds", seconds, why)


def update_driver_causes(new: Obj, old: Obj) -> Causes:
    yield from validate_driver(new)
    for field, shown in (
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ):
        yield from checks.immutable(f"spec.{shown}", new["spec"].get(field), old["spec"].get(field))


def validate_node(obj: Obj) -> Causes:
    seen: set[str] = set()
    for place, driver in enumerate(obj["spec"].get("drivers") or ()):
        path, name, node = (
            f"spec.drivers[{place}]",
            driver.get("name", ""),
            driver.get("nodeID", ""),
        )
        yield from driver_name(f"{path}.name", name)
        if not node:
            yield Cause.required(f"{path}.nodeID")
        if len(node.encode()) > LONGEST_NODE_ID:
            yield Cause.invalid(
                f"{path}.nodeID", node, f"must be {LONGEST_NODE_ID} characters or less"
            )
        yield from checks.not_negative(
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
            yield from checks.named(path, key, names.label_key)


def update_node(new: Obj, old: Obj) -> Causes:
    yield from validate_node(new)
    before = {driver.get("name"): driver for driver in old["spec"].get("drivers") or ()}
    for driver in new["spec"].get("drivers") or ():
        if driver.get("name") in before:
            after, was = (_without_count(one) for one in (driver, before[driver.get("name")]))
            if after != was:
                yield Cause.invalid(
                    "spec.drivers", internal(DEVICE_DRIVER, after), checks.IMMUTABLE
                )


def _without_count(driver: Obj) -> Obj:
    return {name: value for name, value in driver.items() if name != "allocatable"}


CSI_RULES = {
    (CSI_GROUP, "volumeattachments"): Rules(
        prepare_create=fresh_status(attached=False),
        prepare_update=keep_status,
        validate=validate_attachment,
        validate_update=update_attachment,
        parts={"status": Part(status_alone, attachment_status)},
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
    (CSI_GROUP, "csidrivers"): Rules(
        default=default_driver,
        prepare_create=create_driver,
        prepare_update=update_driver,
        validate=validate_driver,
        validate_update=update_driver_causes,
        qualified_finalizers=True,
        first_generation=None,
        unconditional_update=False,
    ),
    (CSI_GROUP, "csinodes"): Rules(
        validate=validate_node,
        validate_update=update_node,
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
}
