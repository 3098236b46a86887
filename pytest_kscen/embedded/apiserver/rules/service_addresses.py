"""Allocation of cluster IPs and node ports for Services.

Free addresses and ports are drawn at random from the named streams `services/addresses` and
`services/ports`. Allocations are read from the stored services, so a refused request or a dry run
takes nothing. The cluster is IPv4 only.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.objects.errors import Cause, internal, invalid
from pytest_kscen.objects.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

SERVICE_CIDR = ipaddress.IPv4Network("10.0.0.0/24")
FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767
STATIC_ADDRESSES, STATIC_PORTS = (
    16,
    86,
)  # the low end is reserved for requests of a given address or port
IP_FAMILIES = ("IPv4", "IPv6")
IP_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_PORT_OUT_OF_RANGE = (
    "provided port is not in the valid range. The range of valid ports is "
    f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
)


def is_headless(spec: Obj) -> bool:
    return spec.get("clusterIPs") == ["None"]


def is_externally_accessible(spec: Obj) -> bool:
    """Report whether traffic can enter from outside the cluster: by node port, load balancer or
    external IP.
    """
    published = spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    return spec.get("type") in {"LoadBalancer", "NodePort"} or published


def needs_health_check(spec: Obj) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _needs_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def allocate_addresses(obj: Obj, core: Core) -> None:
    """Allocate what a new service needs and does not request: IP families, cluster IP, node ports.

    Raises Invalid when a requested address or port is taken or out of range.
    """
    spec = obj["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _set_ip_families(obj, {})
    _allocate_cluster_ip(obj, core)
    _allocate_node_ports(obj, {}, core)


def update_addresses(new: Obj, old: Obj, core: Core) -> None:
    """Allocate and release addresses for an update.

    Fields that the update omits keep their stored values. Fields that the new type does not use are
    released, unless the client changed them.
    """
    spec, before = new["spec"], old["spec"]
    # A client that writes only one of the two fields sets both.
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    single, several = (spec.get(field) or None for field in ("clusterIP", "clusterIPs"))
    if single == before.get("clusterIP"):
        if before.get("clusterIPs") and not several:
            spec["clusterIPs"] = before["clusterIPs"]
    elif several == before.get("clusterIPs"):
        if single:
            spec["clusterIPs"] = [single]
        else:
            spec.pop("clusterIPs", None)
    _keep_node_ports(spec, before)
    _set_ip_families(new, before)
    if before.get("type") == "ExternalName" and spec.get("type") != "ExternalName":
        _allocate_cluster_ip(new, core)
    _allocate_node_ports(new, before, core)
    _release_unused_fields(spec, before)


def _keep_node_ports(spec: Obj, before: Obj) -> None:
    if _needs_node_ports(spec) and _needs_node_ports(before):
        named = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
        kept = {port.get("nodePort") for port in spec.get("ports") or ()} & set(named.values())
        for port in spec.get("ports") or ():
            number = named.get(port.get("name", ""))
            if "nodePort" not in port and number and number not in kept:
                port["nodePort"] = number
    if needs_health_check(spec) and needs_health_check(before) and "healthCheckNodePort" in before:
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _set_ip_families(obj: Obj, before: Obj) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    default = before.get("ipFamilyPolicy") or (
        "RequireDualStack" if selectorless else "SingleStack"
    )
    policy = spec.setdefault("ipFamilyPolicy", default)
    _raise_if_invalid(obj, validate_address_fields(spec, before))
    if policy == "SingleStack":
        # A change to SingleStack releases the second address, unless it was changed in the same
        # write.
        for field in ("clusterIPs", "ipFamilies"):
            if len(spec.get(field) or ()) > 1 and spec[field] == before.get(field):
                spec[field] = spec[field][:1]
    _raise_if_invalid(obj, _validate_family_policy(spec, before, policy))
    if not is_headless(spec) and spec.get("clusterIPs") and not spec.get("ipFamilies"):
        spec["ipFamilies"] = [addresses.ip_family(ip) for ip in spec["clusterIPs"]]
    if selectorless:
        families = spec.get("ipFamilies") or ["IPv4"]
        both = len(families) == 1 and policy != "SingleStack"
        spec["ipFamilies"] = [
            *families,
            *(other for other in IP_FAMILIES if both and other not in families),
        ]
        return
    unserved = [
        Cause.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or ())
        if family != "IPv4"
    ]
    if policy == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        unserved = [Cause.invalid("spec.ipFamilyPolicy", policy, detail), *unserved]
    _raise_if_invalid(obj, unserved)
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4"]


def _raise_if_invalid(obj: Obj, causes: Iterable[Cause]) -> None:
    listed = list(causes)
    if listed:
        raise invalid(SERVICES, obj["metadata"]["name"], listed)


def _validate_family_policy(spec: Obj, before: Obj, policy: str) -> Causes:
    many = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    for field, one, all_ in (
        ("clusterIPs", "cluster IP", "cluster IPs"),
        ("ipFamilies", "IP family", "IP families"),
    ):
        count = len(spec.get(field) or ())
        if policy == "SingleStack" and count == len(IP_FAMILIES):
            yield Cause.invalid("spec.ipFamilyPolicy", policy, f"{many} {all_} are specified")
        elif policy != "SingleStack" and 0 < count < len(before.get(field) or ()):
            yield Cause.invalid(
                "spec.ipFamilyPolicy",
                policy,
                f"must be 'SingleStack' to release the secondary {one}",
            )
    families = spec.get("ipFamilies") or ()
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip != "None" and index >= len(families) and addresses.is_ipv6(ip):
            yield Cause.invalid(
                f"spec.clusterIPs[{index}]",
                spec["clusterIPs"],
                "IPv6 is not configured on this cluster",
            )


def validate_address_fields(spec: Obj, before: Obj) -> Causes:
    """Yield the causes for `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` that
    contradict each other.
    """
    if spec.get("type") == "ExternalName":
        return
    single, several = spec.get("clusterIP"), spec.get("clusterIPs") or []
    if single and not several:
        yield Cause.required("spec.clusterIPs")
    elif single and several[0] != single:
        yield Cause.invalid("spec.clusterIPs", several, "first value must match `clusterIP`")
    elif several and not single:
        yield Cause.invalid(
            "spec.clusterIPs", several, "must be empty when `clusterIP` is not specified"
        )
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in IP_FAMILIES:
            yield Cause.unsupported(f"spec.ipFamilies[{index}]", family, IP_FAMILIES)
        if family in families[:index]:
            yield Cause.duplicate(f"spec.ipFamilies[{index}]", family)
    if spec.get("ipFamilyPolicy") is not None and spec["ipFamilyPolicy"] not in IP_FAMILY_POLICIES:
        yield Cause.unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], IP_FAMILY_POLICIES)
    yield from _validate_cluster_ips(several, families, before.get("clusterIPs") or [])


def _validate_cluster_ips(several: list[str], families: list[str], known: list[str]) -> Causes:
    wrong = []
    if several[:1] == ["None"]:
        if len(several) > 1:
            wrong.append(
                Cause.invalid("spec.clusterIPs", several, "'None' must be the first and only value")
            )
        several = several[1:]
    wrong += [
        cause
        for index, ip in enumerate(several)
        for cause in addresses.validate_address(f"spec.clusterIPs[{index}]", ip, known)
    ]
    yield from wrong
    if len(several) > len(IP_FAMILIES):
        yield Cause.invalid("spec.clusterIPs", several, "may only hold up to 2 values")
    if wrong:
        return
    if len(several) > 1 and len({addresses.ip_family(ip) for ip in several}) != len(IP_FAMILIES):
        yield Cause.invalid(
            "spec.clusterIPs", several, "may specify no more than one IP for each IP family"
        )
    for index, (ip, family) in enumerate(zip(several, families, strict=False)):
        if addresses.ip_family(ip) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield Cause.invalid(f"spec.clusterIPs[{index}]", ip, detail)


def _other_services(core: Core, excluded: Obj) -> Iterator[Obj]:
    own = excluded["metadata"].get("uid")
    for other in core.store.all("", "services"):
        if other["metadata"].get("uid") != own:
            yield other["spec"]


def _allocate_cluster_ip(obj: Obj, core: Core) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName" or is_headless(spec):
        return
    taken = {ip for other in _other_services(core, obj) for ip in other.get("clusterIPs") or ()}
    if spec.get("clusterIPs"):
        ip = spec["clusterIPs"][0]
        found = addresses.parse_address(ip)
        edges = {SERVICE_CIDR.network_address, SERVICE_CIDR.broadcast_address}
        if found not in SERVICE_CIDR or found in edges:
            fault: str = (
                f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is "
                f"{SERVICE_CIDR}"
            )
        else:
            fault = "provided IP is already allocated" if ip in taken else ""
        if fault:
            detail = f"failed to allocate IP {ip}: {fault}"
            _raise_if_invalid(obj, [Cause.invalid("spec.clusterIPs", spec["clusterIPs"], detail)])
        return
    hosts = [str(host) for host in SERVICE_CIDR.hosts()]
    free = [ip for ip in hosts[STATIC_ADDRESSES:] if ip not in taken] or [
        ip for ip in hosts if ip not in taken
    ]
    if not free:
        name = obj["metadata"]["name"]
        raise internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
    spec["clusterIP"] = core.chance.stream("services/addresses").choice(free)
    spec["clusterIPs"] = [spec["clusterIP"]]


def _allocate_node_ports(obj: Obj, before: Obj, core: Core) -> None:
    spec = obj["spec"]
    if spec.get("type") not in {"NodePort", "LoadBalancer"}:
        return
    own = {port.get("nodePort") for port in before.get("ports") or ()} - {None}
    taken = {
        number
        for other in _other_services(core, obj)
        for number in (
            *(port.get("nodePort") for port in other.get("ports") or ()),
            other.get("healthCheckNodePort"),
        )
        if number
    } | own
    given = {
        port["port"]: port["nodePort"]
        for port in reversed(spec.get("ports") or ())
        if port.get("nodePort")
    }
    assigned: dict[int, int] = {}
    for index, port in enumerate(spec.get("ports") or ()):
        wanted = (
            port.get("nodePort")
            or assigned.get(port["port"])
            or (given.get(port["port"]) if not before else None)
        )
        if wanted is None and not _needs_node_ports(spec):
            continue
        if wanted is None:
            wanted = _free_port(core, taken)
        elif (
            wanted not in own
            and assigned.get(port["port"]) != wanted
            and (fault := _port_error(wanted, taken))
        ):
            _raise_if_invalid(obj, [Cause.invalid(f"spec.ports[{index}].nodePort", wanted, fault)])
        port["nodePort"] = wanted
        assigned.setdefault(port["port"], wanted)
        taken.add(wanted)
    spec = obj["spec"]
    if not needs_health_check(spec) or needs_health_check(before):
        return
    wanted = spec.get("healthCheckNodePort")
    if not wanted:
        spec["healthCheckNodePort"] = _free_port(core, taken)
    elif fault := _port_error(wanted, taken):
        raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {fault}")


def _port_error(number: int, taken: set[int]) -> str:
    if not FIRST_NODE_PORT <= number <= LAST_NODE_PORT:
        return _PORT_OUT_OF_RANGE
    return "provided port is already allocated" if number in taken else ""


def _free_port(core: Core, taken: set[int]) -> int:
    """Return a random free node port, first above the static range, then within it. Raises an
    internal error if none is left.
    """
    draw = core.chance.stream("services/ports").below
    count = LAST_NODE_PORT - FIRST_NODE_PORT + 1 - STATIC_PORTS
    first = draw(count)
    upper = (FIRST_NODE_PORT + STATIC_PORTS + (first + step) % count for step in range(count))
    found = next((number for number in upper if number not in taken), None)
    if found is None:
        found = next(
            (
                number
                for number in range(FIRST_NODE_PORT, FIRST_NODE_PORT + STATIC_PORTS)
                if number not in taken
            ),
            None,
        )
    if found is None:
        raise internal("failed to allocate a nodePort: range is full")
    return found


def _release_unused_fields(spec: Obj, before: Obj) -> None:
    """Remove the fields that the old type used and the new type does not.

    A field that the client changed in the same write stays.
    """
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if before.get("type") in {"NodePort", "LoadBalancer"} and spec.get("type") not in {
        "NodePort",
        "LoadBalancer",
    }:
        numbers = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(port.get("nodePort") in {*numbers, None} for port in spec.get("ports") or ()):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    removed = [
        ("healthCheckNodePort", needs_health_check),
        ("externalTrafficPolicy", is_externally_accessible),
    ]
    removed += [
        (field, lambda spec: bool(spec.get("type") == "LoadBalancer"))
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    ]
    for field, needs in removed:
        if needs(before) and not needs(spec) and spec.get(field) == before.get(field):
            spec.pop(field, None)
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
