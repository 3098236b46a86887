"""Conversion of an HTTP request to a `kube.api.Request`: path, route, options and body.

Called by `wire`. Refuses unknown paths and wrong methods as kube-apiserver does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pytest_kscen.embedded.apiserver.subresources.scale import NOT_A_SCALE
from pytest_kscen.embedded.apiserver.wire import bodies, queries
from pytest_kscen.embedded.apiserver.wire.bodies import UnreadablePatch
from pytest_kscen.embedded.apiserver.wire.media_types import body_type
from pytest_kscen.kube.api import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    HttpCall,
    Request,
)
from pytest_kscen.objects.errors import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds, Subresource
    from pytest_kscen.embedded.apiserver.wire.queries import Query

    Reading = Callable[["RoutedRequest", Request], None]


METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
ADMIN = "system:admin"


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """HTTP request whose route is known, with its undecoded parts."""

    route: Route
    address: ResourcePath
    query: Query
    headers: Mapping[str, str]
    body: bytes
    target: str = ""
    """For a proxy: the rest of the path, and the query."""

    @property
    def connects(self) -> bool:
        """True for connections (exec, proxy), which have options and no body."""
        part = self.route.part
        return part is not None and part.kind.endswith("Options")

    @property
    def is_custom(self) -> bool:
        part = self.route.part
        return self.route.kind.custom and not (part and part.kind)

    @property
    def kind(self) -> str:
        part = self.route.part
        return (part.kind if part else "") or self.route.kind.resource.kind


def request_of(routed: RoutedRequest, warnings: list[str]) -> Request:
    address, verb = routed.address, routed.route.verb
    request = Request(
        verb,
        routed.route.kind.resource,
        namespace=address.namespace,
        name=address.name,
        subresource=address.subresource,
        user=routed.headers.get("impersonate-user") or ADMIN,
        agent=routed.headers.get("user-agent", ""),
        warnings=warnings,
    )
    reading = _read_connection if routed.connects else READERS[verb]
    reading(routed, request)
    return request


def _read_get(routed: RoutedRequest, request: Request) -> None:
    request.options = queries.get_options(routed.query)


def _read_connection(routed: RoutedRequest, request: Request) -> None:
    if request.subresource == "proxy":
        request.body = HttpCall(
            METHODS[request.verb], routed.target, tuple(routed.headers.items()), routed.body
        )
        return
    options = queries.get_options(routed.query)
    upgrade = tuple((name, routed.headers[name]) for name in ("upgrade",) if name in routed.headers)
    request.options = replace(options, extra=(*options.extra, *upgrade))


def _read_list(routed: RoutedRequest, request: Request) -> None:
    """Read list options; an old-style watch names its object in the path."""
    request.options = queries.list_options(
        routed.query, watch=request.verb == "watch", name=request.name
    )
    request.name = ""


def _read_write(routed: RoutedRequest, request: Request) -> None:
    bodies.check_size(routed.body)
    type_ = body_type(routed.headers.get("content-type", ""), custom=routed.route.kind.custom)
    request.options = queries.write_options(routed.query, request.verb)
    try:
        request.body, duplicates = bodies.read_object(routed.body, type_, routed.kind)
    except BadRequest as refusal:
        if routed.route.kind.custom and not routed.is_custom:
            raise BadRequest(NOT_A_SCALE) from refusal
        raise
    if routed.is_custom:
        lenient = request.options.field_validation == "Ignore"
        bodies.check_custom(
            request.body,
            routed.body,
            routed.kind,
            routed.route.kind.api_version,
            lenient=lenient,
        )
    _report_duplicates(duplicates, routed, request)


def _read_patch(routed: RoutedRequest, request: Request) -> None:
    bodies.check_size(routed.body)
    request.patch_type = routed.headers.get("content-type", "").partition(";")[0].strip()
    if routed.route.kind.custom and request.patch_type not in CUSTOM_PATCH_TYPES:
        listed = ", ".join(CUSTOM_PATCH_TYPES)
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types "
            f"include: {listed}"
        )
    if request.patch_type not in PATCH_TYPES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    request.options = queries.write_options(routed.query, "patch", request.patch_type)
    request.body, duplicates = bodies.read_patch(routed.body, request.patch_type)
    try:
        _report_duplicates(duplicates, routed, request)
    except BadRequest as error:
        raise UnreadablePatch(error.message) from error


def _read_delete(routed: RoutedRequest, request: Request) -> None:
    bodies.check_size(routed.body)
    given = None
    if routed.body:
        type_ = body_type(routed.headers.get("content-type", ""), custom=False)
        given = bodies.read_delete_options(routed.body, type_)
    options = queries.delete_options(routed.query, given)
    request.options = (
        queries.with_selection(options, routed.query)
        if request.verb == "deletecollection"
        else options
    )


def _report_duplicates(duplicates: list[str], routed: RoutedRequest, request: Request) -> None:
    """Refuse duplicate fields, warn of them or ignore them, by the client's fieldValidation."""
    if duplicates and request.options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(duplicates)}"
        version = f'{routed.kind} in version "{request.resource.version}"'
        raise BadRequest(f"{version} cannot be handled as a {routed.kind}: {why}")
    if request.options.field_validation == "Warn":
        request.warnings.extend(duplicates)


