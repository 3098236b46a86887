"""token: a service account's token. It has a token's form and claims; nobody checks its signature."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.bodies import decode
from pytest_kscen.machinery.reading import current
from pytest_kscen.machinery.subresources import kinds
from pytest_kscen.objects.errors import BadRequest, Cause, invalid, not_found
from pytest_kscen.objects.resources import NODES, PODS, SECRETS, Obj

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind

ISSUER = "https://kubernetes.default.svc"
SHORTEST, LONGEST, USUAL = 600, 2**32, 3600
BINDABLE = {("v1", "Pod"): PODS, ("v1", "Secret"): SECRETS, ("v1", "Node"): NODES}


async def issue(core: Core, kind: Kind, request: Request) -> Answer:
    asked = decode(kinds.token_request(), request, request.body, None)
    account = current(core, kind, request)["metadata"]
    spec = {"audiences": [ISSUER], "expirationSeconds": USUAL, "boundObjectRef": None, **_given(asked)}
    _refuse_odd_life(spec["expirationSeconds"])
    if asked["metadata"].get("name", request.name) != request.name:
        cause = Cause.invalid("metadata.name", asked["metadata"]["name"], "must match the service account name if specified")
        raise invalid(kinds.token_request().resource, request.name, [cause])
    _refuse_strange_object(core, request, spec["boundObjectRef"])
    now, end = core.clock.now(), core.clock.now() + spec["expirationSeconds"]
    claims = {
        "aud": spec["audiences"],
        "exp": int(end),
        "iat": int(now),
        "iss": ISSUER,
        "jti": core.chance.stream("tokens").uid(),
        "sub": f"system:serviceaccount:{request.namespace}:{request.name}",
    }
    metadata = {name: account[name] for name in ("name", "namespace", "uid")}
    body = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**metadata, "creationTimestamp": timestamp_of(now)},
        "spec": spec,
        "status": {"token": _signed(claims), "expirationTimestamp": timestamp_of(end)},
    }
    return Answer(body, 201)


def _given(asked: Obj) -> Obj:
    return {name: value for name, value in (asked.get("spec") or {}).items() if value}


def _refuse_odd_life(seconds: int) -> None:
    limits = ((seconds < SHORTEST, "less than 10 minutes"), (seconds > LONGEST, "larger than 2^32 seconds"))
    if causes := [Cause.invalid("spec.expirationSeconds", seconds, f"may not specify a duration {w}") for odd, w in limits if odd]:
        raise invalid(kinds.token_request().resource, "", causes)


def _refuse_strange_object(core: Core, request: Request, reference: Obj | None) -> None:
    """A token may be bound to an object; then that has to be there."""
    if not reference:
        return
    version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
    resource = BINDABLE.get((version, kind))
    if resource is None:
        raise BadRequest(f"cannot bind token to object of type /{version}, Kind={kind}")
    namespace = request.namespace if resource.namespaced else ""
    if core.store.get((resource.group, resource.plural, namespace, reference.get("name", ""))) is None:
        raise not_found(resource, reference.get("name", ""))


def _signed(claims: dict[str, Any]) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "kid": "kscen"}, claims)]
    parts.append(f"kscen:{claims['jti']}".encode())
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
