"""The scale subresource: desired and observed replicas in one form for all scalable kinds.

Writes go through verbs.updating on the whole object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver import decoding
from pytest_kscen.embedded.apiserver.decoding import decode, refuse_other_name
from pytest_kscen.embedded.apiserver.kinds import refuse_other_uid
from pytest_kscen.embedded.apiserver.patching import owners_after_scaling, owners_of_scale
from pytest_kscen.embedded.apiserver.verbs.reading import stored_object
from pytest_kscen.embedded.apiserver.verbs.updating import patched_object, write
from pytest_kscen.kube.api import APPLY_PATCH, Answer
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Cause,
    internal,
    invalid,
    not_found,
    quoted,
)
from pytest_kscen.objects.selectors import field_at, selector_text, with_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

# the refusal of every bad body of a custom resource's scale
NOT_A_SCALE = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
UNKNOWN_REPLICAS = -(1 << 31)  # replicas of a custom resource that has no such field
CONTROLLERS = ("", "replicationcontrollers")  # whose selector is a plain map


async def get(core: Core, kind: Kind, request: Request) -> Answer:
    scale = scale_of(kind, kind.to_served(stored_object(core, kind, request)))
    if scale["spec"].get("replicas") == UNKNOWN_REPLICAS:
        path = f".{kind.subresources['scale'].paths[0]}"
        raise internal(f"the spec replicas field {quoted(path)} does not exist")
    return Answer(scale)


async def update(core: Core, kind: Kind, request: Request) -> Answer:
    try:
        given = decode(decoding.scale_kind(), request, request.body, None)
    except BadRequest as refusal:
        if kind.custom:
            raise BadRequest(NOT_A_SCALE) from refusal
        raise
    refuse_other_name(request, given["metadata"])

    def replaced(_old: Obj, _scale: Obj) -> Obj:
        return given

    return await _write_scale(core, kind, request, replaced)


async def patch(core: Core, kind: Kind, request: Request) -> Answer:
    applies = request.patch_type == APPLY_PATCH
    path = kind.subresources["scale"].paths[0]

    def patched(old: Obj, scale: Obj) -> Obj:
        if applies and kind.custom:
            described = f"{request.namespace}/{request.name}; autoscaling/v1, Kind=Scale"
            why = "request to convert CR to an invalid group/version: autoscaling/v1"
            raise ApiError(f"failed to convert new object ({described}) to proper version: {why}")
        if not kind.custom and (owners := owners_of_scale(old, path)):
            scale = {**scale, "metadata": {**scale["metadata"], "managedFields": owners}}
        return patched_object(core, decoding.scale_kind(), request, scale)

    return await _write_scale(core, kind, request, patched)


async def _write_scale(
    core: Core, kind: Kind, request: Request, make_scale: Callable[[Obj, Obj], Obj]
) -> Answer:
    def made(old: Obj | None) -> Obj:
        if old is None:
            raise not_found(kind.resource, request.name)
        before = scale_of(kind, old)
        scale = make_scale(old, before)
        refuse_other_name(request, scale["metadata"])
        refuse_other_uid(kind, request, scale["metadata"], old)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas == UNKNOWN_REPLICAS and before["spec"].get("replicas") == UNKNOWN_REPLICAS:
            path = f".{kind.subresources['scale'].paths[0]}"
            raise BadRequest(f"the spec replicas field {quoted(path)} cannot be empty")
        if replicas < 0 and not kind.custom:
            cause = Cause.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid(decoding.scale_kind().resource, request.name, [cause])
        new = with_value(old, kind.subresources["scale"].paths[0], replicas)
        version = scale["metadata"].get("resourceVersion")
        metadata = {
            **old["metadata"],
            "resourceVersion": version or old["metadata"]["resourceVersion"],
        }
        metadata["managedFields"] = owners_after_scaling(
            kind, request, old, (decoding.scale_kind(), before, scale)
        )
        return {**new, "metadata": metadata}

    answer = await write(core, kind, request, made)
    return Answer(scale_of(kind, answer.body), answer.code)


def scale_of(kind: Kind, obj: Obj) -> Obj:
    wanted, present, selector = kind.subresources["scale"].paths
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = field_at(obj, wanted)
    if replicas is None and kind.custom:
        replicas = UNKNOWN_REPLICAS
    status: Obj = {"replicas": field_at(obj, present) or 0}
    selected = field_at(obj, selector) if selector else None
    if selected and kind.home == CONTROLLERS:
        selected = {"matchLabels": selected}
    if selected:
        status["selector"] = selected if isinstance(selected, str) else selector_text(selected)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in kept if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }
