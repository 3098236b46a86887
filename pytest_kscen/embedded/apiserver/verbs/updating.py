"""update and patch: both make a new object from the one that is there, and one path judges and
commits it.

Admission may wait, and the object may change meanwhile: then a write that stated a resourceVersion
is refused, and any other begins again from what is there now, as Kubernetes does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.decoding import (
    decode,
    misnamed,
    refuse_other_name,
    settled,
    stated_version,
    typed,
)
from pytest_kscen.embedded.apiserver.kinds import refuse_other_uid
from pytest_kscen.embedded.apiserver.metadata import (
    doubtful_finalizers,
    is_untouched,
    without_repetition,
    wrong_in_update,
)
from pytest_kscen.embedded.apiserver.patching import (
    check_options,
    misfit,
    patched,
    same_owners,
    track,
)
from pytest_kscen.embedded.apiserver.schema.builtin import BuiltinSchema
from pytest_kscen.embedded.apiserver.verbs.creating import make
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

STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
BORN_BY_STATUS = {("", "services")}  # without an address, so that they are judged and refused
STAYS = ("creationTimestamp", "deletionTimestamp")


def update(core: Core, kind: Kind, request: Request) -> Awaitable[Answer]:
    check_options(request)

    def replaced(old: Obj | None) -> Obj:
        new = decode(kind, request, request.body, old)
        if old is not None and request.body.get("metadata") is old["metadata"]:
            return new  # who sends the metadata that is there says nothing wrong in it
        refuse_other_name(request, new["metadata"])
        if old is None and (
            kind.home not in BORN_BY_STATUS
            if request.subresource
            else not kind.rules.create_on_update
        ):
            raise not_found(kind.resource, request.name)
        metadata = new["metadata"]
        refuse_other_uid(kind, request, metadata, old)
        if old is None or metadata.get("resourceVersion") != old["metadata"]["resourceVersion"]:
            stated_version(metadata)
        without_repetition(metadata, request.warnings, after_admission=False)
        return new

    return write(core, kind, request, replaced)


def patch(core: Core, kind: Kind, request: Request) -> Awaitable[Answer]:

    def made(old: Obj | None) -> Obj:
        return patched_with(core, kind, request, old)

    return write(core, kind, request, made)


def patched_with(core: Core, kind: Kind, request: Request, old: Obj | None) -> Obj:
    """What the request's patch makes of an object; applied to none, it brings one into being."""
    if old is None and request.subresource and kind.home not in BORN_BY_STATUS:
        raise not_found(kind.resource, request.name)
    body = patched(kind, old, request, core.clock.now())
    try:
        new = typed(kind, request, body, old)
    except BadRequest as refusal:
        _, undecodable, why = refusal.message.partition(
            f" cannot be handled as a {kind.resource.kind}: "
        )
        if not undecodable:
            raise
        is_json = request.patch_type in {MERGE_PATCH, JSON_PATCH}
        if nameless := misnamed(body):
            why = why if is_json else nameless.converted()
        elif isinstance(kind.schema, BuiltinSchema):
            why = kind.schema.why_unfit(body, is_json=is_json) or why
        raise misfit(request, body, why) from None
    if old is None and (uid := new["metadata"].get("uid")):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object "
            "was found"
        )
        raise conflict(kind.resource, request.name, why)
    new = settled(kind, request, new)
    refuse_other_name(request, new["metadata"])
    return new


async def write(core: Core, kind: Kind, request: Request, make_new: Maker) -> Answer:
    """Put what `make_new` makes of the object that is there in its stead."""
    key, warnings = key_of(kind, request, request.name), len(request.warnings)
    while True:
        del request.warnings[warnings:]
        stored = core.store.get(key)
        if stored is None:
            return await make(core, kind, request, make_new(None))
        old = kind.shown(stored)
        new = make_new(old)
        track(kind, request, new, old, core.clock.now())
        review = core.admission.review("UPDATE", request, core, new, old)
        if review and (waiting := core.admission.mutate(review)):
            await waiting
        _judge(core, kind, request, new, old)
        if review and (waiting := core.admission.validate(review)):
            await waiting
        if core.store.get(key) is stored:
            kept = kind.kept(new)
            new = new if kept is new else kind.shown(kept)
            if request.options.dry_run:
                return Answer(new)
            return Answer(_commit(core, kind, key, new, old, kept=kept, part=request.subresource))


