"""Cluster IPs and node ports: given out by chance among those that no service has, and kept over
updates.

The cluster has one family of addresses. What is taken is read from the services that there are, so
a refused or a dry run takes nothing."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.objects.errors import Cause, internal, invalid
from pytest_kscen.objects.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

CLUSTER_RANGE = ipaddress.IPv4Network("10.0.0.0/24")
FIRST_PORT, LAST_PORT = 30000, 32767
STATIC_ADDRESSES, STATIC_PORTS = 16, 86  # at the low end, left to those who ask for one by number
FAMILIES = ("IPv4", "IPv6")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_OUT_OF_PORTS = (
    f"provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
)


def is_headless(spec: Obj) -> bool:
    return spec.get("clusterIPs") == ["None"]


def is_external(spec: Obj) -> bool:
    """Whether traffic can come from outside of the cluster."""
    published = spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    return spec.get("type") in {"LoadBalancer", "NodePort"} or published


def needs_health_check(spec: Obj) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _needs_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def allocate(obj: Obj, core: Core) -> None:
    """What a new service did not ask for by number."""
    spec = obj["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _settle_families(obj, {})
    _cluster_ip(obj, core)
    _node_ports(obj, {}, core)


def reallocate(new: Obj, old: Obj, core: Core) -> None:
    """An update keeps what it does not mention, gives back what its type has no use for, and
    gets what it needs.
    """
    spec, before = new["spec"], old["spec"]
    # Who writes only one of the two fields means both.
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
    _keep_ports(spec, before)
    _settle_families(new, before)
    if before.get("type") == "ExternalName" and spec.get("type") != "ExternalName":
        _cluster_ip(new, core)
    _node_ports(new, before, core)
    _give_back(spec, before)


def _keep_ports(spec: Obj, before: Obj) -> None:
    if _needs_node_ports(spec) and _needs_node_ports(before):
        named = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
        kept = {port.get("nodePort") for port in spec.get("ports") or ()} & set(named.values())
        for port in spec.get("ports") or ():
            number = named.get(port.get("name", ""))
            if "nodePort" not in port and number and number not in kept:
                port["nodePort"] = number
    if needs_health_check(spec) and needs_health_check(before) and "healthCheckNodePort" in before:
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _settle_families(obj: Obj, before: Obj) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    default = before.get("ipFamilyPolicy") or (
        "RequireDualStack" if selectorless else "SingleStack"
    )
    policy = spec.setdefault("ipFamilyPolicy", default)
    _refuse(obj, address_fields(spec, before))
    if policy == "SingleStack":
        # Going back to one family is enough said: the second address goes, unless it was
        # changed at the same time.
        for field in ("clusterIPs", "ipFamilies"):
            if len(spec.get(field) or ()) > 1 and spec[field] == before.get(field):
                spec[field] = spec[field][:1]
    _refuse(obj, _policy_fits(spec, before, policy))
    if not is_headless(spec) and spec.get("clusterIPs") and not spec.get("ipFamilies"):
        spec["ipFamilies"] = [addresses.family(ip) for ip in spec["clusterIPs"]]
    if selectorless:
        families = spec.get("ipFamilies") or ["IPv4"]
        both = len(families) == 1 and policy != "SingleStack"
        spec["ipFamilies"] = [
            *families,
            *(other for other in FAMILIES if both and other not in families),
        ]
        return
    _refuse(obj, _served(spec, policy))
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4"]


def _refuse(obj: Obj, causes: Causes) -> None:
    listed = list(causes)
    if listed:
        raise invalid(SERVICES, obj["metadata"]["name"], listed)


def _policy_fits(spec: Obj, before: Obj, policy: str) -> Causes:
    many = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    for field, one, all_ in (
        ("clusterIPs", "cluster IP", "cluster IPs"),
        ("ipFamilies", "IP family", "IP families"),
    ):
        count = len(spec.get(field) or ())
        if policy == "SingleStack" and count == len(FAMILIES):
            yield Cause.invalid("spec.ipFamilyPolicy", policy, f"{many} {all_} are specified")
        elif policy != "SingleStack" and 0 < count < len(before.get(field) or ()):
            yield Cause.invalid(
                "spec.ipFamilyPolicy",
                policy,
                f"must be 'SingleStack' to release the secondary {one}",
            )
    families = spec.get("ipFamilies") or ()
    for place, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip != "None" and place >= len(families) and addresses.is_ipv6(ip):
            yield Cause.invalid(
                f"spec.clusterIPs[{place}]",
                spec["clusterIPs"],
                "IPv6 is not configured on this cluster",
            )


def _served(spec: Obj, policy: str) -> Causes:
    if policy == "RequireDualStack":
        yield Cause.invalid(
            "spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services"
        )
    for place, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            yield Cause.invalid(
                f"spec.ipFamilies[{place}]", family, "not configured on this cluster"
            )


def address_fields(spec: Obj, before: Obj) -> Causes:
    """The fields that say the same in several ways say the same."""
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
    for place, family in enumerate(families):
        if family not in FAMILIES:
            yield Cause.unsupported(f"spec.ipFamilies[{place}]", family, FAMILIES)
        if family in families[:place]:
            yield Cause.duplicate(f"spec.ipFamilies[{place}]", family)
    if spec.get("ipFamilyPolicy") is not None and spec["ipFamilyPolicy"] not in FAMILY_POLICIES:
        yield Cause.unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], FAMILY_POLICIES)
    yield from _cluster_ips(several, families, before.get("clusterIPs") or [])


def _cluster_ips(several: list[str], families: list[str], known: list[str]) -> Causes:
    wrong = []
    if several[:1] == ["None"]:
        if len(several) > 1:
            wrong.append(
                Cause.invalid("spec.clusterIPs", several, "'None' must be the first and only value")
            )
        several = several[1:]
    wrong += [
        cause
        for place, ip in enumerate(several)
        for cause in addresses.address(f"spec.clusterIPs[{place}]", ip, known)
    ]
    yield from wrong
    if len(several) > len(FAMILIES):
        yield Cause.invalid("spec.clusterIPs", several, "may only hold up to 2 values")
    if wrong:
        return
    if len(several) > 1 and len({addresses.family(ip) for ip in several}) != len(FAMILIES):
        yield Cause.invalid(
            "spec.clusterIPs", several, "may specify no more than one IP for each IP family"
        )
    for place, (ip, family) in enumerate(zip(several, families, strict=False)):
        if addresses.family(ip) != family:
            why = f"expected an {family} value as indicated by `ipFamilies[{place}]`"
            yield Cause.invalid(f"spec.clusterIPs[{place}]", ip, why)


def _services(core: Core, but: Obj) -> Iterator[Obj]:
    own = but["metadata"].get("uid")
    for other in core.store.all("", "services"):
        if other["metadata"].get("uid") != own:
            yield other["spec"]


def _cluster_ip(obj: Obj, core: Core) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName" or is_headless(spec):
        return
    taken = {ip for other in _services(core, obj) for ip in other.get("clusterIPs") or ()}
    if spec.get("clusterIPs"):
        ip = spec["clusterIPs"][0]
        found = addresses.parse(ip)
        edges = {CLUSTER_RANGE.network_address, CLUSTER_RANGE.broadcast_address}
        if found not in CLUSTER_RANGE or found in edges:
            fault: str = (
                f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is "
                f"{CLUSTER_RANGE}"
            )
        else:
            fault = "provided IP is already allocated" if ip in taken else ""
        if fault:
            why = f"failed to allocate IP {ip}: {fault}"
            _refuse(obj, iter([Cause.invalid("spec.clusterIPs", spec["clusterIPs"], why)]))
        return
    hosts = [str(host) for host in CLUSTER_RANGE.hosts()]
    free = [ip for ip in hosts[STATIC_ADDRESSES:] if ip not in taken] or [
        ip for ip in hosts if ip not in taken
    ]
    if not free:
        name = obj["metadata"]["name"]
        raise internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
    spec["clusterIP"] = core.chance.stream("services/addresses").choice(free)
    spec["clusterIPs"] = [spec["clusterIP"]]


def _node_ports(obj: Obj, before: Obj, core: Core) -> None:
    spec = obj["spec"]
    if spec.get("type") not in {"NodePort", "LoadBalancer"}:
        return
    own = {port.get("nodePort") for port in before.get("ports") or ()} - {None}
    taken = {number for other in _services(core, obj) for number in _numbers(other)} | own
    given = {
        port["port"]: port["nodePort"]
        for port in reversed(spec.get("ports") or ())
        if port.get("nodePort")
    }
    mine: dict[int, int] = {}
    for place, port in enumerate(spec.get("ports") or ()):
        wanted = (
            port.get("nodePort")
            or mine.get(port["port"])
            or (given.get(port["port"]) if not before else None)
        )
        if wanted is None and not _needs_node_ports(spec):
            continue
        if wanted is None:
            wanted = _free_port(core, taken)
        elif (
            wanted not in own
            and mine.get(port["port"]) != wanted
            and (fault := _port_fault(wanted, taken))
        ):
            _refuse(obj, iter([Cause.invalid(f"spec.ports[{place}].nodePort", wanted, fault)]))
        port["nodePort"] = wanted
        mine.setdefault(port["port"], wanted)
        taken.add(wanted)
    _health_check(obj, before, core, taken)


def _health_check(obj: Obj, before: Obj, core: Core, taken: set[int]) -> None:
    spec = obj["spec"]
    if not needs_health_check(spec) or needs_health_check(before):
        return
    wanted = spec.get("healthCheckNodePort")
    if not wanted:
        spec["healthCheckNodePort"] = _free_port(core, taken)
    elif fault := _port_fault(wanted, taken):
        raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {fault}")


def _numbers(spec: Obj) -> Iterator[int]:
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def _port_fault(number: int, taken: set[int]) -> str:
    if not FIRST_PORT <= number <= LAST_PORT:
        return _OUT_OF_PORTS
    return "provided port is already allocated" if number in taken else ""


def _free_port(core: Core, taken: set[int]) -> int:
    """By chance: above the static ones first."""
    draw = core.chance.stream("services/ports").below
    count = LAST_PORT - FIRST_PORT + 1 - STATIC_PORTS
    first = draw(count)
    upper = (FIRST_PORT + STATIC_PORTS + (first + step) % count for step in range(count))
    found = next((number for number in upper if number not in taken), None)
    if found is None:
        found = next(
            (
                number
                for number in range(FIRST_PORT, FIRST_PORT + STATIC_PORTS)
                if number not in taken
            ),
            None,
        )
    if found is None:
        raise internal("failed to allocate a nodePort: range is full")
    return found


def _give_back(spec: Obj, before: Obj) -> None:
    """What the old type had and the new one has no use for, unless the writer changed it on
    purpose.
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
    gone = [("healthCheckNodePort", needs_health_check), ("externalTrafficPolicy", is_external)]
    gone += [
        (field, _is_balanced) for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    ]
    for field, needs in gone:
        if needs(before) and not needs(spec) and spec.get(field) == before.get(field):
            spec.pop(field, None)
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _is_balanced(spec: Obj) -> bool:
    return bool(spec.get("type") == "LoadBalancer")