READERS: dict[str, Reading] = {
    "get": _read_get,
    "list": _read_list,
    "watch": _read_list,
    "create": _read_write,
    "update": _read_write,
    "patch": _read_patch,
    "delete": _read_delete,
    "deletecollection": _read_delete,
}


NAMESPACE_SUBRESOURCES = ("status", "finalize")
"""Subresources of a namespace, whose paths look like those of resources in it."""


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Path under /api or /apis, split into its parts.

    `watched` marks the old form of a watch: /api/v1/watch/pods.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    tail: str = ""
    watched: bool = False


@lru_cache(maxsize=8192)
def parse_path(path: str) -> ResourcePath | None:
    """Return the parts of a resource's path; None for other paths, such as discovery."""
    parts = (unquote(path) if "%" in path else path).rstrip("/").removeprefix("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return None
    version, *rest = rest or [""]
    watched = rest[:1] == ["watch"]
    parts = rest[1:] if watched else rest
    if not parts:
        return None
    namespace = ""
    if parts[0] == "namespaces" and parts[2:] and (group or parts[2] not in NAMESPACE_SUBRESOURCES):
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *tail = [*parts, "", "", ""][: max(len(parts), 3)]
    return ResourcePath(
        group, version, plural, namespace, name, subresource, "/".join(tail), watched
    )


OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
SUBRESOURCE_VERBS = {
    "GET": "get",
    "PUT": "update",
    "PATCH": "patch",
    "POST": "create",
    "DELETE": "delete",
}


class Route(NamedTuple):
    """Verb, kind and subresource that a method and path select; `part` is None for whole
    objects.
    """

    verb: str
    kind: Kind
    part: Subresource | None


def unknown_resource() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def wrong_method() -> MethodNotAllowed:
    return MethodNotAllowed(
        "the server does not allow this method on the requested resource", details={}
    )


def route_of(kinds: Kinds, method: str, address: ResourcePath, *, watch: bool) -> Route:
    kind = kinds.at(address.group, address.version, address.plural)
    namespaced = kind.resource.namespaced
    if address.namespace and not namespaced:
        raise unknown_resource()
    if address.name and namespaced and not address.namespace:
        raise unknown_resource()
    if address.subresource:
        return _route_to_subresource(kind, method, address)
    if address.name:
        verb = OBJECT_VERBS.get(method, "")
    elif namespaced and not address.namespace and method != "GET":
        verb = ""
    else:
        verb = COLLECTION_VERBS.get(method, "")
    if method == "GET" and (address.watched or (watch and not address.name)):
        verb = "watch"
    if verb not in kind.verbs:
        raise wrong_method()
    return Route(verb, kind, None)


def _route_to_subresource(kind: Kind, method: str, address: ResourcePath) -> Route:
    part = kind.subresources.get(address.subresource)
    if part is None and kind.custom:
        raise not_found(kind.resource, address.name)
    if part is None or (address.tail and address.subresource != "proxy"):
        raise unknown_resource()
    verb = SUBRESOURCE_VERBS.get(method, "")
    if verb not in part.verbs:
        raise wrong_method()
    return Route(verb, kind, part)