def _judge(core: Core, kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    """Everything that the server has to say between those who change the object and those who
    only judge it.
    """
    rules, subresource = kind.rules, request.subresource
    without_repetition(new["metadata"], request.warnings, after_admission=True)
    if new["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
        _refuse_stale(kind, request, new["metadata"], old["metadata"])
    part = rules.parts.get(subresource)
    if part and part.keeps_metadata:
        part.prepare(new, old, core)
    else:
        _prepare(core, kind, request, new, old)
    metadata, before = new["metadata"], old["metadata"]
    is_as_before = (part and part.keeps_metadata) or is_untouched(metadata, before)
    causes = [] if is_as_before else [*wrong_in_update(kind, metadata, before, subresource)]
    causes += kind.schema.validate(new, old, subresource)
    causes += (part.validate if part else rules.validate_update)(new, old)
    if causes:
        raise invalid(kind.resource, request.name, causes)
    if subresource != "status":  # nothing that one could be warned of is written there
        request.warnings += rules.warn(new, old)
    if metadata.get("finalizers") is not before.get("finalizers"):
        request.warnings += doubtful_finalizers(kind, new, old)


def _refuse_stale(kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    if not (stated := stated_version(new)):
        if not kind.rules.unconditional_update:
            cause = Cause.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(kind.resource._replace(kind=kind.resource.plural), request.name, [cause])
        new["resourceVersion"] = old["resourceVersion"]
    elif stated != int(old["resourceVersion"]):
        raise conflict(kind.resource, request.name, STALE)


def _prepare(core: Core, kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    """Put back what this request may not change, and count the generation."""
    before = old["metadata"]
    rules = kind.rules
    part = rules.parts.get(request.subresource)
    _carry(new["metadata"], before, "generation")
    if part:
        part.prepare(new, old, core)
    else:
        if kind.has_status:
            _carry(new, old, "status")
        rules.prepare_update(new, old, core)
    metadata = new["metadata"]
    metadata.setdefault("uid", before["uid"])
    for name in STAYS:
        if name in before:
            metadata[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    if rules.generation and request.subresource != "status" and rules.generation(new, old):
        metadata["generation"] = before.get("generation", 0) + 1


def _carry(new: Obj, old: Obj, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _commit(core: Core, kind: Kind, key: Key, new: Obj, old: Obj, *, kept: Obj, part: str) -> Obj:
    """What the object is from now on, as it is shown; `kept` is how the store has it, `part`
    what was most likely changed.
    """
    if old["metadata"].get("deletionTimestamp") and _is_released(new, old["metadata"]):
        remove(core, kind, key)
    elif alike(new.get(part), old.get(part)) and _is_same(new, old):
        return old
    else:
        core.store.commit(key, kept)
    return new


def remove(core: Core, kind: Kind, key: Key) -> Obj:
    last = core.store.remove(key)
    if kind.rules.when_gone:
        kind.rules.when_gone(core)
    return last


def _is_released(new: Obj, before: Obj) -> bool:
    """Whether the deletion of an object that had this metadata waited for the last finalizer
    alone, and this write took it away.
    """
    waits_for_namespace = new["kind"] == "Namespace" and (new.get("spec") or {}).get("finalizers")
    return not (
        new["metadata"].get("finalizers")
        or before.get("deletionGracePeriodSeconds")
        or waits_for_namespace
    )


def _is_same(new: Obj, old: Obj) -> bool:
    """Whether a write changes nothing.

    Who owns the fields is compared last: to know it takes work.
    """
    return (
        _alike_but("metadata", new, old)
        and _alike_but("managedFields", new["metadata"], old["metadata"])
        and same_owners(new, old)
    )


def _alike_but(name: str, new: Obj, old: Obj) -> bool:
    """Whether both have the same, leaving out one field; a null is as good as nothing."""
    for each, now in new.items():
        was = old.get(each)
        if now is not was and each != name and not alike(now, was):
            return False
    return all(each in new or each == name or was is None for each, was in old.items())


def alike(new: Any, old: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if new is old:
        return True
    if new != old:
        return False
    if isinstance(new, dict):
        return all(alike(value, old[name]) for name, value in new.items())
    if isinstance(new, list):
        return all(map(alike, new, old))
    return isinstance(new, bool) == isinstance(old, bool)
