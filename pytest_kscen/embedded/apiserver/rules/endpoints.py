"""Rules of Endpoints and EndpointSlices.

The objects are written by the endpoint slice controller or by clients; nothing is derived from
services here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules
from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.embedded.apiserver.rules.checks import (
    PROTOCOLS,
    Causes,
    validate_immutable,
    validate_labels,
    validate_name,
    validate_port_number,
    validate_required_enum,
    validate_required_name,
)
from pytest_kscen.embedded.apiserver.rules.fields import set_defaults
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
LIMITS = {"endpoints": 1000, "ports": 20000, "addresses": 100, "topology": 16, "hints": 8}


def default_endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            set_defaults(port, {"protocol": "TCP"})


def validate_endpoints(obj: Obj) -> Causes:
    for index, subset in enumerate(obj.get("subsets") or ()):
        path, ports = f"subsets[{index}]", subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield Cause.required(path, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for number, one in enumerate(subset.get(kind) or ()):
                here = f"{path}.{kind}[{number}]"
                ip = one.get("ip", "")
                yield from addresses.validate_address(f"{here}.ip", ip)
                if one.get("hostname"):
                    yield from validate_name(
                        f"{here}.hostname", one["hostname"], names.dns1123_label
                    )
                if "nodeName" in one:
                    yield from validate_name(
                        f"{here}.nodeName", one["nodeName"], names.dns1123_subdomain
                    )
                yield from addresses.validate_endpoint_address(f"{here}.ip", ip)
        for number, port in enumerate(ports):
            inner_path = f"{path}.ports[{number}]"
            needs_name = len(ports) > 1
            if needs_name or port.get("name"):
                yield from validate_required_name(
                    f"{inner_path}.name", port.get("name"), names.dns1123_label
                )
            yield from validate_port_number(f"{inner_path}.port", port.get("port", 0))
            yield from validate_required_enum(
                f"{inner_path}.protocol", port.get("protocol"), PROTOCOLS
            )
            if "appProtocol" in port:
                yield from validate_name(
                    f"{inner_path}.appProtocol", port["appProtocol"], names.label_key
                )


def validate_endpoints_update(new: Obj, old: Obj) -> Causes:
    if new.get("subsets") != old.get("subsets"):
        yield from validate_endpoints(new)


def default_endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        set_defaults(port, {"name": "", "protocol": "TCP"})


def prepare_slice_create(obj: Obj, _core: Core) -> None:
    if any("deprecatedTopology" in one for one in obj.get("endpoints") or ()):
        obj["endpoints"] = [
            {name: value for name, value in one.items() if name != "deprecatedTopology"}
            for one in obj["endpoints"]
        ]


def prepare_slice_update(new: Obj, old: Obj, core: Core) -> None:
    if new.get("endpoints") is not old.get("endpoints"):
        prepare_slice_create(new, core)


def validate_endpoint_slice(obj: Obj) -> Causes:
    kind = obj.get("addressType", "")
    yield from validate_required_enum("addressType", kind, ADDRESS_TYPES)
    given = obj.get("ports") or ()
    if len(given) > LIMITS["ports"]:
        yield Cause.too_many("ports", len(given), LIMITS["ports"])
    seen: set[str] = set()
    for index, port in enumerate(given):
        path, name = f"ports[{index}]", port.get("name", "")
        if name:
            yield from validate_name(f"{path}.name", name, names.dns1123_label)
        if name in seen:
            yield Cause.duplicate(f"{path}.name", name)
        seen.add(name)
        yield from validate_required_enum(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
        if "appProtocol" in port:
            yield from validate_name(f"{path}.appProtocol", port["appProtocol"], names.label_key)
    yield from _validate_slice_endpoints(obj.get("endpoints") or (), kind)


def _validate_slice_endpoints(given: Sequence[Obj], kind: str) -> Causes:
    if len(given) > LIMITS["endpoints"]:
        yield Cause.too_many("endpoints", len(given), LIMITS["endpoints"])
        return
    for index, endpoint in enumerate(given):
        path, listed = f"endpoints[{index}]", endpoint.get("addresses") or ()
        if not listed:
            yield Cause.required(f"{path}.addresses", "must contain at least 1 address")
        elif len(listed) > LIMITS["addresses"]:
            yield Cause.too_many(f"{path}.addresses", len(listed), LIMITS["addresses"])
        for number, address in enumerate(listed):
            yield from _validate_slice_address(f"{path}.addresses", number, address, kind)
        if "nodeName" in endpoint:
            yield from validate_name(
                f"{path}.nodeName", endpoint["nodeName"], names.dns1123_subdomain
            )
        here = f"{path}.deprecatedTopology"
        deprecated_topology = endpoint.get("deprecatedTopology") or {}
        if len(deprecated_topology) > LIMITS["topology"]:
            yield Cause.too_many(here, len(deprecated_topology), LIMITS["topology"])
        yield from validate_labels(here, deprecated_topology)
        if "hostname" in endpoint:
            yield from validate_name(f"{path}.hostname", endpoint["hostname"], names.dns1123_label)
        if "hints" in endpoint:
            yield from _validate_hints(f"{path}.hints", endpoint["hints"])


def _validate_slice_address(path: str, number: int, address: str, kind: str) -> Causes:
    here = f"{path}[{number}]"
    if kind == "FQDN":
        # The trailing dot is optional, and at least two labels are required.
        plain = address.removesuffix(".")
        if not address:
            yield Cause.required(here)
        elif faults := names.dns1123_subdomain(plain):
            yield Cause.invalid(here, plain, ",".join(faults))
        elif "." not in plain:
            yield Cause.invalid(
                here, plain, "should be a domain with at least two segments separated by dots"
            )
        else:
            for label in plain.split("."):
                if faults := names.dns1123_label(label):
                    yield Cause.invalid(here, label, ",".join(faults))
    elif kind in {"IPv4", "IPv6"}:
        strict = (
            addresses.validate_canonical_address if kind == "IPv6" else addresses.validate_address
        )
        wrong = list(strict(here, address))
        yield from wrong
        if not wrong:
            if addresses.ip_family(address) != kind:
                yield Cause.invalid(path, address, f"must be an {kind} address")
            yield from addresses.validate_endpoint_address(here, address)


def _validate_hints(path: str, given: Obj) -> Causes:
    for kind, check in (("forZones", names.label_value), ("forNodes", names.dns1123_subdomain)):
        listed = [one.get("name", "") for one in given.get(kind) or ()]
        if len(listed) > LIMITS["hints"]:
            yield Cause.too_many(f"{path}.{kind}", len(listed), LIMITS["hints"])
            continue
        for index, name in enumerate(listed):
            if name in listed[:index]:
                yield Cause.duplicate(f"{path}.{kind}[{index}].name", name)
            yield from validate_name(f"{path}.{kind}[{index}].name", name, check)


def validate_endpoint_slice_update(new: Obj, old: Obj) -> Causes:
    if any(new.get(field) is not old.get(field) for field in ("addressType", "endpoints", "ports")):
        yield from validate_endpoint_slice(new)
    yield from validate_immutable("addressType", new.get("addressType"), old.get("addressType"))


def has_slice_changed(new: Obj, old: Obj) -> bool:
    """Report whether an update raises the generation: endpoints, ports, address type or labels
    differ.
    """
    content = any(
        (new.get(field) or None) != (old.get(field) or None)
        for field in ("addressType", "endpoints", "ports")
    )
    return content or new["metadata"].get("labels") != old["metadata"].get("labels")


RULES = {
    ("", "endpoints"): Rules(
        default=default_endpoints,
        validate=validate_endpoints,
        validate_update=validate_endpoints_update,
        qualified_finalizers=True,
        generation=None,
        create_on_update=True,
    ),
    ("discovery.k8s.io", "endpointslices"): Rules(
        owned_empty_lists=("endpoints", "ports"),
        default=default_endpoint_slice,
        prepare_create=prepare_slice_create,
        prepare_update=prepare_slice_update,
        validate=validate_endpoint_slice,
        validate_update=validate_endpoint_slice_update,
        qualified_finalizers=True,
        generation=has_slice_changed,
    ),
}
