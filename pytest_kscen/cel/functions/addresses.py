"""Kubernetes' functions for IP addresses and networks."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class Ip:
    cel_type: ClassVar[str] = "net.IP"
    address: Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class Cidr:
    cel_type: ClassVar[str] = "net.CIDR"
    network: Network

    def __str__(self) -> str:
        return str(self.network)


def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        why = f"ParseAddr({quoted(text)}): unable to parse IP"
        raise EvaluationError(f"IP Address {quoted(text)} parse error during conversion from string: {why}") from None
    if address.version == 6 and address.scope_id:  # noqa: PLR2004 - the IP versions
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if address.version == 6 and address.ipv4_mapped:  # noqa: PLR2004
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Ip(address)


def _cidr(text: str) -> Cidr:
    try:
        if "/" not in text or not text.rpartition("/")[2].isdigit():
            raise ValueError(text)  # noqa: TRY301 - worded below
        return Cidr(ipaddress.ip_interface(text))
    except ValueError:
        why = f"netip.ParsePrefix({quoted(text)}): no '/'"
        raise EvaluationError(f"network address parse error during conversion from string: {why}") from None


def _readable(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def is_readable(text: str) -> bool:
        try:
            read(text)
        except EvaluationError:
            return False
        return True

    return is_readable


def _contains_ip(cidr: Cidr, ip: Ip | str) -> bool:
    address = (_ip(ip) if isinstance(ip, str) else ip).address
    return address.version == cidr.network.version and address in cidr.network.network


def _contains_cidr(cidr: Cidr, other: Cidr | str) -> bool:
    inner = (_cidr(other) if isinstance(other, str) else other).network
    outer = cidr.network.network
    return inner.version == outer.version and inner.network.prefixlen >= outer.prefixlen and inner.ip in outer


def _is_global(ip: Ip) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


def _is_local_multicast(ip: Ip) -> bool:
    wide = ipaddress.ip_network("224.0.0.0/24" if ip.address.version == 4 else "ff02::/16")  # noqa: PLR2004
    return ip.address in wide


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip(string) net.IP": _ip,
    "isIP(string) bool": _readable(_ip),
    "ip.isCanonical(string) bool": lambda text: str(_ip(text)) == text,
    "string(net.IP) string": str,
    "cidr(string) net.CIDR": _cidr,
    "isCIDR(string) bool": _readable(_cidr),
    "string(net.CIDR) string": str,
}
METHODS: dict[str, Callable[..., Any]] = {
    "net.IP::family() int": lambda ip: ip.address.version,
    "net.IP::isUnspecified() bool": lambda ip: ip.address.is_unspecified,
    "net.IP::isLoopback() bool": lambda ip: ip.address.is_loopback,
    "net.IP::isLinkLocalMulticast() bool": _is_local_multicast,
    "net.IP::isLinkLocalUnicast() bool": lambda ip: ip.address.is_link_local,
    "net.IP::isGlobalUnicast() bool": _is_global,
    "net.CIDR::containsIP(string) bool": _contains_ip,
    "net.CIDR::containsIP(net.IP) bool": _contains_ip,
    "net.CIDR::containsCIDR(string) bool": _contains_cidr,
    "net.CIDR::containsCIDR(net.CIDR) bool": _contains_cidr,
    "net.CIDR::ip() net.IP": lambda cidr: Ip(cidr.network.ip),
    "net.CIDR::prefixLength() int": lambda cidr: cidr.network.network.prefixlen,
    "net.CIDR::masked() net.CIDR": lambda cidr: Cidr(ipaddress.ip_interface(str(cidr.network.network))),
}
