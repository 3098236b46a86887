"""AdmissionReview: builds the request for a webhook and parses its response.

Pure conversion with Kubernetes' error messages; the call is made by dispatch.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from pytest_kscen.embedded.apiserver.admission.chain import CONNECT, DELETE
from pytest_kscen.embedded.apiserver.patching import materialised
from pytest_kscen.objects.errors import ApiError, error_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Options
    from pytest_kscen.objects.resources import Obj


GROUP, V1, BETA = "admission.k8s.io", "v1", "v1beta1"
KIND = "AdmissionReview"
LOWEST_ERROR_CODE = 400


class CallError(Exception):
    """Webhook that could not be called, or whose answer is invalid; the text is the reason."""


class ReviewCall(NamedTuple):
    """Identity of a call, against which the webhook's response is checked."""

    webhook: str
    uid: str
    version: str
    mutating: bool


@dataclass(slots=True)
class WebhookVerdict:
    """Decision of a webhook: a refusal, or the operations of a patch, and warnings.

    Warnings are passed to the client in either case.
    """

    refusal: ApiError | None = None
    patch: list[Obj] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def parse_response(answer: Obj, question: ReviewCall) -> WebhookVerdict:
    """Return the verdict in a response; raises CallError if the response is invalid.

    Responses of version v1beta1 are checked less strictly, as in Kubernetes.
    """
    version, kind = answer.get("apiVersion"), answer.get("kind")
    known = version in {f"{GROUP}/{V1}", f"{GROUP}/{BETA}"} and kind == KIND
    if version and not known:
        scheme = "pkg/runtime/scheme.go:111"
        raise CallError(
            f'failed to call webhook: no kind "{kind or ""}" is registered for version '
            f'"{version}" in scheme "{scheme}"'
        )
    response = answer.get("response")
    if response is None:
        raise _invalid_response("webhook response was absent")
    _check_types(response)
    patch, patch_type = _decode_patch(response.get("patch") or ""), response.get("patchType")
    if question.version == V1:
        uid = response.get("uid", "")
        if uid != question.uid:
            raise _invalid_response(
                f"expected response.uid={quoted(question.uid)}, got {quoted(uid)}"
            )
        stated = answer.get("apiVersion", ""), answer.get("kind", "")
        if stated != (f"{GROUP}/{V1}", KIND):
            wanted = f"{GROUP}/{V1}, Kind={KIND}"
            raise _invalid_response(
                f"expected webhook response of {wanted}, got {stated[0] or '/'}, Kind={stated[1]}"
            )
        _check_patch(patch, patch_type, mutating=question.mutating)
    verdict = WebhookVerdict(warnings=list(response.get("warnings") or ()))
    if not response.get("allowed"):
        webhook = question.webhook
        status = response.get("status") or {}
        denied = f"admission webhook {quoted(webhook)} denied the request"
        reason = status.get("message") or status.get("reason")
        code = status.get("code") or 0
        verdict.refusal = error_of(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": f"{denied}: {reason}" if reason else f"{denied} without explanation",
                **{name: status[name] for name in ("reason", "details") if status.get(name)},
                "code": max(code, LOWEST_ERROR_CODE),
            }
        )
    elif patch and question.mutating:
        verdict.patch = _parse_operations(patch)
        if verdict.patch and patch_type != "JSONPatch" and question.version == V1:
            raise CallError(f"unsupported patch type {quoted(patch_type)}")
    return verdict


def _invalid_response(why: str) -> CallError:
    return CallError(f"received invalid webhook response: {why}")


TYPES = {
    "allowed": bool,
    "uid": str,
    "patch": str,
    "patchType": str,
    "status": dict,
    "warnings": list,
}
GO_TYPES = {
    "allowed": "bool",
    "uid": "types.UID",
    "patch": "[]uint8",
    "patchType": "v1.PatchType",
    "warnings": "[]string",
}
JSON_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}


def _check_types(response: Any) -> None:
    if not isinstance(response, dict):
        found = JSON_NAMES.get(type(response), "null")
        target = "Go struct field AdmissionReview.response of type v1.AdmissionResponse"
        raise CallError(f"failed to call webhook: json: cannot unmarshal {found} into {target}")
    for name, wanted in TYPES.items():
        value = response.get(name)
        if value is not None and not isinstance(value, wanted):
            target = (
                f"Go struct field AdmissionResponse.response.{name} of type "
                f"{GO_TYPES.get(name, 'v1.Status')}"
            )
            raise CallError(
                "failed to call webhook: json: cannot unmarshal "
                f"{JSON_NAMES[type(value)]} into {target}"
            )


