"""From a method and an address to a verb on a kind, or to the refusal that Kubernetes gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import MethodNotAllowed, NotFound, not_found

if TYPE_CHECKING:
    from pytest_kscen.machinery.kinds import Kind, Kinds, Subresource
    from pytest_kscen.machinery.wire.addresses import Address

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
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


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
