"""Errors of the API in Kubernetes' words: the Status object, and the exception that carries it.

Raised by the API server, and made from a server's answers by clients. ApiError has subclasses by
code:

  400 BadRequest, 401 Unauthorized, 403 Forbidden, 404 NotFound, 405 MethodNotAllowed
  406 NotAcceptable, 409 Conflict (and AlreadyExists), 410 Expired, 413 TooLarge
  415 UnsupportedMediaType, 422 Invalid, 429 TooManyRequests
  500 InternalError, 503 ServiceUnavailable, 504 ServerTimeout
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(frozen=True, slots=True)
class Cause:
    """Error of one field. The constructors give message and reason in Kubernetes' words; the values
    that they quote are shown as Go prints them.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    @classmethod
    def invalid(cls, field: str, value: Any, why: str = "") -> Cause:
        return cls(field, _with_value("Invalid value", value, why))

    @classmethod
    def mistyped(cls, field: str, value: Any, why: str) -> Cause:
        return cls(field, _with_value("Invalid value", value, why), "FieldValueTypeInvalid")

    @classmethod
    def required(cls, field: str, why: str = "") -> Cause:
        return cls(
            field, f"Required value: {why}" if why else "Required value", "FieldValueRequired"
        )

    @classmethod
    def forbidden(cls, field: str, why: str) -> Cause:
        return cls(field, f"Forbidden: {why}", "FieldValueForbidden")

    @classmethod
    def unsupported(cls, field: str, value: Any, supported: Iterable[str]) -> Cause:
        listed = ", ".join(map(quoted, supported))
        return cls(
            field,
            _with_value("Unsupported value", value, f"supported values: {listed}"),
            "FieldValueNotSupported",
        )

    @classmethod
    def duplicate(cls, field: str, value: Any) -> Cause:
        return cls(field, _with_value("Duplicate value", value), "FieldValueDuplicate")

    @classmethod
    def not_found(cls, field: str, value: Any) -> Cause:
        return cls(field, _with_value("Not found", value), "FieldValueNotFound")

    @classmethod
    def too_long(cls, field: str, most: int, unit: str = "byte") -> Cause:
        return cls(
            field,
            f"Too long: may not be more than {most} {_plural(unit, most)}",
            "FieldValueTooLong",
        )

    @classmethod
    def too_many(cls, field: str, count: int, most: int) -> Cause:
        return cls(
            field,
            f"Too many: {count}: must have at most {most} {_plural('item', most)}",
            "FieldValueTooMany",
        )


def quoted(text: str) -> str:
    """Quote a text as Go's %q does: printable characters stay, all others are escaped. Kubernetes'
    messages quote values like that.
    """
    if text.isprintable():
        return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
    return '"' + "".join(_escaped(character) for character in text) + '"'


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def _escaped(character: str) -> str:
    if character in _ESCAPES or character.isprintable():
        return _ESCAPES.get(character, character)
    code = ord(character)
    return (
        f"\\x{code:02x}"
        if code < 0x80  # noqa: PLR2004  # ASCII, BMP
        else f"\\u{code:04x}"
        if code < 0x10000  # noqa: PLR2004  # ASCII, BMP
        else f"\\U{code:08x}"
    )


_AS_GO = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_AS_GO)


def _with_value(what: str, value: Any, why: str = "") -> str:
    return f"{what}: {shown(value)}: {why}" if why else f"{what}: {shown(value)}"


def _plural(unit: str, count: int) -> str:
    return unit if count == 1 else f"{unit}s"


class ApiError(Exception):
    """Refusal by the API. `status` is the Status object that a client receives.

    The class itself is a 500 without a reason.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""

    def __init__(
        self, message: str, *, details: Obj | None = None, status: Obj | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status: Obj = status or {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details is not None else {}),
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
_BY_CODE = {kind.code: kind for kind in reversed(_KINDS) if kind is not AlreadyExists}


def error_of(status: Obj) -> ApiError:
    """Return the exception for a server's Status, by its reason, or by its code if the reason is
    unknown. A Status of neither kind becomes a plain ApiError.
    """
    kind = _BY_REASON.get(status.get("reason", "")) or _BY_CODE.get(
        status.get("code", 500), ApiError
    )
    return kind(status.get("message", ""), status=status)


def about(resource: Resource, name: str, **more: Any) -> Obj:
    group = {"group": resource.group} if resource.group else {}
    return {**({"name": name} if name else {}), **group, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f"{resource.qualified} {quoted(name)} not found", details=about(resource, name))


def already_exists(resource: Resource, name: str) -> AlreadyExists:
    return AlreadyExists(
        f"{resource.qualified} {quoted(name)} already exists", details=about(resource, name)
    )


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    message = f"Operation cannot be fulfilled on {resource.qualified} {quoted(name)}: {why}"
    return Conflict(message, details=about(resource, name))


def forbidden(resource: Resource, name: str, why: str) -> Forbidden:
    subject = f"{resource.qualified} {quoted(name)}" if name else resource.qualified
    return Forbidden(f"{subject} is forbidden: {why}", details=about(resource, name))


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> Invalid:
    """Return the error of a validation, with its causes in the order in which they were found.
    Repeated causes are shown once in the message, and kept in the details.
    """
    listed = list(causes)
    words = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in listed))
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {
        **({"name": name} if name else {}),
        **({"group": resource.group} if resource.group else {}),
        **({"kind": resource.kind} if resource.kind else {}),
        "causes": [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in listed
        ],
    }
    return Invalid(f"{qualified} {quoted(name)} is invalid: {text}", details=details)


def internal(why: str) -> InternalError:
    return InternalError(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
