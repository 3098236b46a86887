"""get and list: current or at a past revision, with selectors and paging."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.kube.api import Answer
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Expired,
    ServerTimeout,
    not_found,
    quoted,
)
from pytest_kscen.objects.selectors import FieldTerm, parse_fields, parse_labels, predicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import Place, Store
    from pytest_kscen.kube.api import Options, Request
    from pytest_kscen.objects.resources import Obj

    Reader = Callable[[Obj], str]


# Which objects a list, a watch or a deletion of many is about.


NAME, NAMESPACE = "metadata.name", "metadata.namespace"
REFUSALS = {("batch", "jobs"): 'field label "{}" not supported for Job'}


class Selection(NamedTuple):
    """A namespace (none: all), a name if only that can be meant, and what else must hold."""

    namespace: str
    name: str = ""
    lets_through: Callable[[Obj], bool] | None = None
    is_of_one: bool = False

    def takes(self, obj: Obj) -> bool:
        """Whether an object is meant, wherever it is."""
        metadata = obj["metadata"]
        return (
            (not self.namespace or metadata.get("namespace") == self.namespace)
            and (not self.name or metadata["name"] == self.name)
            and (self.lets_through is None or self.lets_through(obj))
        )


def selection_of(kind: Kind, request: Request) -> Selection:
    namespace = request.namespace if kind.resource.namespaced else ""
    options = request.options
    if not options.labels and not options.fields:
        return Selection(namespace, request.name, is_of_one=bool(request.name))
    try:
        parse_labels(options.labels)
        terms = parse_fields(options.fields)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    readers = [(_reader(kind, term.field), term.equal, term.value) for term in terms]
    name = request.name or _exact(terms, NAME)
    if not namespace and kind.resource.namespaced:
        namespace = _exact(terms, NAMESPACE)
    is_of_one = bool(name and (namespace or not kind.resource.namespaced))
    return Selection(namespace, name, predicate(options.labels, readers), is_of_one)


def _exact(terms: tuple[FieldTerm, ...], field: str) -> str:
    return next((term.value for term in terms if term.field == field and term.equal), "")


def _reader(kind: Kind, field: str) -> Reader:
    own = kind.rules.fields
    if field in own:
        read = own[field]
        return (lambda obj: read(kind.shown(obj))) if kind.conversion else read
    if field == NAME:
        return _name
    if field == NAMESPACE and (kind.resource.namespaced or not own):
        return _namespace
    resource = kind.resource
    if own or kind.custom:
        raise BadRequest(
            REFUSALS.get((resource.group, resource.plural), "field label not supported: {}").format(
                field
            )
        )
    raise BadRequest(f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


# From which revision a list is answered, and where its next page begins. A page names the
# revision of the first one in its token, so that all pages together are one moment of the past.


TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 -- Kubernetes' name for the token's form
WHATEVER = -1  # the revision of a token that goes on from what is there now
TOO_OLD = "The resourceVersion for the provided list is too old."
NO_MORE_PAGES = (
    "The provided continue parameter is too old to display a consistent list result. You "
    "can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the "
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
            following["remainingItemCount"] = store.count_at(
                *self.kind.home, self.namespace, self.revision, last
            )
        return following


def page_of(store: Store, kind: Kind, options: Options, namespace: str) -> Page:
    """What a list asks for; a ValueError says why it cannot be understood."""
    shelf = store.shelf(*kind.home)
    if options.continue_token:
        revision, start = read_token(options.continue_token)
        if options.resource_version not in {"", "0"}:
            raise ValueError("specifying resource version is not allowed when using continue")
        first, _, rest = start.partition("/")
        after = (
            (namespace, start)
            if namespace
            else (first, rest)
            if kind.resource.namespaced
            else ("", start)
        )
        if revision == WHATEVER:
            revision = store.revision
        elif revision < shelf.compacted:
            refusal = Expired(NO_MORE_PAGES)
            refusal.status["metadata"] = {"continue": token(WHATEVER, after, namespace)}
            raise refusal
        return Page(kind, namespace, revision, options.limit, after)
    match, limit = options.resource_version_match, max(options.limit, 0)
    version = (
        version_in(options.resource_version, "invalid resource version: ")
        if options.resource_version
        else 0
    )
    if options.resource_version == "0" and not match:
        limit = 0
    if version and (match == "Exact" or (limit and not match)):
        if version < shelf.compacted:
            raise Expired(TOO_OLD)
        return Page(kind, namespace, version, limit)
    return Page(kind, namespace, max(store.revision, version), limit)


def version_in(text: str, prefix: str = "") -> int:
    """A resourceVersion as a number."""
    if not (text.isascii() and text.isdigit()):
        why = f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"
        raise ValueError(f"{prefix}resourceVersion: Invalid value: {quoted(text)}: {why}")
    return int(text)


def token(revision: int, last: Place, namespace: str) -> str:
    """Where a list goes on: behind this object."""
    path = last[1] if namespace or not last[0] else "/".join(last)
    content = json.dumps(
        {"v": TOKEN_VERSION, "rv": revision, "start": f"/{path}\0"}, separators=(",", ":")
    )
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def read_token(text: str) -> tuple[int, str]:
    """The revision, and the path of the last object that was shown."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data at input byte 0") from None
    try:
        content = json.loads(raw)
        version, revision, start = (
            content.get("v"),
            int(content.get("rv", 0)),
            content.get("start", ""),
        )
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


def current(core: Core, kind: Kind, request: Request) -> Obj:
    """The object that the request names, as it is stored."""
    obj = core.store.get(key_of(kind, request, request.name))
    if obj is None:
        raise not_found(kind.resource, request.name)
    return obj


async def get(core: Core, kind: Kind, request: Request) -> Answer:
    if request.options.resource_version:
        try:
            refuse_future(core, version_in(request.options.resource_version))
        except ValueError as error:
            raise ApiError(str(error)) from None
    return Answer(kind.shown(current(core, kind, request)))


async def list_(core: Core, kind: Kind, request: Request) -> Answer:
    options = request.options
    selection = selection_of(kind, request)
    try:
        page = page_of(core.store, kind, options, selection.namespace)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    refuse_future(core, page.revision)
    if selection.is_of_one:
        page = replace(page, limit=0)
    if page.revision == core.store.revision and not page.limit and not page.after:
        return Answer(listing(kind, list(_now(core, kind, selection)), page.revision))
    items, more = page.read(core.store, selection)
    return Answer(listing(kind, items, page.revision, **more))


def _now(core: Core, kind: Kind, selection: Selection) -> Iterable[Obj]:
    """All that is there now."""
    group, plural = kind.home
    if selection.is_of_one:
        obj = core.store.get((group, plural, selection.namespace, selection.name))
        return [obj] if obj and selection.takes(obj) else []
    found = core.store.all(group, plural, selection.namespace)
    return filter(selection.lets_through, found) if selection.lets_through else found


def listing(kind: Kind, items: list[Obj], revision: int, **more: Any) -> Obj:
    if kind.custom or kind.conversion:
        items = [kind.shown(item) for item in items]
    if kind.custom:
        more = {"continue": "", **more}
    return {
        "kind": f"{kind.resource.kind}List",
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(revision), **more},
        "items": items,
    }


def refuse_future(core: Core, revision: int) -> None:
    """Kubernetes waits a few seconds for a revision that is not there yet; here nothing is ever
    on its way.
    """
    if revision > core.store.revision:
        raise too_large(revision, core.store.revision)


def too_large(revision: int, now: int) -> ServerTimeout:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {revision}, current: {now}"
    return ServerTimeout(message, details={"causes": causes, "retryAfterSeconds": 1})
