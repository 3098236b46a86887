"""Questions that are answered and never kept: who somebody is, what they may do, and how the control plane feels.

Whoever got in may do everything here, as a member of system:masters may anywhere.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.bodies import decode
from pytest_kscen.machinery.subresources.tokens import ISSUER
from pytest_kscen.objects.errors import BadRequest, Cause, NotFound, invalid, quoted
from pytest_kscen.objects.resources import Obj, Resource

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind

EVERYBODYS = ("system:masters", "system:authenticated")
DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"
COMPONENTS = ("scheduler", "controller-manager", "etcd-0")
EVERYTHING: Obj = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def who_am_i(core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    user = {"username": request.user, "uid": request.user, "groups": list(EVERYBODYS)}
    metadata = {**review["metadata"], "creationTimestamp": core.now()}
    return Answer({**review, "metadata": metadata, "status": {"userInfo": user}}, 201)


async def whose_token(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    token = (review.get("spec") or {}).get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    status: Obj = {"user": {}, "error": "invalid bearer token"}
    if subject := _subject(token):
        groups = ["system:serviceaccounts", "system:authenticated"]
        status = {"authenticated": True, "user": {"username": subject, "groups": groups}, "audiences": [ISSUER]}
    return Answer({**review, "status": status}, 201)


def _subject(token: str) -> str:
    """Whom a service account's token stands for."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return str(claims["sub"]) if claims["iss"] == ISSUER else ""
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return ""


async def may(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    if causes := _wrong(review, is_about_others=not kind.resource.plural.startswith("self")):
        raise invalid(Resource(kind.resource.group, "v1", "", ""), "", causes)
    return Answer({**review, "status": {"allowed": True}}, 201)


def _wrong(review: Obj, *, is_about_others: bool) -> list[Cause]:
    spec, causes = review.get("spec") or {}, []
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(Cause.invalid("spec.resourceAttributes", None, why))
    if is_about_others and not spec.get("user") and not spec.get("groups"):
        causes.append(Cause.invalid("spec.user", "", "at least one of user or group must be specified"))
    if namespace := review["metadata"].get("namespace"):
        given = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if given != namespace:
            causes.append(Cause.invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace"))
    return causes


async def rules(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    if not (review.get("spec") or {}).get("namespace"):
        raise BadRequest("no namespace on request")
    return Answer({**review, "spec": {}, "status": EVERYTHING}, 201)


async def components(_core: Core, kind: Kind, request: Request) -> Answer:
    request.warnings.append(DEPRECATED)
    resource = kind.resource
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}}
    return Answer({**head, "items": [_healthy(resource, name) for name in COMPONENTS]})


async def component(_core: Core, kind: Kind, request: Request) -> Answer:
    request.warnings.append(DEPRECATED)
    resource = kind.resource
    if request.name not in COMPONENTS:
        details = {"name": request.name, "kind": "componentstatus"}
        raise NotFound(f"componentstatus {quoted(request.name)} not found", details=details)
    return Answer(_healthy(resource, request.name))


def _healthy(resource: Resource, name: str) -> Obj:
    conditions = [{"type": "Healthy", "status": "True", "message": "ok"}]
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": name}, "conditions": conditions}
