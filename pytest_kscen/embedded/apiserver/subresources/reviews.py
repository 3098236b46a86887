"""Service account tokens, token reviews, access reviews and component statuses; nothing is stored.

Every access is allowed: there is no authorizer.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver import decoding
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.verbs.reading import stored_object
from pytest_kscen.kube.api import Answer
from pytest_kscen.objects.errors import BadRequest, Cause, NotFound, invalid, not_found, quoted
from pytest_kscen.objects.resources import NODES, PODS, SECRETS, Obj, Resource

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request


# Service account tokens have a token's form and claims, but no valid signature.


ISSUER = "https://kubernetes.default.svc"
MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 2**32, 3600
BINDABLE = {("v1", "Pod"): PODS, ("v1", "Secret"): SECRETS, ("v1", "Node"): NODES}


async def issue_token(core: Core, kind: Kind, request: Request) -> Answer:
    requested = decode(decoding.token_request_kind(), request, request.body, None)
    account = stored_object(core, kind, request)["metadata"]
    spec = {
        "audiences": [ISSUER],
        "expirationSeconds": DEFAULT_SECONDS,
        "boundObjectRef": None,
        **{name: value for name, value in (requested.get("spec") or {}).items() if value},
    }
    seconds = spec["expirationSeconds"]
    limits = (
        (seconds < MIN_SECONDS, "less than 10 minutes"),
        (seconds > MAX_SECONDS, "larger than 2^32 seconds"),
    )
    if causes := [
        Cause.invalid("spec.expirationSeconds", seconds, f"may not specify a duration {reason}")
        for violated, reason in limits
        if violated
    ]:
        raise invalid(decoding.token_request_kind().resource, "", causes)
    if requested["metadata"].get("name", request.name) != request.name:
        cause = Cause.invalid(
            "metadata.name",
            requested["metadata"]["name"],
            "must match the service account name if specified",
        )
        raise invalid(decoding.token_request_kind().resource, request.name, [cause])
    _check_bound_object(core, request, spec["boundObjectRef"])
    now, end = core.clock.now(), core.clock.now() + spec["expirationSeconds"]
    claims = {
        "aud": spec["audiences"],
        "exp": int(end),
        "iat": int(now),
        "iss": ISSUER,
        "jti": core.chance.stream("tokens").uid(),
        "sub": f"system:serviceaccount:{request.namespace}:{request.name}",
    }
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "kid": "kscen"}, claims)]
    parts.append(f"kscen:{claims['jti']}".encode())
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    metadata = {name: account[name] for name in ("name", "namespace", "uid")}
    body = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**metadata, "creationTimestamp": timestamp_of(now)},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": timestamp_of(end)},
    }
    return Answer(body, 201)


def _check_bound_object(core: Core, request: Request, reference: Obj | None) -> None:
    """Refuse a bound object of an unsupported kind or one that does not exist."""
    if not reference:
        return
    version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
    resource = BINDABLE.get((version, kind))
    if resource is None:
        raise BadRequest(f"cannot bind token to object of type /{version}, Kind={kind}")
    namespace = request.namespace if resource.namespaced else ""
    if (
        core.store.get((resource.group, resource.plural, namespace, reference.get("name", "")))
        is None
    ):
        raise not_found(resource, reference.get("name", ""))


DEFAULT_GROUPS = ("system:masters", "system:authenticated")
DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"
COMPONENTS = ("scheduler", "controller-manager", "etcd-0")
ALL_RULES: Obj = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def review_self(core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    user = {"username": request.user, "uid": request.user, "groups": list(DEFAULT_GROUPS)}
    metadata = {**review["metadata"], "creationTimestamp": core.now()}
    return Answer({**review, "metadata": metadata, "status": {"userInfo": user}}, 201)


async def review_token(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    token = (review.get("spec") or {}).get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    status: Obj = {"user": {}, "error": "invalid bearer token"}
    if subject := _subject(token):
        groups = ["system:serviceaccounts", "system:authenticated"]
        status = {
            "authenticated": True,
            "user": {"username": subject, "groups": groups},
            "audiences": [ISSUER],
        }
    return Answer({**review, "status": status}, 201)


def _subject(token: str) -> str:
    """Return the user of a service account's token, or an empty string."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return str(claims["sub"]) if claims["iss"] == ISSUER else ""
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return ""


async def review_access(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    is_about_others = not kind.resource.plural.startswith("self")
    spec, causes = review.get("spec") or {}, []
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(Cause.invalid("spec.resourceAttributes", None, why))
    if is_about_others and not spec.get("user") and not spec.get("groups"):
        causes.append(
            Cause.invalid("spec.user", "", "at least one of user or group must be specified")
        )
    if namespace := review["metadata"].get("namespace"):
        given = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if given != namespace:
            causes.append(
                Cause.invalid(
                    "spec.resourceAttributes.namespace", given, "must match metadata.namespace"
                )
            )
    if causes:
        raise invalid(Resource(kind.resource.group, "v1", "", ""), "", causes)
    return Answer({**review, "status": {"allowed": True}}, 201)


async def review_rules(_core: Core, kind: Kind, request: Request) -> Answer:
    review = decode(kind, request, request.body, None)
    if not (review.get("spec") or {}).get("namespace"):
        raise BadRequest("no namespace on request")
    return Answer({**review, "spec": {}, "status": ALL_RULES}, 201)


async def list_component_statuses(_core: Core, kind: Kind, request: Request) -> Answer:
    request.warnings.append(DEPRECATED)
    resource = kind.resource
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}}
    return Answer({**head, "items": [_component_status(resource, name) for name in COMPONENTS]})


async def get_component_status(_core: Core, kind: Kind, request: Request) -> Answer:
    request.warnings.append(DEPRECATED)
    resource = kind.resource
    if request.name not in COMPONENTS:
        details = {"name": request.name, "kind": "componentstatus"}
        raise NotFound(f"componentstatus {quoted(request.name)} not found", details=details)
    return Answer(_component_status(resource, request.name))


def _component_status(resource: Resource, name: str) -> Obj:
    conditions = [{"type": "Healthy", "status": "True", "message": "ok"}]
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"name": name},
        "conditions": conditions,
    }
