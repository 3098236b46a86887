"""The get and list verbs: the present or a past revision, with selectors and pages.

Selections are shared with watches and deletecollection. Nothing here writes.
"""

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
    from pytest_kscen.embedded.apiserver.store import NamespacedName, Store
    from pytest_kscen.kube.api import Options, Request
    from pytest_kscen.objects.resources import Obj

    Reader = Callable[[Obj], str]


NAME, NAMESPACE = "metadata.name", "metadata.namespace"
FIELD_REFUSALS = {("batch", "jobs"): 'field label "{}" not supported for Job'}


class ObjectSelection(NamedTuple):
    """Objects that a list, watch or deletecollection addresses.

    An empty namespace means all. `name` is set if only this name can match; `names_one` if the
    namespace is known too, so that a lookup is enough.
    """

    namespace: str
    name: str = ""
    condition: Callable[[Obj], bool] | None = None
    names_one: bool = False

    def matches(self, obj: Obj) -> bool:
        """Return True if an object is selected, checking the namespace too."""
        metadata = obj["metadata"]
        return (
            (not self.namespace or metadata.get("namespace") == self.namespace)
            and (not self.name or metadata["name"] == self.name)
            and (self.condition is None or self.condition(obj))
        )


def selection_of(kind: Kind, request: Request) -> ObjectSelection:
    namespace = request.namespace if kind.resource.namespaced else ""
    options = request.options
    if not options.labels and not options.fields:
        return ObjectSelection(namespace, request.name, names_one=bool(request.name))
    try:
        parse_labels(options.labels)
        terms = parse_fields(options.fields)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    readers = [(_reader(kind, term.field), term.equal, term.value) for term in terms]
    name = request.name or _required_value(terms, NAME)
    if not namespace and kind.resource.namespaced:
        namespace = _required_value(terms, NAMESPACE)
    names_one = bool(name and (namespace or not kind.resource.namespaced))
    return ObjectSelection(namespace, name, predicate(options.labels, readers), names_one)


def _required_value(terms: tuple[FieldTerm, ...], field: str) -> str:
    return next((term.value for term in terms if term.field == field and term.equal), "")


