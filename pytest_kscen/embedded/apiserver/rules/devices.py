"""Rules of dynamic resource allocation: ResourceClaims and their templates, DeviceClasses,
ResourceSlices.

CEL selectors of devices are not compiled here: the component that allocates devices compiles them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, prepare_status
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import (
    RESOURCE_SLICE_FIELDS,
    clear_status,
    keep_status,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import validate_node_selector
from pytest_kscen.embedded.apiserver.rules.volume_sources import (
    require_fields,
    validate_driver_name,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

RESOURCE_GROUP = "resource.k8s.io"
MAX_LIST_SIZE, MAX_SUBREQUESTS, MAX_CONSUMERS, MAX_DEVICES = 32, 8, 256, 128
ALLOCATION_MODES = ("All", "ExactCount")
NODE_SCOPES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_BAD_REQUEST_REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_ONE_REQUEST_TYPE = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_NODE_SCOPE = f"exactly one of {', '.join(f'`{field}`' for field in NODE_SCOPES)} is required"


def default_resource_claim(obj: Obj) -> None:
    _default_requests(obj["spec"])


def default_resource_claim_template(obj: Obj) -> None:
    _default_requests(obj["spec"].get("spec") or {})


def _default_requests(spec: Obj) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None:
                set_defaults(one, {"allocationMode": "ExactCount"})
                if one["allocationMode"] == "ExactCount":
                    set_defaults(one, {"count": 1})


def validate_resource_claim(obj: Obj) -> Causes:
    yield from _validate_device_claim("spec.devices", obj["spec"].get("devices") or {})


def validate_resource_claim_template(obj: Obj) -> Causes:
    metadata = obj["spec"].get("metadata") or {}
    yield from checks.validate_labels("spec.metadata.labels", metadata.get("labels"))
    yield from checks.validate_annotations("spec.metadata.annotations", metadata.get("annotations"))
    yield from _validate_device_claim(
        "spec.spec.devices", (obj["spec"].get("spec") or {}).get("devices") or {}
    )


def _validate_each(
    path: str,
    given: Sequence[Any] | None,
    most: int,
    validator: Callable[[str, Any], Iterable[Cause]],
) -> Causes:
    """Validate each item of a list. A list that is too long yields one cause, and its items are not
    validated.
    """
    if given and len(given) > most:
        yield Cause.too_many(path, len(given), most)
        return
    for index, one in enumerate(given or ()):
        yield from validator(f"{path}[{index}]", one)


def _validate_device_claim(path: str, claim: Obj) -> Causes:
    known: set[str] = set()  # names of requests and `request/subrequest`
    for request in claim.get("requests") or ():
        name = request.get("name", "")
        known |= {
            name,
            *(f"{name}/{other.get('name', '')}" for other in request.get("firstAvailable") or ()),
        }

    def reference(where: str, name: str) -> Causes:
        for word in name.split("/"):
            yield from checks.validate_name(where, word, names.dns1123_label)
        if name not in known:
            yield Cause.invalid(where, name, _BAD_REQUEST_REFERENCE)

    def refers(here: str, part: Obj) -> Causes:
        yield from _validate_each(
            f"{here}.requests",
            part.get("requests"),
            MAX_LIST_SIZE,
            reference,
        )
        yield from checks.validate_unique(f"{here}.requests", part.get("requests") or ())

    def constraint(here: str, part: Obj) -> Causes:
        yield from refers(here, part)
        if "matchAttribute" not in part and "distinctAttribute" not in part:
            yield Cause.required(f"{here}.matchAttribute")

    def configuration(here: str, part: Obj) -> Causes:
        yield from refers(here, part)
        yield from _validate_opaque_configuration(here, part)

    yield from _validate_each(
        f"{path}.requests", claim.get("requests"), MAX_LIST_SIZE, _validate_request
    )
    yield from checks.validate_unique(
        f"{path}.requests", [request.get("name", "") for request in claim.get("requests") or ()]
    )
    yield from _validate_each(
        f"{path}.constraints", claim.get("constraints"), MAX_LIST_SIZE, constraint
    )
    yield from _validate_each(f"{path}.config", claim.get("config"), MAX_LIST_SIZE, configuration)


def _validate_request(path: str, request: Obj) -> Causes:
    yield from checks.validate_name(f"{path}.name", request.get("name", ""), names.dns1123_label)
    exact, others = request.get("exactly"), request.get("firstAvailable")
    if exact is None and not others:
        yield Cause.required(path, _ONE_REQUEST_TYPE)
    elif exact is not None and others:
        yield Cause.invalid(path, None, f"{_ONE_REQUEST_TYPE}, but multiple fields are set")
    elif exact is not None:
        yield from _validate_device_request(f"{path}.exactly", exact)
    elif others:
        yield from _validate_each(
            f"{path}.firstAvailable", others, MAX_SUBREQUESTS, _validate_subrequest
        )
        yield from checks.validate_unique(
            f"{path}.firstAvailable", [other.get("name", "") for other in others]
        )


def _validate_subrequest(path: str, given: Obj) -> Causes:
    yield from checks.validate_name(f"{path}.name", given.get("name", ""), names.dns1123_label)
    yield from _validate_device_request(path, given)


def _validate_device_request(path: str, given: Obj) -> Causes:
    yield from checks.validate_required_name(
        f"{path}.deviceClassName", given.get("deviceClassName"), names.dns1123_subdomain
    )
    yield from _validate_each(
        f"{path}.selectors", given.get("selectors"), MAX_LIST_SIZE, _validate_device_selector
    )
    mode, count = given.get("allocationMode", ""), given.get("count", 0)
    if mode == "All" and count:
        yield Cause.invalid(
            f"{path}.count", count, "must not be specified when allocationMode is 'All'"
        )
    elif mode == "ExactCount":
        yield from checks.validate_positive(f"{path}.count", count)
    yield from checks.validate_enum(f"{path}.allocationMode", mode, ALLOCATION_MODES)


def _validate_device_selector(path: str, given: Obj) -> Causes:
    if "cel" not in given:
        yield Cause.required(f"{path}.cel")


def _validate_opaque_configuration(path: str, given: Obj) -> Causes:
    opaque = given.get("opaque")
    if opaque is None:
        yield Cause.required(f"{path}.opaque")
        return
    yield from _validate_required_driver(f"{path}.opaque.driver", opaque.get("driver"))
    if opaque.get("parameters") is None:
        yield Cause.required(f"{path}.opaque.parameters")


def _validate_required_driver(path: str, name: str | None) -> Causes:
    if name:
        yield from validate_driver_name(path, name)
    else:
        yield Cause.required(path)


def validate_spec_unchanged(new: Obj, old: Obj) -> Causes:
    return checks.validate_immutable("spec", new["spec"], old["spec"])


def validate_resource_claim_status(new: Obj, old: Obj) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    reserved = status.get("reservedFor") or ()
    yield from _validate_each(
        "status.reservedFor", reserved, MAX_CONSUMERS, require_fields("resource", "name", "uid")
    )
    yield from checks.validate_unique(
        "status.reservedFor", [one.get("uid", "") for one in reserved]
    )
    if reserved and "allocation" not in status:
        yield Cause.forbidden(
            "status.reservedFor", "may not be specified when `allocated` is not set"
        )
    if "allocation" in status and "allocation" in before:
        yield from checks.validate_immutable(
            "status.allocation", status["allocation"], before["allocation"]
        )


def validate_device_class(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from _validate_each(
        "spec.selectors", spec.get("selectors"), MAX_LIST_SIZE, _validate_device_selector
    )
    yield from _validate_each(
        "spec.config", spec.get("config"), MAX_LIST_SIZE, _validate_opaque_configuration
    )


def validate_resource_slice(obj: Obj) -> Causes:
    spec, pool = obj["spec"], obj["spec"].get("pool") or {}
    yield from _validate_required_driver("spec.driver", spec.get("driver"))
    if not pool.get("name"):
        yield Cause.required("spec.pool.name")
    for part in pool["name"].split("/") if pool.get("name") else ():
        yield from checks.validate_name("spec.pool.name", part, names.dns1123_subdomain)
    yield from checks.validate_positive(
        "spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0)
    )
    if pool.get("generation", 0) < 0:
        yield Cause.invalid(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    # Nodes that can reach the devices: exactly one of four ways.
    if spec.get("nodeName"):
        yield from checks.validate_name("spec.nodeName", spec["nodeName"], names.dns1123_subdomain)
    if "nodeSelector" in spec:
        yield from validate_node_selector("spec.nodeSelector", spec["nodeSelector"])
    given = [f"`{field}`" for field in NODE_SCOPES if spec.get(field) not in (None, False, "")]
    if not given:
        yield Cause.required("spec", _ONE_NODE_SCOPE)
    elif len(given) > 1:
        yield Cause.invalid(
            "spec", f"{{{', '.join(given)}}}", f"{_ONE_NODE_SCOPE}, but multiple fields are set"
        )
    yield from _validate_each(
        "spec.devices",
        spec.get("devices"),
        MAX_DEVICES,
        lambda path, device: checks.validate_name(
            f"{path}.name", device.get("name", ""), names.dns1123_label
        ),
    )
    yield from checks.validate_unique(
        "spec.devices", [device.get("name", "") for device in spec.get("devices") or ()]
    )


def validate_resource_slice_update(new: Obj, old: Obj) -> Causes:
    yield from validate_resource_slice(new)
    yield from checks.validate_immutable(
        "spec.pool.name", new["spec"]["pool"].get("name"), old["spec"]["pool"].get("name")
    )
    for field in ("driver", "nodeName"):
        yield from checks.validate_immutable(
            f"spec.{field}", new["spec"].get(field), old["spec"].get(field)
        )


RULES = {
    (RESOURCE_GROUP, "resourceclaims"): Rules(
        default=default_resource_claim,
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_resource_claim,
        validate_update=validate_spec_unchanged,
        parts={"status": SubresourceRules(prepare_status, validate_resource_claim_status)},
        qualified_finalizers=True,
        generation=None,
    ),
    (RESOURCE_GROUP, "resourceclaimtemplates"): Rules(
        default=default_resource_claim_template,
        validate=validate_resource_claim_template,
        validate_update=validate_spec_unchanged,
        qualified_finalizers=True,
        generation=None,
    ),
    (RESOURCE_GROUP, "deviceclasses"): Rules(
        validate=validate_device_class,
        validate_update=lambda new, _: validate_device_class(new),
        qualified_finalizers=True,
    ),
    (RESOURCE_GROUP, "resourceslices"): Rules(
        validate=validate_resource_slice,
        validate_update=validate_resource_slice_update,
        qualified_finalizers=True,
        fields=RESOURCE_SLICE_FIELDS,
    ),
}
