"""From which revision a list is answered, and where its next page begins.

A page names the revision of the first one in its token, so that all pages together are one moment of the past.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.errors import Expired, quoted

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Options
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.machinery.selecting import Selection
    from pytest_kscen.machinery.shelves import Place, Shelf
    from pytest_kscen.machinery.store import Store
    from pytest_kscen.objects.resources import Obj

TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 -- Kubernetes' name for the token's form
WHATEVER = -1  # the revision of a token that goes on from what is there now
TOO_OLD = "The resourceVersion for the provided list is too old."
NO_MORE_PAGES = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of a list: as of a revision, from a place on, and how much."""

    kind: Kind
    namespace: str
    revision: int
    limit: int = 0
    after: Place | None = None

    def read(self, store: Store, selection: Selection) -> tuple[list[Obj], dict[str, Any]]:
        """The objects, and what the list's metadata says of those that follow."""
        items: list[Obj] = []
        last = self.after
        for place, obj in store.all_at(*self.kind.home, self.namespace, self.revision, self.after):
            if self.limit and len(items) == self.limit and last:
                return items, self._following(store, last, whole=selection.lets_through is None)
            last = place
            if selection.takes(obj):
                items.append(obj)
        return items, {}

    def _following(self, store: Store, last: Place, *, whole: bool) -> dict[str, Any]:
        following: dict[str, Any] = {"continue": token(self.revision, last, self.namespace)}
        if whole:
            following["remainingItemCount"] = store.count_at(*self.kind.home, self.namespace, self.revision, last)
        return following


def page_of(store: Store, kind: Kind, options: Options, namespace: str) -> Page:
    """What a list asks for; a ValueError says why it cannot be understood."""
    shelf = store.shelf(*kind.home)
    if options.continue_token:
        return _next_page(store, shelf, kind, options, namespace)
    match, limit = options.resource_version_match, max(options.limit, 0)
    version = version_in(options.resource_version, "invalid resource version: ") if options.resource_version else 0
    if options.resource_version == "0" and not match:
        limit = 0
    if version and (match == "Exact" or (limit and not match)):
        if version < shelf.compacted:
            raise Expired(TOO_OLD)
        return Page(kind, namespace, version, limit)
    return Page(kind, namespace, max(store.revision, version), limit)


def _next_page(store: Store, shelf: Shelf, kind: Kind, options: Options, namespace: str) -> Page:
    revision, start = read_token(options.continue_token)
    if options.resource_version not in {"", "0"}:
        raise ValueError("specifying resource version is not allowed when using continue")
    first, _, rest = start.partition("/")
    after = (namespace, start) if namespace else (first, rest) if kind.resource.namespaced else ("", start)
    if revision == WHATEVER:
        revision = store.revision
    elif revision < shelf.compacted:
        refusal = Expired(NO_MORE_PAGES)
        refusal.status["metadata"] = {"continue": token(WHATEVER, after, namespace)}
        raise refusal
    return Page(kind, namespace, revision, options.limit, after)


def version_in(text: str, prefix: str = "") -> int:
    """A resourceVersion as a number."""
    if not (text.isascii() and text.isdigit()):
        why = f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"
        raise ValueError(f"{prefix}resourceVersion: Invalid value: {quoted(text)}: {why}")
    return int(text)


def token(revision: int, last: Place, namespace: str) -> str:
    """Where a list goes on: behind this object."""
    path = last[1] if namespace or not last[0] else "/".join(last)
    content = json.dumps({"v": TOKEN_VERSION, "rv": revision, "start": f"/{path}\0"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def read_token(text: str) -> tuple[int, str]:
    """The revision, and the path of the last object that was shown."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data at input byte 0") from None
    try:
        content = json.loads(raw)
        version, revision, start = content.get("v"), int(content.get("rv", 0)), content.get("start", "")
    except (ValueError, TypeError, AttributeError):
        first = raw[:1] if raw[:1].isprintable() else json.dumps(raw[:1])[1:-1]
        raise _bad_token(f"invalid character '{first}' looking for beginning of value") from None
    if version != TOKEN_VERSION:
        raise _bad_token(f"server does not recognize this encoded version {version}")
    if not revision:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    if not start:
        raise _bad_token(f"encoded start key empty (version {TOKEN_VERSION})")
    if ".." in start.split("/"):
        raise _bad_token(start)
    return revision, start.strip("/\0")


def _bad_token(why: str) -> ValueError:
    return ValueError(f"invalid continue token: continue key is not valid: {why}")
