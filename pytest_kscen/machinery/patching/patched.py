"""From a patch request to the object that it asks for: by media type, with what each can get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.machinery.patching.applying import apply
from pytest_kscen.machinery.patching.ledger import materialised
from pytest_kscen.machinery.patching.managers import check_options
from pytest_kscen.machinery.patching.shapes import shape_of
from pytest_kscen.machinery.patching.strategic import strategic_merge_patch
from pytest_kscen.machinery.patching.wording import as_json, json_name, plain
from pytest_kscen.objects.errors import ApiError, BadRequest, Invalid, TooLarge, UnsupportedMediaType, not_found, quoted
from pytest_kscen.objects.patches import PatchError, json_patch, merge_patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

MOST_OPERATIONS = 10_000
REJECTED = "the server rejected our request due to an error in our request"
OWNERLESS = ("/status/", "/spec/")
OPERATION = {"op": str, "path": str, "from": str}


def patched(kind: Kind, old: Obj | None, request: Request, at: float) -> Obj:
    """The body that the patch makes of the old object, which is None if there is none. Shares what the patch leaves alone."""
    _check_media_type(kind, request)
    check_options(request)
    if request.patch_type == APPLY_PATCH:
        return apply(kind, old, request, timestamp_of(at))
    if old is None:
        raise not_found(kind.resource, request.name)
    if request.patch_type == JSON_PATCH:
        return _json_patched(old, request)
    if not isinstance(request.body, dict):
        decoding = "error decoding patch: " if request.patch_type == MERGE_PATCH else ""
        raise BadRequest(
            f"{decoding}json: cannot unmarshal {json_name(request.body)} into Go value of type map[string]interface {{}}"
        )
    if request.patch_type == MERGE_PATCH:
        return cast("Obj", merge_patch(old, request.body))
    return strategic_merge_patch(shape_of(kind), old, request.body)


def _check_media_type(kind: Kind, request: Request) -> None:
    accepted = [JSON_PATCH, MERGE_PATCH, *([] if kind.custom else [STRATEGIC_PATCH]), APPLY_PATCH]
    if request.patch_type not in accepted:
        listed = ", ".join(accepted)
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {listed}")


def _json_patched(old: Obj, request: Request) -> Obj:
    validation = request.options.field_validation
    operations, strangers = (_unchecked(request.body), []) if validation == "Ignore" else _checked(request)
    try:
        new = cast("Obj", json_patch(materialised(old) if _may_look_at_owners(operations) else old, operations))
    except PatchError:
        raise Invalid(REJECTED, details={}) from None
    if strangers and validation == "Strict":
        raise misfit(request, new, f"strict decoding error: {', '.join(strangers)}")
    request.warnings.extend(strangers)
    return new


def _may_look_at_owners(operations: Sequence[Obj]) -> bool:
    """To work them out takes time, and most patches are of a status."""
    places = (place for one in operations for place in (one.get("path"), one.get("from", OWNERLESS[0])))
    return not all(str(place).startswith(OWNERLESS) for place in places)


def _unchecked(body: Any) -> Sequence[Obj]:
    """The operations of who wants no validation: what makes no sense in them is found when they are done."""
    if not isinstance(body, list):
        raise BadRequest(f"json: cannot unmarshal {json_name(body)} into Go value of type jsonpatch.Patch")
    for operation in body:
        if not isinstance(operation, dict):
            raise BadRequest(f"json: cannot unmarshal {json_name(operation)} into Go value of type jsonpatch.Operation")
        if any(not isinstance(operation[name], str | None) for name in OPERATION if name in operation):
            raise Invalid(REJECTED, details={})
    return body


def _checked(request: Request) -> tuple[Sequence[Obj], list[str]]:
    """The operations, and the names in them that nobody knows."""
    body = request.body
    if not isinstance(body, list):
        raise _undecoded(body, "value of type []handlers.jsonPatchOp")
    strangers = []
    for place, operation in enumerate(body):
        if not isinstance(operation, dict):
            raise _undecoded(operation, "value of type handlers.jsonPatchOp")
        for name, value in operation.items():
            if name in OPERATION and value is not None and not isinstance(value, str):
                raise _undecoded(value, f"struct field jsonPatchOp.{name} of type string")
        strangers += [f'json patch unknown field "[{place}].{name}"' for name in operation if name not in {*OPERATION, "value"}]
    if len(body) > MOST_OPERATIONS:
        said = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(body)}"
        raise TooLarge(f"Request entity too large: {said}")
    return body, strangers


def _undecoded(value: Any, target: str) -> BadRequest:
    return BadRequest(f"error decoding patch: json: cannot unmarshal {json_name(value)} into Go {target}")


def misfit(request: Request, body: Obj, why: str) -> ApiError:
    """The refusal of a patch whose outcome is no object of its kind; `why` is the decoder's own word, or the converter's."""
    if request.patch_type == APPLY_PATCH:
        version = body["apiVersion"] if "/" in body["apiVersion"] else f"/{body['apiVersion']}"
        gvk, metadata = f"{version}, Kind={body['kind']}", request.body.get("metadata") or {}
        whose = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {gvk}"
        said = f"failed to convert new object ({whose}) to proper version: unable to convert unstructured object to {gvk}: "
        return ApiError(said + why)
    is_strategic = request.patch_type == STRATEGIC_PATCH
    shown = plain(request.body) if is_strategic else as_json(dict(sorted(materialised(body).items())))
    message = f"Invalid value: {quoted(shown)}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return Invalid(f' "" is invalid: patch: {message}', details={"causes": [cause]})
