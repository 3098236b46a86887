"""create: decode, fill in, admit, validate, commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import Answer
from pytest_kscen.machinery.admission import Review
from pytest_kscen.machinery.core import key_of
from pytest_kscen.objects.errors import BadRequest, already_exists, invalid

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj


async def create(core: Core, request: Request) -> Answer:
    kind = core.kind_of(request)
    obj = decode(kind, request, None)
    fill_in(core, kind, request, obj)
    review = Review("CREATE", request, core, obj, None)
    await core.admission.mutate(review)
    if causes := [*kind.schema.validate(obj, None), *kind.rules.validate(obj)]:
        raise invalid(kind.resource, obj["metadata"]["name"], causes)
    await core.admission.validate(review)
    key = key_of(request, obj["metadata"]["name"])
    if core.store.get(key) is not None:
        raise already_exists(kind.resource, key.name)
    if request.options.dry_run:
        return Answer(obj, 201)
    return Answer(core.store.commit(key, obj), 201)


def decode(kind: Kind, request: Request, old: Obj | None) -> Obj:
    """The request's body as a new object of this kind."""
    body, resource = request.body, kind.resource
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be an object of kind {resource.kind}")
    stated = body.get("apiVersion", resource.api_version), body.get("kind", resource.kind)
    if stated != (resource.api_version, resource.kind):
        raise BadRequest(f"{stated[1]} in version {stated[0]!r} cannot be handled as a {resource.kind} in {resource.api_version!r}")
    obj = kind.schema.decode(body, old, strictness=request.options.field_validation, warnings=request.warnings)
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": dict(obj.get("metadata") or {})}
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def fill_in(core: Core, kind: Kind, request: Request, obj: Obj) -> None:
    """What the server alone decides about a new object."""
    metadata = obj["metadata"]
    if kind.resource.namespaced:
        metadata["namespace"] = request.namespace
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + core.chance.stream("names").suffix()
    for left_to_the_server in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(left_to_the_server, None)
    metadata.update(uid=core.uid(), creationTimestamp=core.now(), generation=1)
    if kind.has_status:
        obj.pop("status", None)
    kind.rules.default(obj)
    kind.rules.prepare_create(obj, core)