def _decode_patch(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except binascii.Error:
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
        place = next(
            (place for place, character in enumerate(patch) if character not in alphabet),
            len(patch),
        )
        raise CallError(
            f"failed to call webhook: illegal base64 data at input byte {place}"
        ) from None


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating and patch:
        raise _invalid_response("validating webhook may not return response.patch")
    if not mutating and patch_type is not None:
        raise _invalid_response("validating webhook may not return response.patchType")
    if patch and patch_type is None:
        raise _invalid_response("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise _invalid_response("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise _invalid_response('webhook returned invalid response.patchType of ""')


def _parse_operations(patch: bytes) -> list[Obj]:
    try:
        operations = orjson.loads(patch)
    except orjson.JSONDecodeError as error:
        raise CallError(f"received undecodable patch in webhook response: {error.msg}") from None
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        invalid_items = (
            operations
            if not isinstance(operations, list)
            else next(each for each in operations if not isinstance(each, dict))
        )
        found, target = (
            JSON_NAMES.get(type(invalid_items), "null"),
            "Patch" if invalid_items is operations else "Operation",
        )
        why = f"json: cannot unmarshal {found} into Go value of type jsonpatch.{target}"
        raise CallError(f"received undecodable patch in webhook response: {why}")
    return operations


GROUPS_BY_PREFIX = {
    "system:serviceaccount:": "system:serviceaccounts",
    "system:node:": "system:nodes",
}


def admission_request(review: Review, kind: Kind, uid: str) -> Obj:
    """Return the `request` of an AdmissionReview, with the object in the given version.

    `uid` identifies the call and must come back in the response.
    """
    request = review.request
    requested, sent = request.resource, kind.resource
    # False for the body of a subresource, which has a kind of its own.
    is_whole = str(review.obj.get("kind")) == request.resource.kind
    obj, old = (
        kind.to_served(each) if each and is_whole else each for each in (review.new, review.old)
    )
    stated = _kind_of(obj or old or {}, kind.api_version)
    given = _kind_of(review.obj, requested.api_version)
    sub = {"subResource": request.subresource} if request.subresource else {}
    return {
        "uid": uid,
        "kind": stated,
        "resource": {"group": sent.group, "version": sent.version, "resource": sent.plural},
        **sub,
        "requestKind": given,
        "requestResource": {
            "group": requested.group,
            "version": requested.version,
            "resource": requested.plural,
        },
        **({"requestSubResource": request.subresource} if sub else {}),
        **({"name": review.name} if review.name else {}),
        **({"namespace": review.namespace} if review.namespace else {}),
        "operation": review.operation,
        "userInfo": user_info(request.user),
        "object": materialised(obj) if obj else None,
        "oldObject": materialised(old) if old else None,
        "dryRun": request.options.dry_run,
        "options": _options(review.operation, request.options),
    }


def _kind_of(obj: Obj, api_version: str) -> Obj:
    group, _, version = str(obj.get("apiVersion") or api_version).rpartition("/")
    return {"group": group, "version": version, "kind": obj.get("kind", "")}


def user_info(user: str) -> Obj:
    groups = ["system:masters", "system:authenticated"]
    for prefix, group in GROUPS_BY_PREFIX.items():
        if user.startswith(prefix):
            namespace = user.removeprefix(prefix).partition(":")[0]
            own = [group, f"{group}:{namespace}"] if "account" in prefix else [group]
            groups = [*own, "system:authenticated"]
    return {"username": user, "groups": groups}


def _options(operation: str, options: Options) -> Obj | None:
    if operation == CONNECT:
        return None
    found: Obj = {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        found["dryRun"] = ["All"]
    if operation == DELETE:
        conditions = {
            "uid": options.precondition_uid,
            "resourceVersion": options.precondition_version,
        }
        given = {
            "gracePeriodSeconds": options.grace_period,
            "preconditions": {name: value for name, value in conditions.items() if value} or None,
            "orphanDependents": options.orphan_dependents,
            "propagationPolicy": options.propagation or None,
        }
        return found | {name: value for name, value in given.items() if value is not None}
    if options.field_manager:
        found["fieldManager"] = options.field_manager
    if options.field_validation != "Warn":
        found["fieldValidation"] = options.field_validation
    return found


def version_for(listed: Iterable[str]) -> str:
    """Return the first AdmissionReview version that the webhook lists and the server supports."""
    found = next((version for version in listed if version in {V1, BETA}), "")
    if not found:
        known = f"({V1}, {BETA})"
        raise CallError(
            "could not create admission objects: webhook does not accept known "
            f"AdmissionReview versions {known}"
        )
    return found


def encode_review(request: Obj, version: str) -> bytes:
    return orjson.dumps({"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request})
