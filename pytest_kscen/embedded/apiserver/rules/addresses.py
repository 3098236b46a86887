"""Validators of IP addresses and CIDR blocks, as strict as Kubernetes' validators.

Used by all rules with addresses. Parsing is cached, because most requests repeat the same few
addresses.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.apiserver.rules.checks import Causes

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
_INVALID_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_INVALID_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS = re.compile(r"^0+(?=\d)", re.ASCII)


@functools.lru_cache(maxsize=512)
def _without_leading_zeros(text: str) -> str:
    return (
        ".".join(_LEADING_ZEROS.sub("", part) for part in text.split("."))
        if ":" not in text
        else text
    )


@functools.lru_cache(maxsize=512)
def parse_address(text: str) -> IPAddress | None:
    """Parse an IP address, or return None. Leading zeros are ignored, as Go's older parser does, so
    that old objects stay readable.
    """
    try:
        return ipaddress.ip_address(_without_leading_zeros(text)) if "%" not in text else None
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def parse_cidr(text: str) -> IPNetwork | None:
    base, slash, length = text.partition("/")
    if not slash or not length.isdecimal() or parse_address(base) is None:
        return None
    try:
        return ipaddress.ip_network(f"{parse_address(base)}/{int(length)}", strict=False)
    except ValueError:
        return None


def is_ipv6(text: str) -> bool:
    found = parse_address(text)
    return found is not None and found.version == 6  # noqa: PLR2004


def ip_family(text: str) -> str:
    return "IPv6" if is_ipv6(text) else "IPv4"


def validate_address(path: str, text: str, known: Iterable[str] = ()) -> Causes:
    """Yield the causes for a malformed address. An address in `known`, which the old object has
    already, is accepted without a check.
    """
    if text in known:
        return
    found = parse_address(text)
    if found is None:
        yield Cause.invalid(path, text, _INVALID_ADDRESS)
    elif _without_leading_zeros(text) != text:
        yield Cause.invalid(path, text, "must not have leading 0s")
    elif getattr(found, "ipv4_mapped", None):
        yield Cause.invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def validate_canonical_address(path: str, text: str) -> Causes:
    """Yield the causes for an address that is malformed or not in canonical form.

    The canonical form of IPv6 has lower-case letters and no needless zeros.
    """
    wrong = list(validate_address(path, text))
    yield from wrong
    if not wrong and text != str(parse_address(text)):
        yield Cause.invalid(path, text, f'must be in canonical form ("{parse_address(text)}")')


def validate_cidr(path: str, text: str, known: Iterable[str] = ()) -> Causes:
    if text in known:
        return
    found, (base, _, length) = parse_cidr(text), text.partition("/")
    if found is None:
        yield Cause.invalid(path, text, _INVALID_CIDR)
    elif _without_leading_zeros(base) != base or _LEADING_ZEROS.sub("", length) != length:
        yield Cause.invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif getattr(parse_address(base), "ipv4_mapped", None):
        yield Cause.invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif found.network_address != parse_address(base):
        yield Cause.invalid(path, text, "must not have bits set beyond the prefix length")


def validate_canonical_cidr(path: str, text: str) -> Causes:
    wrong = list(validate_cidr(path, text))
    yield from wrong
    if not wrong and text != str(parse_cidr(text)):
        yield Cause.invalid(path, text, f'must be in canonical form ("{parse_cidr(text)}")')


def validate_endpoint_address(path: str, text: str) -> Causes:
    """Yield the causes for an address that cannot receive a service's traffic: unspecified,
    loopback, link-local or link-local multicast.
    """
    found = parse_address(text)
    if found is None:
        yield Cause.invalid(path, text, "must be a valid IP address")
    elif found.is_unspecified:
        yield Cause.invalid(path, text, f"may not be unspecified ({text})")
    elif found.is_loopback:
        yield Cause.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif found.is_link_local:
        yield Cause.invalid(
            path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        )
    elif found in ipaddress.ip_network(
        "224.0.0.0/24" if found.version == 4 else "ff02::/16"  # noqa: PLR2004
    ):
        yield Cause.invalid(
            path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        )
