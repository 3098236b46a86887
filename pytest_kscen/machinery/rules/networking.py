"""NetworkPolicies, and the addresses that services take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Part, Rules, status_alone
from pytest_kscen.machinery.rules import addresses, checks
from pytest_kscen.machinery.rules.filling import fill
from pytest_kscen.machinery.rules.internals import PARENT, RANGES, internal
from pytest_kscen.machinery.rules.preparing import keep_status, without_status
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

GROUP = "networking.k8s.io"
DIRECTIONS = {"ingress": "from", "egress": "to"}
POLICY_TYPES = ("Ingress", "Egress")
POLICY_PROTOCOLS = ("TCP", "UDP", "SCTP")


def default_policy(obj: Obj) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(POLICY_TYPES) if spec.get("egress") else ["Ingress"]
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                fill(port, {"protocol": "TCP"})


def validate_policy(obj: Obj) -> Causes:
    return _policy(obj["spec"], ())


def _policy(spec: Obj, known: Sequence[str]) -> Causes:
    yield from checks.selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in DIRECTIONS.items():
        for place, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{place}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(f"{path}.ports[{number}]", port)
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(f"{path}.{peers}[{number}]", peer, known)
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        yield Cause.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    else:
        for place, kind in enumerate(types):
            yield from checks.one_of(f"spec.policyTypes[{place}]", kind, POLICY_TYPES)


def _policy_port(path: str, given: Obj) -> Causes:
    port, end = given.get("port"), given.get("endPort")
    yield from checks.one_of(f"{path}.protocol", given.get("protocol", "TCP"), POLICY_PROTOCOLS)
    if port is None:
        if end is not None:
            yield Cause.invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(port, str):
        if end is not None:
            yield Cause.invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from checks.named(f"{path}.port", port, names.port_name)
    else:
        yield from checks.port_number(f"{path}.port", port)
        if end is not None:
            if end < port:
                yield Cause.invalid(f"{path}.endPort", port, "must be greater than or equal to `port`")
            yield from checks.port_number(f"{path}.endPort", end)


def _peer(path: str, peer: Obj, known: Sequence[str]) -> Causes:
    for field in ("podSelector", "namespaceSelector"):
        yield from checks.selector(f"{path}.{field}", peer.get(field))
    if "ipBlock" in peer:
        yield from _block(f"{path}.ipBlock", peer["ipBlock"], known)
    if not peer:
        yield Cause.required(path, "must specify a peer")
    elif len(peer) > 1 and "ipBlock" in peer:
        yield Cause.forbidden(path, "may not specify both ipBlock and another peer")


def _block(path: str, given: Obj, known: Sequence[str]) -> Causes:
    text = given.get("cidr", "")
    if not text:
        yield Cause.required(f"{path}.cidr")
        return
    yield from addresses.block(f"{path}.cidr", text, known)
    whole = addresses.parse_block(text)
    if whole is None:
        return
    for place, exception in enumerate(given.get("except") or ()):
        here, part = f"{path}.except[{place}]", addresses.parse_block(exception)
        yield from addresses.block(here, exception, known)
        if part is not None and not (part != whole and part.version == whole.version and part.subnet_of(whole)):  # type: ignore[arg-type]  # same version
            yield Cause.invalid(here, exception, "must be a strict subset of `cidr`")


def update_policy(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        blocks = [
            peer["ipBlock"]
            for direction, peers in DIRECTIONS.items()
            for rule in old["spec"].get(direction) or ()
            for peer in rule.get(peers) or ()
            if "ipBlock" in peer
        ]
        yield from _policy(new["spec"], [text for one in blocks for text in (one.get("cidr", ""), *(one.get("except") or ()))])


def address_name(name: str) -> tuple[str, ...]:
    """An IPAddress is called what it is."""
    return tuple(cause.message.partition(": ")[2].partition(": ")[2] for cause in addresses.canonical_address("", name))


def validate_address(obj: Obj) -> Causes:
    parent = obj["spec"].get("parentRef")
    if parent is None:
        yield Cause.required("spec.parentRef")
        return
    if parent.get("group"):
        yield from checks.named("spec.parentRef.group", parent["group"], names.dns1123_subdomain)
    for field in ("resource", "name"):
        yield from checks.required_name(f"spec.parentRef.{field}", parent.get(field), names.path_segment)
    if parent.get("namespace"):
        yield from checks.named("spec.parentRef.namespace", parent["namespace"], names.path_segment)


def update_address(new: Obj, old: Obj) -> Causes:
    yield from validate_address(new)
    after, before = (obj["spec"].get("parentRef") or {} for obj in (new, old))
    if after != before:
        yield Cause.invalid("spec.parentRef", internal(PARENT, after), checks.IMMUTABLE)


def validate_range(obj: Obj) -> Causes:
    blocks = obj["spec"].get("cidrs") or []
    if not blocks:
        yield Cause.required("spec.cidrs", "at least one CIDR required")
        return
    if len(blocks) > 2:  # noqa: PLR2004
        yield Cause.invalid("spec.cidrs", internal(RANGES, obj["spec"]), "may only hold up to 2 values")
        return
    for place, block in enumerate(blocks):
        yield from addresses.canonical_block(f"spec.cidrs[{place}]", block)
    families = [found.version for found in map(addresses.parse_block, blocks) if found]
    if len(families) == 2 and len(set(families)) == 1:  # noqa: PLR2004
        why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield Cause.invalid("spec.cidrs", blocks, why)


def update_range(new: Obj, old: Obj) -> Causes:
    blocks, before = (obj["spec"].get("cidrs") or [] for obj in (new, old))
    if len(blocks) == len(before) or (len(before) == 1 and len(blocks) == 2):  # noqa: PLR2004
        for place, block in enumerate(before):
            yield from checks.immutable(f"spec.cidrs[{place}]", blocks[place], block)
        if len(blocks) > len(before):
            yield from validate_range(new)
    else:
        yield Cause.invalid("spec.cidrs", blocks, checks.IMMUTABLE)


RULES = {
    (GROUP, "networkpolicies"): Rules(
        default=default_policy,
        validate=validate_policy,
        validate_update=update_policy,
        qualified_finalizers=True,
    ),
    (GROUP, "ipaddresses"): Rules(
        validate=validate_address,
        validate_update=update_address,
        name=address_name,
        qualified_finalizers=True,
        generation=None,
    ),
    (GROUP, "servicecidrs"): Rules(
        prepare_create=without_status,
        prepare_update=keep_status,
        validate=validate_range,
        validate_update=update_range,
        parts={"status": Part(status_alone)},
        qualified_finalizers=True,
        generation=None,
    ),
}
