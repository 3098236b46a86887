"""Dynamic resources: what devices there are, in which classes, and who claims them.

The expressions that choose devices are not compiled here: whoever allocates the devices does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Part, Rules, status_alone
from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.fields import (
    RESOURCE_SLICE_FIELDS,
    fill,
    keep_status,
    without_status,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import node_selector
from pytest_kscen.embedded.apiserver.rules.volume_sources import driver_name
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

GROUP = "resource.k8s.io"
MOST, MOST_ALTERNATIVES, MOST_RESERVED, MOST_DEVICES = 32, 8, 256, 128
MODES = ("All", "ExactCount")
PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_PLACE = f"exactly one of {', '.join(f'`{field}`' for field in PLACES)} is required"


def default_claim(obj: Obj) -> None:
    _default_requests(obj["spec"])


def default_template(obj: Obj) -> None:
    _default_requests(obj["spec"].get("spec") or {})


def _default_requests(spec: Obj) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None:
                fill(one, {"allocationMode": "ExactCount"})
                if one["allocationMode"] == "ExactCount":
                    fill(one, {"count": 1})


def validate_claim(obj: Obj) -> Causes:
    yield from _claim("spec.devices", obj["spec"].get("devices") or {})


def validate_template(obj: Obj) -> Causes:
    metadata = obj["spec"].get("metadata") or {}
    yield from checks.labels("spec.metadata.labels", metadata.get("labels"))
    yield from checks.annotated("spec.metadata.annotations", metadata.get("annotations"))
    yield from _claim("spec.spec.devices", (obj["spec"].get("spec") or {}).get("devices") or {})


def _each(
    path: str, given: Sequence[Any] | None, most: int, judge: Callable[[str, Any], Iterable[Cause]]
) -> Causes:
    if given and len(given) > most:
        yield Cause.too_many(path, len(given), most)
        return
    for place, one in enumerate(given or ()):
        yield from judge(f"{path}[{place}]", one)


def _claim(path: str, claim: Obj) -> Causes:
    known: set[str] = set()  # requests, and what may be had in their stead
    for request in claim.get("requests") or ():
        name = request.get("name", "")
        known |= {
            name,
            *(f"{name}/{other.get('name', '')}" for other in request.get("firstAvailable") or ()),
        }

    def refers(here: str, part: Obj) -> Causes:
        yield from _each(
            f"{here}.requests",
            part.get("requests"),
            MOST,
            lambda where, name: _reference(where, name, known),
        )
        yield from checks.unique(f"{here}.requests", part.get("requests") or ())

    def constraint(here: str, part: Obj) -> Causes:
        yield from refers(here, part)
        if "matchAttribute" not in part and "distinctAttribute" not in part:
            yield Cause.required(f"{here}.matchAttribute")

    def configuration(here: str, part: Obj) -> Causes:
        yield from refers(here, part)
        yield from _opaque(here, part)

    yield from _each(f"{path}.requests", claim.get("requests"), MOST, _request)
    yield from checks.unique(
        f"{path}.requests", [request.get("name", "") for request in claim.get("requests") or ()]
    )
    yield from _each(f"{path}.constraints", claim.get("constraints"), MOST, constraint)
    yield from _each(f"{path}.config", claim.get("config"), MOST, configuration)


def _reference(path: str, name: str, known: set[str]) -> Causes:
    for part in name.split("/"):
        yield from checks.named(path, part, names.dns1123_label)
    if name not in known:
        yield Cause.invalid(path, name, _REFERENCE)


def _request(path: str, request: Obj) -> Causes:
    yield from checks.named(f"{path}.name", request.get("name", ""), names.dns1123_label)
    exact, others = request.get("exactly"), request.get("firstAvailable")
    if exact is None and not others:
        yield Cause.required(path, _ONE_KIND)
    elif exact is not None and others:
        yield Cause.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")
    elif exact is not None:
        yield from _wanted(f"{path}.exactly", exact)
    elif others:
        yield from _each(f"{path}.firstAvailable", others, MOST_ALTERNATIVES, _alternative)
        yield from checks.unique(
            f"{path}.firstAvailable", [other.get("name", "") for other in others]
        )


def _alternative(path: str, given: Obj) -> Causes:
    yield from checks.named(f"{path}.name", given.get("name", ""), names.dns1123_label)
    yield from _wanted(path, given)


def _wanted(path: str, given: Obj) -> Causes:
    yield from checks.required_name(
        f"{path}.deviceClassName", given.get("deviceClassName"), names.dns1123_subdomain
    )
    yield from _each(f"{path}.selectors", given.get("selectors"), MOST, _selector)
    mode, count = given.get("allocationMode", ""), given.get("count", 0)
    if mode == "All" and count:
        yield Cause.invalid(
            f"{path}.count", count, "must not be specified when allocationMode is 'All'"
        )
    elif mode == "ExactCount":
        yield from checks.positive(f"{path}.count", count)
    yield from checks.one_of(f"{path}.allocationMode", mode, MODES)


def _selector(path: str, given: Obj) -> Causes:
    if "cel" not in given:
        yield Cause.required(f"{path}.cel")


def _opaque(path: str, given: Obj) -> Causes:
    opaque = given.get("opaque")
    if opaque is None:
        yield Cause.required(f"{path}.opaque")
        return
    yield from _driver(f"{path}.opaque.driver", opaque.get("driver"))
    if opaque.get("parameters") is None:
        yield Cause.required(f"{path}.opaque.parameters")


def _driver(path: str, name: str | None) -> Causes:
    if name:
        yield from driver_name(path, name)
    else:
        yield Cause.required(path)


def same_spec(new: Obj, old: Obj) -> Causes:
    return checks.immutable("spec", new["spec"], old["spec"])


def claim_status(new: Obj, old: Obj) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    reserved = status.get("reservedFor") or ()
    yield from _each("status.reservedFor", reserved, MOST_RESERVED, _consumer)
    yield from checks.unique("status.reservedFor", [one.get("uid", "") for one in reserved])
    if reserved and "allocation" not in status:
        yield Cause.forbidden(
            "status.reservedFor", "may not be specified when `allocated` is not set"
        )
    if "allocation" in status and "allocation" in before:
        yield from checks.immutable("status.allocation", status["allocation"], before["allocation"])


def _consumer(path: str, given: Obj) -> Causes:
    for field in ("resource", "name", "uid"):
        if not given.get(field):
            yield Cause.required(f"{path}.{field}")


def validate_class(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from _each("spec.selectors", spec.get("selectors"), MOST, _selector)
    yield from _each("spec.config", spec.get("config"), MOST, _opaque)


def validate_slice(obj: Obj) -> Causes:
    spec, pool = obj["spec"], obj["spec"].get("pool") or {}
    yield from _driver("spec.driver", spec.get("driver"))
    if not pool.get("name"):
        yield Cause.required("spec.pool.name")
    for part in pool["name"].split("/") if pool.get("name") else ():
        yield from checks.named("spec.pool.name", part, names.dns1123_subdomain)
    yield from checks.positive("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0))
    if pool.get("generation", 0) < 0:
        yield Cause.invalid(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    # Where the devices of a slice can be reached.
    if spec.get("nodeName"):
        yield from checks.named("spec.nodeName", spec["nodeName"], names.dns1123_subdomain)
    if "nodeSelector" in spec:
        yield from node_selector("spec.nodeSelector", spec["nodeSelector"])
    given = [f"`{field}`" for field in PLACES if spec.get(field) not in (None, False, "")]
    if not given:
        yield Cause.required("spec", _ONE_PLACE)
    elif len(given) > 1:
        yield Cause.invalid(
            "spec", f"{{{', '.join(given)}}}", f"{_ONE_PLACE}, but multiple fields are set"
        )
    yield from _each("spec.devices", spec.get("devices"), MOST_DEVICES, _device)
    yield from checks.unique(
        "spec.devices", [device.get("name", "") for device in spec.get("devices") or ()]
    )


def _device(path: str, device: Obj) -> Causes:
    yield from checks.named(f"{path}.name", device.get("name", ""), names.dns1123_label)


def update_slice(new: Obj, old: Obj) -> Causes:
    yield from validate_slice(new)
    yield from checks.immutable(
        "spec.pool.name", new["spec"]["pool"].get("name"), old["spec"]["pool"].get("name")
    )
    for field in ("driver", "nodeName"):
        yield from checks.immutable(f"spec.{field}", new["spec"].get(field), old["spec"].get(field))


RULES = {
    (GROUP, "resourceclaims"): Rules(
        default=default_claim,
        prepare_create=without_status,
        prepare_update=keep_status,
        validate=validate_claim,
        validate_update=same_spec,
        parts={"status": Part(status_alone, claim_status)},
        qualified_finalizers=True,
        generation=None,
    ),
    (GROUP, "resourceclaimtemplates"): Rules(
        default=default_template,
        validate=validate_template,
        validate_update=same_spec,
        qualified_finalizers=True,
        generation=None,
    ),
    (GROUP, "deviceclasses"): Rules(
        validate=validate_class,
        validate_update=lambda new, _: validate_class(new),
        qualified_finalizers=True,
    ),
    (GROUP, "resourceslices"): Rules(
        validate=validate_slice,
        validate_update=update_slice,
        qualified_finalizers=True,
        fields=RESOURCE_SLICE_FIELDS,
    ),
}
