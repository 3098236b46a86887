"""Decoding of request bodies: objects of served kinds, and the bodies of subresources.

Called by the verbs and subresources. Checks type, namespace and name, but not the content's rules.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Kind
from pytest_kscen.embedded.apiserver.schema.decode_errors import TypeMismatch, Undecodable
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Cause,
    MethodNotAllowed,
    invalid,
    quoted,
)
from pytest_kscen.objects.resources import Resource
from pytest_kscen.objects.selectors import field_at, with_value

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj


NAMESPACE_MISMATCH = (
    "the namespace of the provided object does not match the namespace sent on the request"
)

BAD_TYPE_META = "couldn't get version/kind; json parse error"


def decode(kind: Kind, request: Request, body: Any, old: Obj | None) -> Obj:
    """Return a new object with defaults; it may share parts with the old one, but never its
    metadata.
    """
    return complete(kind, request, decode_body(kind, request, body, old))


def decode_body(kind: Kind, request: Request, body: Any, old: Obj | None) -> Obj:
    """Return the body as an object of the kind, without checking its name and namespace."""
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be an object of kind {kind.resource.kind}")
    is_right = body.get("kind") == kind.resource.kind and body.get("apiVersion") == kind.api_version
    if not is_right and (old is not None or request.verb != "update" or not kind.custom):
        _refuse_other_kind(kind, body)
    known = None if kind.custom and kind.conversion else old  # decoded by another version's schema
    decoded = kind.schema.decode(
        body, known, strictness=request.options.field_validation, warnings=request.warnings
    )
    metadata = {**(decoded.get("metadata") or {})}
    obj = {
        "apiVersion": kind.api_version,
        "kind": kind.resource.kind,
        "metadata": metadata,
        **decoded,
    }
    obj["metadata"] = metadata
    if not is_right:
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.resource.kind
    for path in kind.rules.owned_empty_lists:
        if field_at(body, path) == []:
            obj = with_value(obj, path, [])
    return obj


def complete(kind: Kind, request: Request, obj: Obj) -> Obj:
    """Set the request's namespace and the kind's defaults in an object, and return it.

    The last step of decoding, also for patched objects.
    """
    set_namespace(kind, request, obj["metadata"])
    kind.rules.default(obj)
    return obj


def _refuse_other_kind(kind: Kind, body: Obj) -> None:
    resource = kind.resource
    if mismatch := type_meta_mismatch(body):
        raise Undecodable(kind.resource.kind, kind.resource.version, f"{BAD_TYPE_META}: {mismatch}")
    version, name = body.get("apiVersion") or kind.api_version, body.get("kind") or resource.kind
    if (version, name) == (kind.api_version, resource.kind):
        return
    if kind.custom and version != kind.api_version:
        why = (
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
        raise BadRequest(why)
    if kind.custom:
        cause = Cause.invalid("kind", name, f"must be {resource.kind}")
        raise invalid(
            resource._replace(kind=name), stated_text(body.get("metadata"), "name"), [cause]
        )
    group, _, short = version.rpartition("/")
    why = (
        f'no kind "{name}" is registered for version "{version}" in scheme '
        '"pkg/runtime/scheme.go:111"'
    )
    from pytest_kscen.embedded.apiserver.recorded import definition_of

    if bool(definition_of(group, short, name)):
        package = resource.group.split(".")[0] or "core"
        why = f"converting ({short}.{name}) to ({package}.{resource.kind}): unknown conversion"
    raise BadRequest(f'{name} in version "{short}" cannot be handled as a {resource.kind}: {why}')


def type_meta_mismatch(body: Obj) -> TypeMismatch | None:
    """Return the mismatch of an apiVersion or kind that is not a string, or None."""
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str | None):
            mismatch = TypeMismatch(body[field], "string")
            mismatch.add_step("", field)
            return mismatch
    return None


def stated_text(part: Any, name: str) -> str:
    """Return a field's text, or an empty one if it is missing or of another type."""
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, str) else ""


def set_namespace(kind: Kind, request: Request, metadata: Obj) -> None:
    """Set the request's namespace in an object's metadata; refuse a body that names another one.

    Cluster-scoped objects lose a stated namespace without a refusal, as in Kubernetes.
    """
    if not kind.resource.namespaced:
        metadata.pop("namespace", None)
        return
    if not request.namespace:
        raise MethodNotAllowed(
            "the server does not allow this method on the requested resource", details={}
        )
    if metadata.get("namespace", request.namespace) != request.namespace:
        raise BadRequest(NAMESPACE_MISMATCH)
    metadata["namespace"] = request.namespace


def refuse_other_name(request: Request, metadata: Obj) -> None:
    name = metadata.get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({request.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != request.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )


def stated_version(metadata: Obj) -> int:
    """Return the resourceVersion that a write is based on, or 0 if it states none."""
    text = metadata.get("resourceVersion") or "0"
    if not (text.isascii() and text.isdigit()):
        raise ApiError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    return int(text)


# Kinds of subresources' bodies: decoded like any other, and never stored.


@cache
def _body_kind(group: str, plural: str, name: str) -> Kind:
    from pytest_kscen.embedded.apiserver.schema.builtin import builtin_schema

    resource = Resource(group, "v1", plural, name)
    return Kind(resource, schema=builtin_schema(resource))


def binding_kind() -> Kind:
    return _body_kind("", "bindings", "Binding")


def eviction_kind() -> Kind:
    return _body_kind("policy", "evictions", "Eviction")


def scale_kind() -> Kind:
    return _body_kind("autoscaling", "scales", "Scale")


def token_request_kind() -> Kind:
    return _body_kind("authentication.k8s.io", "tokenrequests", "TokenRequest")
