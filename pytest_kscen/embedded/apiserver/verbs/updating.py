"""The update and patch verbs: make a new object from the stored one, then admit, validate, commit.

Admission may wait, and the object may change meanwhile. Then a write that stated a resourceVersion
is refused, and any other starts again from the present object, as in Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.decoding import (
    complete,
    decode,
    decode_body,
    refuse_other_name,
    stated_version,
    type_meta_mismatch,
)
from pytest_kscen.embedded.apiserver.kinds import refuse_other_uid
from pytest_kscen.embedded.apiserver.metadata import (
    drop_duplicate_owners,
    finalizer_warnings,
    is_unchanged,
    metadata_update_errors,
)
from pytest_kscen.embedded.apiserver.patching import (
    apply_patch,
    check_options,
    patch_refusal,
    same_owners,
    track,
)
from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.embedded.apiserver.verbs.creating import create_object
from pytest_kscen.kube.api import JSON_PATCH, MERGE_PATCH, Answer
from pytest_kscen.objects.errors import BadRequest, Cause, conflict, invalid, not_found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import Key
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

    Maker = Callable[[Obj | None], Obj]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
CREATED_BY_STATUS = {("", "services")}  # without an address, so validation refuses them
IMMUTABLE_TIMES = ("creationTimestamp", "deletionTimestamp")


def update(core: Core, kind: Kind, request: Request) -> Awaitable[Answer]:
    check_options(request)

    def replaced(old: Obj | None) -> Obj:
        new = decode(kind, request, request.body, old)
        if old is not None and request.body.get("metadata") is old["metadata"]:
            return new  # unchanged metadata needs no checks
        refuse_other_name(request, new["metadata"])
        if old is None and (
            kind.home not in CREATED_BY_STATUS
            if request.subresource
            else not kind.rules.create_on_update
        ):
            raise not_found(kind.resource, request.name)
        metadata = new["metadata"]
        refuse_other_uid(kind, request, metadata, old)
        if old is None or metadata.get("resourceVersion") != old["metadata"]["resourceVersion"]:
            stated_version(metadata)
        drop_duplicate_owners(metadata, request.warnings, after_admission=False)
        return new

    return write(core, kind, request, replaced)


def patch(core: Core, kind: Kind, request: Request) -> Awaitable[Answer]:

    def made(old: Obj | None) -> Obj:
        return patched_object(core, kind, request, old)

    return write(core, kind, request, made)


def patched_object(core: Core, kind: Kind, request: Request, old: Obj | None) -> Obj:
    """Return the object that the request's patch makes; applied to None, it creates one."""
    if old is None and request.subresource and kind.home not in CREATED_BY_STATUS:
        raise not_found(kind.resource, request.name)
    body = apply_patch(kind, old, request, core.clock.now())
    try:
        new = decode_body(kind, request, body, old)
    except BadRequest as refusal:
        _, undecodable, why = refusal.message.partition(
            f" cannot be handled as a {kind.resource.kind}: "
        )
        if not undecodable:
            raise
        is_json = request.patch_type in {MERGE_PATCH, JSON_PATCH}
        if mismatch := type_meta_mismatch(body):
            why = why if is_json else mismatch.converter_message()
        elif isinstance(kind.schema, BuiltinSchema):
            why = kind.schema.patch_error(body, is_json=is_json) or why
        raise patch_refusal(request, body, why) from None
    if old is None and (uid := new["metadata"].get("uid")):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object "
            "was found"
        )
        raise conflict(kind.resource, request.name, why)
    new = complete(kind, request, new)
    refuse_other_name(request, new["metadata"])
    return new


async def write(core: Core, kind: Kind, request: Request, make_new: Maker) -> Answer:
    """Replace the stored object by the result of `make_new`, retrying if it changed during
    admission.

    Creates the object through `create_object` if there is none and `make_new` accepts None.
    """
    key, warnings = key_of(kind, request, request.name), len(request.warnings)
    while True:
        del request.warnings[warnings:]
        stored = core.store.get(key)
        if stored is None:
            return await create_object(core, kind, request, make_new(None))
        old = kind.to_served(stored)
        new = make_new(old)
        track(kind, request, new, old, core.clock.now())
        review = core.admission.review("UPDATE", request, core, new, old)
        if review and (waiting := core.admission.mutate(review)):
            await waiting
        _prepare_and_validate(core, kind, request, new, old)
        if review and (waiting := core.admission.validate(review)):
            await waiting
        if core.store.get(key) is stored:
            kept = kind.to_stored(new)
            new = new if kept is new else kind.to_served(kept)
            if request.options.dry_run:
                return Answer(new)
            return Answer(_commit(core, kind, key, new, old, kept=kept, part=request.subresource))


