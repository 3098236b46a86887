"""Refusals as Kubernetes words them: a Status object, and the exception that carries it.

ApiError
├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, MethodNotAllowed 405, NotAcceptable 406
├── Conflict 409 ── AlreadyExists
├── Expired 410, TooLarge 413, UnsupportedMediaType 415, Invalid 422, TooManyRequests 429
└── InternalError 500, ServiceUnavailable 503, ServerTimeout 504
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiError(Exception):
    """The API has refused. `status` is the Status object that a client on the wire would read."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: Obj | None = None, status: Obj | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status: Obj = status or {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class AlreadyExists(Conflict):
    reason = "AlreadyExists"


class Expired(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


_KINDS: list[type[ApiError]] = [*ApiError.__subclasses__(), AlreadyExists]
_BY_REASON = {kind.reason: kind for kind in _KINDS}
_BY_CODE = {kind.code: kind for kind in reversed(_KINDS)}


def error_of(status: Obj) -> ApiError:
    """The exception for a Status object that came from a server."""
    kind = _BY_REASON.get(status.get("reason", "")) or _BY_CODE.get(status.get("code", 500), ApiError)
    return kind(status.get("message", ""), status=status)


def about(resource: Resource, name: str, **more: Any) -> Obj:
    """A Status' details."""
    group = {"group": resource.group} if resource.group else {}
    return {**({"name": name} if name else {}), **group, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', details=about(resource, name))


def already_exists(resource: Resource, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource.qualified} "{name}" already exists', details=about(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Conflict(message, details=about(resource, name))


def forbidden(resource: Resource, name: str, why: str) -> Forbidden:
    return Forbidden(f'{resource.qualified} "{name}" is forbidden: {why}', details=about(resource, name))


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> Invalid:
    """Validation's answer: every cause, in the order in which it was found."""
    listed = list(causes)
    words = [f"{cause.field}: {cause.message}" for cause in listed]
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {
        **({"name": name} if name else {}),
        **({"group": resource.group} if resource.group else {}),
        "kind": resource.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in listed],
    }
    return Invalid(f'{qualified} "{name}" is invalid: {text}', details=details)
