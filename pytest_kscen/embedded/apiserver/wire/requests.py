"""From the parts of an HTTP request to a kube.requests.Request: URL path, route to a verb,
options and body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pytest_kscen.embedded.apiserver.subresources.scale import NO_SCALE
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

    Reading = Callable[["Asked", Request], None]


METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
ADMIN = "system:admin"


@dataclass(frozen=True, slots=True)
class Asked:
    """An HTTP request whose route is known."""

    route: Route
    address: Address
    query: Query
    headers: Mapping[str, str]
    body: bytes
    target: str = ""
    """What a proxy passes on: the rest of the path, and the query."""

    @property
    def connects(self) -> bool:
        """Whether it wants a connection (exec, proxy), which has options and no body."""
        part = self.route.part
        return part is not None and part.kind.endswith("Options")

    @property
    def is_custom(self) -> bool:
        """Whether its body is of a custom kind."""
        part = self.route.part
        return self.route.kind.custom and not (part and part.kind)

    @property
    def kind(self) -> str:
        """The kind that its body has."""
        part = self.route.part
        return (part.kind if part else "") or self.route.kind.resource.kind


def request_of(asked: Asked, warnings: list[str]) -> Request:
    address, verb = asked.address, asked.route.verb
    request = Request(
        verb,
        asked.route.kind.resource,
        namespace=address.namespace,
        name=address.name,
        subresource=address.subresource,
        user=asked.headers.get("impersonate-user") or ADMIN,
        agent=asked.headers.get("user-agent", ""),
        warnings=warnings,
    )
    reading = _read_connection if asked.connects else READINGS[verb]
    reading(asked, request)
    return request


def _read_get(asked: Asked, request: Request) -> None:
    request.options = queries.get_options(asked.query)


def _read_connection(asked: Asked, request: Request) -> None:
    if request.subresource == "proxy":
        request.body = HttpCall(
            METHODS[request.verb], asked.target, tuple(asked.headers.items()), asked.body
        )
        return
    options = queries.get_options(asked.query)
    upgrade = tuple((name, asked.headers[name]) for name in ("upgrade",) if name in asked.headers)
    request.options = replace(options, extra=(*options.extra, *upgrade))


def _read_list(asked: Asked, request: Request) -> None:
    """An old-style watch names its one object in the path."""
    request.options = queries.list_options(
        asked.query, watch=request.verb == "watch", name=request.name
    )
    request.name = ""


def _read_write(asked: Asked, request: Request) -> None:
    bodies.check_size(asked.body)
    type_ = body_type(asked.headers.get("content-type", ""), custom=asked.route.kind.custom)
    request.options = queries.write_options(asked.query, request.verb)
    try:
        request.body, doubles = bodies.object_in(asked.body, type_, asked.kind)
    except BadRequest as refusal:
        if asked.route.kind.custom and not asked.is_custom:
            raise BadRequest(NO_SCALE) from refusal
        raise
    if asked.is_custom:
        leniently = request.options.field_validation == "Ignore"
        bodies.check_custom(
            request.body, asked.body, asked.kind, asked.route.kind.api_version, leniently=leniently
        )
    _tell(doubles, asked, request)


def _read_patch(asked: Asked, request: Request) -> None:
    bodies.check_size(asked.body)
    request.patch_type = asked.headers.get("content-type", "").partition(";")[0].strip()
    if asked.route.kind.custom and request.patch_type not in CUSTOM_PATCH_TYPES:
        listed = ", ".join(CUSTOM_PATCH_TYPES)
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types "
            f"include: {listed}"
        )
    if request.patch_type not in PATCH_TYPES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    request.options = queries.write_options(asked.query, "patch", request.patch_type)
    request.body, doubles = bodies.patch_in(asked.body, request.patch_type)
    try:
        _tell(doubles, asked, request)
    except BadRequest as error:
        raise UnreadablePatch(error.message) from error


def _read_delete(asked: Asked, request: Request) -> None:
    bodies.check_size(asked.body)
    given = None
    if asked.body:
        type_ = body_type(asked.headers.get("content-type", ""), custom=False)
        given = bodies.options_in(asked.body, type_)
    options = queries.delete_options(asked.query, given)
    request.options = (
        queries.with_selection(options, asked.query)
        if request.verb == "deletecollection"
        else options
    )


def _tell(doubles: list[str], asked: Asked, request: Request) -> None:
    """A field that is there twice is an error, a warning or nothing, as the client wishes."""
    if doubles and request.options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(doubles)}"
        version = f'{asked.kind} in version "{request.resource.version}"'
        raise BadRequest(f"{version} cannot be handled as a {asked.kind}: {why}")
    if request.options.field_validation == "Warn":
        request.warnings.extend(doubles)


READINGS: dict[str, Reading] = {
    "get": _read_get,
    "list": _read_list,
    "watch": _read_list,
    "create": _read_write,
    "update": _read_write,
    "patch": _read_patch,
    "delete": _read_delete,
    "deletecollection": _read_delete,
}


# What a URL's path names: a group and version, and in it a resource, an object, a subresource.


NAMESPACE_PARTS = (
    "status",
    "finalize",
)  # what may follow a namespace without being a resource in it


@dataclass(frozen=True, slots=True)
class Address:
    """A place under /api or /apis.

    `watched` is the old way to ask for a watch: /api/v1/watch/pods.
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


# From a method and an address to a verb on a kind, or to the refusal that Kubernetes gives.


ON_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
ON_MANY = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
ON_PART = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}


class Route(NamedTuple):
    """Where a request goes."""

    verb: str
    kind: Kind
    part: Subresource | None


def unknown_resource() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def wrong_method() -> MethodNotAllowed:
    return MethodNotAllowed(
        "the server does not allow this method on the requested resource", details={}
    )


def route_of(kinds: Kinds, method: str, address: Address, *, watch: bool) -> Route:
    kind = kinds.at(address.group, address.version, address.plural)
    namespaced = kind.resource.namespaced
    if address.namespace and not namespaced:
        raise unknown_resource()
    if address.name and namespaced and not address.namespace:
        raise unknown_resource()
    if address.subresource:
        return _route_to_part(kind, method, address)
    if address.name:
        verb = ON_ONE.get(method, "")
    elif namespaced and not address.namespace and method != "GET":
        verb = ""
    else:
        verb = ON_MANY.get(method, "")
    if method == "GET" and (address.watched or (watch and not address.name)):
        verb = "watch"
    if verb not in kind.verbs:
        raise wrong_method()
    return Route(verb, kind, None)


def _route_to_part(kind: Kind, method: str, address: Address) -> Route:
    part = kind.subresources.get(address.subresource)
    if part is None and kind.custom:
        raise not_found(kind.resource, address.name)
    if part is None or (address.tail and address.subresource != "proxy"):
        raise unknown_resource()
    verb = ON_PART.get(method, "")
    if verb not in part.verbs:
        raise wrong_method()
    return Route(verb, kind, part)
