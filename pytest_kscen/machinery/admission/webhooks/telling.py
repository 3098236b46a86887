"""AdmissionReview: what a webhook is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.machinery.admission.review import CONNECT, DELETE
from pytest_kscen.machinery.admission.webhooks.verdicts import BETA, GROUP, KIND, V1, CallError
from pytest_kscen.machinery.patching import materialised

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.kube.requests import Options
    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

SUBJECTS = {"system:serviceaccount:": "system:serviceaccounts", "system:node:": "system:nodes"}


def admission_request(review: Review, kind: Kind, uid: str) -> Obj:
    """The `request` of a review, for a webhook that wants this version of the object."""
    request = review.request
    asked, told = request.resource, kind.resource
    obj, old = (kind.shown(each) if each and _is_whole(review) else each for each in (review.new, review.old))
    stated = _kind_of(obj or old or {}, kind.api_version)
    given = _kind_of(review.obj, asked.api_version)
    sub = {"subResource": request.subresource} if request.subresource else {}
    return {
        "uid": uid,
        "kind": stated,
        "resource": {"group": told.group, "version": told.version, "resource": told.plural},
        **sub,
        "requestKind": given,
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
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


def _is_whole(review: Review) -> bool:
    """Whether it is about an object of the request's kind, not one of another kind at a subresource."""
    return str(review.obj.get("kind")) == review.request.resource.kind


def _kind_of(obj: Obj, api_version: str) -> Obj:
    group, _, version = str(obj.get("apiVersion") or api_version).rpartition("/")
    return {"group": group, "version": version, "kind": obj.get("kind", "")}


def user_info(user: str) -> Obj:
    groups = ["system:masters", "system:authenticated"]
    for prefix, group in SUBJECTS.items():
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
        return found | _of_deletion(options)
    if options.field_manager:
        found["fieldManager"] = options.field_manager
    if options.field_validation != "Warn":
        found["fieldValidation"] = options.field_validation
    return found


def _of_deletion(options: Options) -> Obj:
    conditions = {"uid": options.precondition_uid, "resourceVersion": options.precondition_version}
    given = {
        "gracePeriodSeconds": options.grace_period,
        "preconditions": {name: value for name, value in conditions.items() if value} or None,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": options.propagation or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def version_for(listed: Iterable[str]) -> str:
    """The first version that a webhook lists and we know."""
    found = next((version for version in listed if version in {V1, BETA}), "")
    if not found:
        known = f"({V1}, {BETA})"
        raise CallError(f"could not create admission objects: webhook does not accept known AdmissionReview versions {known}")
    return found


def encoded(request: Obj, version: str) -> bytes:
    return orjson.dumps({"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request})
