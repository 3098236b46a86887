"""What a URL's path names: a group and version, and in it a resource, an object, a subresource."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

NAMESPACE_PARTS = ("status", "finalize")  # what may follow a namespace without being a resource in it


@dataclass(frozen=True, slots=True)
class Address:
    """A place under /api or /apis. `watched` is the old way to ask for a watch: /api/v1/watch/pods."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    tail: str = ""
    watched: bool = False


@lru_cache(maxsize=8192)
def address_of(path: str) -> Address | None:
    """The address that a path names; None if it names something else, such as discovery."""
    parts = (unquote(path) if "%" in path else path).rstrip("/").removeprefix("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return None
    version, *rest = rest or [""]
    watched = rest[:1] == ["watch"]
    return _within(group, version, rest[1:] if watched else rest, watched=watched)


def _within(group: str, version: str, parts: list[str], *, watched: bool) -> Address | None:
    if not parts:
        return None
    namespace = ""
    if parts[0] == "namespaces" and parts[2:] and (group or parts[2] not in NAMESPACE_PARTS):
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *tail = [*parts, "", "", ""][: max(len(parts), 3)]
    return Address(group, version, plural, namespace, name, subresource, "/".join(tail), watched)