def _reader(kind: Kind, field: str) -> Reader:
    own = kind.rules.fields
    if field in own:
        read = own[field]
        return (lambda obj: read(kind.to_served(obj))) if kind.conversion else read
    if field == NAME:
        return lambda obj: str(obj["metadata"]["name"])
    if field == NAMESPACE and (kind.resource.namespaced or not own):
        return lambda obj: str(obj["metadata"].get("namespace", ""))
    resource = kind.resource
    if own or kind.custom:
        raise BadRequest(
            FIELD_REFUSALS.get(
                (resource.group, resource.plural), "field label not supported: {}"
            ).format(field)
        )
    raise BadRequest(f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')


TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 -- Kubernetes' name for the token's form
ANY_REVISION = -1  # revision of a continue token that accepts an inconsistent list
TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You "
    "can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListPage:
    """Page of a list: its revision, the name behind which it starts, and its limit.

    All pages of a list read the first one's revision, which the continue token carries.
    """

    kind: Kind
    namespace: str
    revision: int
    limit: int = 0
    after: NamespacedName | None = None

    def read(self, store: Store, selection: ObjectSelection) -> tuple[list[Obj], dict[str, Any]]:
        """Return the page's objects, and the list metadata about the objects that follow.

        The metadata is empty on the last page; remainingItemCount is missing under selectors.
        """
        items: list[Obj] = []
        last = self.after
        for place, obj in store.all_at(*self.kind.home, self.namespace, self.revision, self.after):
            if self.limit and len(items) == self.limit and last:
                following: dict[str, Any] = {
                    "continue": continue_token(self.revision, last, self.namespace)
                }
                if selection.condition is None:
                    following["remainingItemCount"] = store.count_at(
                        *self.kind.home, self.namespace, self.revision, last
                    )
                return items, following
            last = place
            if selection.matches(obj):
                items.append(obj)
        return items, {}


def requested_page(store: Store, kind: Kind, options: Options, namespace: str) -> ListPage:
    """Return the page that a list's options request.

    Raises ValueError for options that cannot be read, Expired if the revision was dropped.
    """
    resource_store = store.resource_store(*kind.home)
    if options.continue_token:
        revision, start = parse_continue_token(options.continue_token)
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
        if revision == ANY_REVISION:
            revision = store.revision
        elif revision < resource_store.compacted:
            refusal = Expired(CONTINUE_EXPIRED)
            refusal.status["metadata"] = {
                "continue": continue_token(ANY_REVISION, after, namespace)
            }
            raise refusal
        return ListPage(kind, namespace, revision, options.limit, after)
    match, limit = options.resource_version_match, max(options.limit, 0)
    version = (
        parse_version(options.resource_version, "invalid resource version: ")
        if options.resource_version
        else 0
    )
    if options.resource_version == "0" and not match:
        limit = 0
    if version and (match == "Exact" or (limit and not match)):
        if version < resource_store.compacted:
            raise Expired(TOO_OLD)
        return ListPage(kind, namespace, version, limit)
    return ListPage(kind, namespace, max(store.revision, version), limit)


def parse_version(text: str, prefix: str = "") -> int:
    """Return a resourceVersion as a number; raises ValueError with Kubernetes' message."""
    if not (text.isascii() and text.isdigit()):
        why = f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"
        raise ValueError(f"{prefix}resourceVersion: Invalid value: {quoted(text)}: {why}")
    return int(text)


def continue_token(revision: int, last: NamespacedName, namespace: str) -> str:
    """Return the token with which a list continues behind an object.

    It has Kubernetes' form: base64 of JSON with version, revision and start key.
    """
    path = last[1] if namespace or not last[0] else "/".join(last)
    content = json.dumps(
        {"v": TOKEN_VERSION, "rv": revision, "start": f"/{path}\0"}, separators=(",", ":")
    )
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def parse_continue_token(text: str) -> tuple[int, str]:
    """Return the revision and the path of the last object from a continue token."""
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


def stored_object(core: Core, kind: Kind, request: Request) -> Obj:
    """Return the stored object that the request names, in its stored version; raises NotFound."""
    obj = core.store.get(key_of(kind, request, request.name))
    if obj is None:
        raise not_found(kind.resource, request.name)
    return obj


async def get(core: Core, kind: Kind, request: Request) -> Answer:
    if request.options.resource_version:
        try:
            refuse_future(core, parse_version(request.options.resource_version))
        except ValueError as error:
            raise ApiError(str(error)) from None
    return Answer(kind.to_served(stored_object(core, kind, request)))


async def list_(core: Core, kind: Kind, request: Request) -> Answer:
    options = request.options
    selection = selection_of(kind, request)
    try:
        page = requested_page(core.store, kind, options, selection.namespace)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    refuse_future(core, page.revision)
    if selection.names_one:
        page = replace(page, limit=0)
    if page.revision == core.store.revision and not page.limit and not page.after:
        return Answer(
            list_object(kind, list(_current_objects(core, kind, selection)), page.revision)
        )
    items, more = page.read(core.store, selection)
    return Answer(list_object(kind, items, page.revision, **more))


def _current_objects(core: Core, kind: Kind, selection: ObjectSelection) -> Iterable[Obj]:
    group, plural = kind.home
    if selection.names_one:
        obj = core.store.get((group, plural, selection.namespace, selection.name))
        return [obj] if obj and selection.matches(obj) else []
    found = core.store.all(group, plural, selection.namespace)
    return filter(selection.condition, found) if selection.condition else found


def list_object(kind: Kind, items: list[Obj], revision: int, **more: Any) -> Obj:
    if kind.custom or kind.conversion:
        items = [kind.to_served(item) for item in items]
    if kind.custom:
        more = {"continue": "", **more}
    return {
        "kind": f"{kind.resource.kind}List",
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(revision), **more},
        "items": items,
    }


def refuse_future(core: Core, revision: int) -> None:
    """Raise a timeout error for a revision ahead of the store's.

    Kubernetes waits a few seconds for such a revision; here none is ever on its way.
    """
    if revision > core.store.revision:
        raise version_too_large(revision, core.store.revision)


def version_too_large(revision: int, now: int) -> ServerTimeout:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {revision}, current: {now}"
    return ServerTimeout(message, details={"causes": causes, "retryAfterSeconds": 1})
