"""IP addresses and blocks, as strictly as Kubernetes reads them."""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.apiserver.rules.checks import Causes

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Block = ipaddress.IPv4Network | ipaddress.IPv6Network
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_BLOCK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS = re.compile(r"^0+(?=\d)", re.ASCII)


@functools.lru_cache(maxsize=512)
def _plain(text: str) -> str:
    return (
        ".".join(_LEADING_ZEROS.sub("", part) for part in text.split("."))
        if ":" not in text
        else text
    )


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Address | None:
    """The address that a text says; zeros before its numbers are overlooked, as Go's old parser
    did.
    """
    try:
        return ipaddress.ip_address(_plain(text)) if "%" not in text else None
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def parse_block(text: str) -> Block | None:
    base, slash, length = text.partition("/")
    if not slash or not length.isdecimal() or parse(base) is None:
        return None
    try:
        return ipaddress.ip_network(f"{parse(base)}/{int(length)}", strict=False)
    except ValueError:
        return None


def is_ipv6(text: str) -> bool:
    found = parse(text)
    return found is not None and found.version == 6  # noqa: PLR2004


def family(text: str) -> str:
    return "IPv6" if is_ipv6(text) else "IPv4"


def address(path: str, text: str, known: Iterable[str] = ()) -> Causes:
    """An address; one that was there before is not judged again."""
    if text in known:
        return
    found = parse(text)
    if found is None:
        yield Cause.invalid(path, text, _NO_ADDRESS)
    elif _plain(text) != text:
        yield Cause.invalid(path, text, "must not have leading 0s")
    elif getattr(found, "ipv4_mapped", None):
        yield Cause.invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def canonical_address(path: str, text: str) -> Causes:
    """An address in the one form in which it is written."""
    wrong = list(address(path, text))
    yield from wrong
    if not wrong and text != str(parse(text)):
        yield Cause.invalid(path, text, f'must be in canonical form ("{parse(text)}")')


def block(path: str, text: str, known: Iterable[str] = ()) -> Causes:
    if text in known:
        return
    found, (base, _, length) = parse_block(text), text.partition("/")
    if found is None:
        yield Cause.invalid(path, text, _NO_BLOCK)
    elif _plain(base) != base or _LEADING_ZEROS.sub("", length) != length:
        yield Cause.invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif getattr(parse(base), "ipv4_mapped", None):
        yield Cause.invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif found.network_address != parse(base):
        yield Cause.invalid(path, text, "must not have bits set beyond the prefix length")


def canonical_block(path: str, text: str) -> Causes:
    wrong = list(block(path, text))
    yield from wrong
    if not wrong and text != str(parse_block(text)):
        yield Cause.invalid(path, text, f'must be in canonical form ("{parse_block(text)}")')


def reachable(path: str, text: str) -> Causes:
    """An address that traffic can be sent to."""
    found = parse(text)
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
    elif found in ipaddress.ip_network("224.0.0.0/24" if found.version == 4 else "ff02::/16"):  # noqa: PLR2004
        yield Cause.invalid(
            path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        )
