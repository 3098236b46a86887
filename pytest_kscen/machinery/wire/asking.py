"""From the parts of an HTTP request to a `kube.requests.Request`: each verb reads other things of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, HttpCall, Request
from pytest_kscen.machinery.subresources.scale import NO_SCALE
from pytest_kscen.machinery.wire import bodies, queries
from pytest_kscen.machinery.wire.bodies import UnreadablePatch
from pytest_kscen.machinery.wire.media import body_type
from pytest_kscen.objects.errors import BadRequest, UnsupportedMediaType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.machinery.wire.addresses import Address
    from pytest_kscen.machinery.wire.queries import Query
    from pytest_kscen.machinery.wire.routing import Route

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
        request.body = HttpCall(METHODS[request.verb], asked.target, tuple(asked.headers.items()), asked.body)
        return
    options = queries.get_options(asked.query)
    upgrade = tuple((name, asked.headers[name]) for name in ("upgrade",) if name in asked.headers)
    request.options = replace(options, extra=(*options.extra, *upgrade))


def _read_list(asked: Asked, request: Request) -> None:
    """An old-style watch names its one object in the path."""
    request.options = queries.list_options(asked.query, watch=request.verb == "watch", name=request.name)
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
        bodies.check_custom(request.body, asked.body, asked.kind, asked.route.kind.api_version, leniently=leniently)
    _tell(doubles, asked, request)


def _read_patch(asked: Asked, request: Request) -> None:
    bodies.check_size(asked.body)
    request.patch_type = asked.headers.get("content-type", "").partition(";")[0].strip()
    if asked.route.kind.custom and request.patch_type not in CUSTOM_PATCH_TYPES:
        listed = ", ".join(CUSTOM_PATCH_TYPES)
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {listed}")
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
    request.options = queries.with_selection(options, asked.query) if request.verb == "deletecollection" else options


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
