"""Kubernetes' libraries: quantities, URLs, named formats, semantic versions, IP
addresses, CIDRs.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from pytest_kscen.cel.errors import EvaluationError
from pytest_kscen.cel.values import INT_MAX, INT_MIN, NONE, Optional
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@dataclass(frozen=True, slots=True)
class CelQuantity:
    cel_type: ClassVar[str] = "kubernetes.Quantity"
    nanos: int


@dataclass(frozen=True, slots=True)
class Url:
    cel_type: ClassVar[str] = "kubernetes.URL"
    parts: SplitResult


@dataclass(frozen=True, slots=True)
class NamedFormat:
    cel_type: ClassVar[str] = "kubernetes.NamedFormat"
    check: Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Semver:
    cel_type: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    before: str = ""

    def order(self) -> tuple[Any, ...]:
        """Return the sort key: a release follows its prereleases, numbers precede words."""
        steps = tuple(
            (0, int(step), "") if step.isdigit() else (1, 0, step)
            for step in self.before.split(".")
            if step
        )
        return (*self.numbers, not self.before, steps)


def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity(quantities.parse(text).nanos)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_parsable(parse: Callable[..., Any]) -> Callable[..., bool]:
    def is_parsable(*args: Any) -> bool:
        try:
            parse(*args)
        except EvaluationError:
            return False
        return True

    return is_parsable


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _as_integer(quantity: CelQuantity) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return quantity.nanos // quantities.NANO


def _is_integer(quantity: CelQuantity) -> bool:
    return (
        quantity.nanos % quantities.NANO == 0
        and INT_MIN <= quantity.nanos // quantities.NANO <= INT_MAX
    )


def _adder(sign: int) -> Callable[[CelQuantity, CelQuantity | int], CelQuantity]:
    def add(one: CelQuantity, other: CelQuantity | int) -> CelQuantity:
        more = other.nanos if isinstance(other, CelQuantity) else other * quantities.NANO
        return CelQuantity(one.nanos + sign * more)

    return add


def _url(text: str) -> Url:
    failed = "URL parse error during conversion from string: "
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises ValueError for an invalid port
    except ValueError as error:
        raise EvaluationError(f"{failed}parse {quoted(text)}: {error}") from None
    if not text.startswith("/") and not parts.scheme:
        raise EvaluationError(f"{failed}parse {quoted(text)}: invalid URI for request")
    return Url(parts)


def _is_url(text: str) -> bool:
    try:
        _url(text)
    except EvaluationError:
        return False
    return " " not in text


def _hostname(url: Url) -> str:
    host = url.parts.netloc.rpartition("@")[2]
    return host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]


def _matching(pattern: str, message: str) -> Callable[[str], tuple[str, ...]]:
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda text: () if expression.fullmatch(text) else (message,)


UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
FORMATS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "dns1123Label": names.dns1123_label,
    "dns1123Subdomain": names.dns1123_subdomain,
    "dns1035Label": names.dns1035_label,
    "dns1123LabelPrefix": lambda text: names.dns1123_label(names.as_prefix(text)),
    "dns1123SubdomainPrefix": lambda text: names.dns1123_subdomain(names.as_prefix(text)),
    "dns1035LabelPrefix": lambda text: names.dns1035_label(names.as_prefix(text)),
    "qualifiedName": names.label_key,
    "labelValue": names.label_value,
    "uri": lambda text: () if _is_url(text) else ("invalid URI",),
    "uuid": _matching(UUID, "does not match the UUID format"),
    "byte": _matching(
        "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", "invalid base64"
    ),
    "date": _matching(r"\d{4}-\d{2}-\d{2}", "invalid date"),
    "datetime": _matching(
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", "invalid datetime"
    ),
}


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - as in CEL
    if normalize:
        numbers, dash, rest = text.removeprefix("v").partition("-")
        padded = ".".join((*(part.lstrip("0") or "0" for part in numbers.split(".")), "0", "0")[:3])
        text = padded + dash + rest
    found = SEMVER.fullmatch(text)
    if not text:
        raise EvaluationError("Version string empty")
    if text.count(".") < 2:  # noqa: PLR2004 - the dots of a version
        raise EvaluationError("No Major.Minor.Patch elements found")
    if found is None:
        raise EvaluationError(f"Invalid character(s) found in version {quoted(text)}")
    return Semver((int(found[1]), int(found[2]), int(found[3])), found[4] or "")


_is_semver = _is_parsable(_semver)

KUBERNETES_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity(string) kubernetes.Quantity": _quantity,
    "isQuantity(string) bool": _is_parsable(_quantity),
    "sign(kubernetes.Quantity) int": lambda quantity: _compare(quantity.nanos, 0),
    "url(string) kubernetes.URL": _url,
    "isURL(string) bool": _is_url,
    "format.named(string) optional(kubernetes.NamedFormat)": lambda name: (
        Optional(NamedFormat(FORMATS[name]), present=True) if name in FORMATS else NONE
    ),
    **{
        f"format.{name}() kubernetes.NamedFormat": functools.partial(NamedFormat, check)
        for name, check in FORMATS.items()
    },
    "semver(string) kubernetes.Semver": _semver,
    "semver(string, bool) kubernetes.Semver": _semver,
    "isSemver(string) bool": _is_semver,
    "isSemver(string, bool) bool": _is_semver,
}
KUBERNETES_METHODS: dict[str, Callable[..., Any]] = {
    "kubernetes.Quantity::sign() int": lambda quantity: _compare(quantity.nanos, 0),
    "kubernetes.Quantity::isGreaterThan(kubernetes.Quantity) bool": lambda one, other: (
        one.nanos > other.nanos
    ),
    "kubernetes.Quantity::isLessThan(kubernetes.Quantity) bool": lambda one, other: (
        one.nanos < other.nanos
    ),
    "kubernetes.Quantity::compareTo(kubernetes.Quantity) int": lambda one, other: _compare(
        one.nanos, other.nanos
    ),
    "kubernetes.Quantity::asApproximateFloat() double": lambda quantity: (
        quantity.nanos / quantities.NANO
    ),
    "kubernetes.Quantity::asInteger() int": _as_integer,
    "kubernetes.Quantity::isInteger() bool": _is_integer,
    "kubernetes.Quantity::add(kubernetes.Quantity) kubernetes.Quantity": _adder(1),
    "kubernetes.Quantity::add(int) kubernetes.Quantity": _adder(1),
    "kubernetes.Quantity::sub(kubernetes.Quantity) kubernetes.Quantity": _adder(-1),
    "kubernetes.Quantity::sub(int) kubernetes.Quantity": _adder(-1),
    "kubernetes.URL::getScheme() string": lambda url: url.parts.scheme,
    "kubernetes.URL::getHost() string": lambda url: url.parts.netloc.rpartition("@")[2],
    "kubernetes.URL::getHostname() string": _hostname,
    "kubernetes.URL::getPort() string": lambda url: (
        "" if url.parts.port is None else str(url.parts.port)
    ),
    "kubernetes.URL::getEscapedPath() string": lambda url: quote(
        url.parts.path, safe="/%:@!$&'()*+,;=~-._"
    ),
    "kubernetes.URL::getQuery() map(string, list(string))": lambda url: parse_qs(
        url.parts.query, keep_blank_values=True
    ),
    "kubernetes.NamedFormat::validate(string) optional(list(string))": lambda form, text: (
        Optional(list(wrong), present=True) if (wrong := form.check(text)) else NONE
    ),
    "kubernetes.Semver::isGreaterThan(kubernetes.Semver) bool": lambda one, other: (
        one.order() > other.order()
    ),
    "kubernetes.Semver::isLessThan(kubernetes.Semver) bool": lambda one, other: (
        one.order() < other.order()
    ),
    "kubernetes.Semver::compareTo(kubernetes.Semver) int": lambda one, other: _compare(
        one.order(), other.order()
    ),
    "kubernetes.Semver::major() int": lambda version: version.numbers[0],
    "kubernetes.Semver::minor() int": lambda version: version.numbers[1],
    "kubernetes.Semver::patch() int": lambda version: version.numbers[2],
}


# Kubernetes' functions for IP addresses and networks.


IPV4 = 4


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
        raise EvaluationError(
            f"IP Address {quoted(text)} parse error during conversion from string: {why}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Ip(address)


def _cidr(text: str) -> Cidr:
    try:
        if "/" not in text or not text.rpartition("/")[2].isdigit():
            raise ValueError(text)  # noqa: TRY301 - worded below
        return Cidr(ipaddress.ip_interface(text))
    except ValueError:
        why = f"netip.ParsePrefix({quoted(text)}): no '/'"
        raise EvaluationError(
            f"network address parse error during conversion from string: {why}"
        ) from None


def _contains_ip(cidr: Cidr, ip: Ip | str) -> bool:
    address = (_ip(ip) if isinstance(ip, str) else ip).address
    return address.version == cidr.network.version and address in cidr.network.network


def _contains_cidr(cidr: Cidr, other: Cidr | str) -> bool:
    inner = (_cidr(other) if isinstance(other, str) else other).network
    outer = cidr.network.network
    return (
        inner.version == outer.version
        and inner.network.prefixlen >= outer.prefixlen
        and inner.ip in outer
    )


ADDRESS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip(string) net.IP": _ip,
    "isIP(string) bool": _is_parsable(_ip),
    "ip.isCanonical(string) bool": lambda text: str(_ip(text)) == text,
    "string(net.IP) string": str,
    "cidr(string) net.CIDR": _cidr,
    "isCIDR(string) bool": _is_parsable(_cidr),
    "string(net.CIDR) string": str,
}
ADDRESS_METHODS: dict[str, Callable[..., Any]] = {
    "net.IP::family() int": lambda ip: ip.address.version,
    "net.IP::isUnspecified() bool": lambda ip: ip.address.is_unspecified,
    "net.IP::isLoopback() bool": lambda ip: ip.address.is_loopback,
    "net.IP::isLinkLocalMulticast() bool": (
        lambda ip: (
            ip.address
            in ipaddress.ip_network("224.0.0.0/24" if ip.address.version == IPV4 else "ff02::/16")
        )
    ),
    "net.IP::isLinkLocalUnicast() bool": lambda ip: ip.address.is_link_local,
    "net.IP::isGlobalUnicast() bool": lambda ip: (
        not (
            ip.address.is_unspecified
            or ip.address.is_loopback
            or ip.address.is_multicast
            or ip.address.is_link_local
            or str(ip.address) == "255.255.255.255"
        )
    ),
    "net.CIDR::containsIP(string) bool": _contains_ip,
    "net.CIDR::containsIP(net.IP) bool": _contains_ip,
    "net.CIDR::containsCIDR(string) bool": _contains_cidr,
    "net.CIDR::containsCIDR(net.CIDR) bool": _contains_cidr,
    "net.CIDR::ip() net.IP": lambda cidr: Ip(cidr.network.ip),
    "net.CIDR::prefixLength() int": lambda cidr: cidr.network.network.prefixlen,
    "net.CIDR::masked() net.CIDR": lambda cidr: Cidr(
        ipaddress.ip_interface(str(cidr.network.network))
    ),
}