def _prepare_and_validate(core: Core, kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    """Restore what the request may not change, and validate; runs between mutation and
    validation.
    """
    rules, subresource = kind.rules, request.subresource
    drop_duplicate_owners(new["metadata"], request.warnings, after_admission=True)
    if new["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
        new_metadata = new["metadata"]
        old_metadata = old["metadata"]
        if not (stated := stated_version(new_metadata)):
            if not kind.rules.unconditional_update:
                cause = Cause.invalid(
                    "metadata.resourceVersion", 0, "must be specified for an update"
                )
                raise invalid(
                    kind.resource._replace(kind=kind.resource.plural), request.name, [cause]
                )
            new_metadata["resourceVersion"] = old_metadata["resourceVersion"]
        elif stated != int(old_metadata["resourceVersion"]):
            raise conflict(kind.resource, request.name, MODIFIED)
    part = rules.parts.get(subresource)
    if part and part.keeps_metadata:
        part.prepare(new, old, core)
    else:
        _prepare(core, kind, request, new, old)
    metadata, before = new["metadata"], old["metadata"]
    is_as_before = (part and part.keeps_metadata) or is_unchanged(metadata, before)
    causes = [] if is_as_before else [*metadata_update_errors(kind, metadata, before, subresource)]
    causes += kind.schema.validate(new, old, subresource)
    causes += (part.validate if part else rules.validate_update)(new, old)
    if causes:
        raise invalid(kind.resource, request.name, causes)
    if subresource != "status":  # a status has nothing to warn of
        request.warnings += rules.warn(new, old)
    if metadata.get("finalizers") is not before.get("finalizers"):
        request.warnings += finalizer_warnings(kind, new, old)


def _prepare(core: Core, kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    """Restore what this request may not change, and increase the generation."""
    before = old["metadata"]
    rules = kind.rules
    part = rules.parts.get(request.subresource)
    _restore_field(new["metadata"], before, "generation")
    if part:
        part.prepare(new, old, core)
    else:
        if kind.has_status:
            _restore_field(new, old, "status")
        rules.prepare_update(new, old, core)
    metadata = new["metadata"]
    metadata.setdefault("uid", before["uid"])
    for name in IMMUTABLE_TIMES:
        if name in before:
            metadata[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    if rules.generation and request.subresource != "status" and rules.generation(new, old):
        metadata["generation"] = before.get("generation", 0) + 1


def _restore_field(new: Obj, old: Obj, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _commit(core: Core, kind: Kind, key: Key, new: Obj, old: Obj, *, kept: Obj, part: str) -> Obj:
    """Commit the object, or remove or leave it, and return the state to answer with.

    `kept` is its stored form. `part` names the field that most likely changed, which is compared
    first.
    """
    if old["metadata"].get("deletionTimestamp") and _is_released(new, old["metadata"]):
        remove_object(core, kind, key)
    elif equal_json(new.get(part), old.get(part)) and (
        _equal_except("metadata", new, old)
        and _equal_except("managedFields", new["metadata"], old["metadata"])
        and same_owners(new, old)
    ):
        return old
    else:
        core.store.commit(key, kept)
    return new


def remove_object(core: Core, kind: Kind, key: Key) -> Obj:
    last = core.store.remove(key)
    if kind.rules.after_delete:
        kind.rules.after_delete(core)
    return last


def _is_released(new: Obj, before: Obj) -> bool:
    """Return True if this write removed the last obstacle to a pending deletion.

    `before` is the old metadata. The grace period must be over, and a namespace's spec without
    finalizers.
    """
    waits_for_namespace = new["kind"] == "Namespace" and (new.get("spec") or {}).get("finalizers")
    return not (
        new["metadata"].get("finalizers")
        or before.get("deletionGracePeriodSeconds")
        or waits_for_namespace
    )


def _equal_except(name: str, new: Obj, old: Obj) -> bool:
    """Compare two objects without one field; a null counts as a missing field."""
    for each, now in new.items():
        was = old.get(each)
        if now is not was and each != name and not equal_json(now, was):
            return False
    return all(each in new or each == name or was is None for each, was in old.items())


def equal_json(new: Any, old: Any) -> bool:
    """Return True if both values are equal as JSON, where true is not 1."""
    if new is old:
        return True
    if new != old:
        return False
    if isinstance(new, dict):
        return all(equal_json(value, old[name]) for name, value in new.items())
    if isinstance(new, list):
        return all(map(equal_json, new, old))
    return isinstance(new, bool) == isinstance(old, bool)
