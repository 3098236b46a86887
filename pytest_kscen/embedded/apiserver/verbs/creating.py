"""The create verb: decode, admit, set the server's fields, validate, commit.

Nothing is stored before admission and validation have passed. Also creates objects for updates and
applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.metadata import (
    drop_duplicate_owners,
    finalizer_warnings,
    metadata_errors,
)
from pytest_kscen.embedded.apiserver.patching import check_options, track
from pytest_kscen.kube.api import Answer
from pytest_kscen.objects.errors import (
    AlreadyExists,
    ApiError,
    about,
    already_exists,
    invalid,
    quoted,
)

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
NAME_STREAM = "names"  # chance stream of generated names
ATTEMPTS = 8  # attempts at a generated name that is free
STEM_LENGTH = 58  # characters of generateName that are used
CREATED_WITH_STATUS = {("", "nodes")}  # a kubelet registers its node with the status


async def create(core: Core, kind: Kind, request: Request) -> Answer:
    check_options(request)
    obj = decode(kind, request, request.body, None)
    for name in SERVER_FIELDS:
        obj["metadata"].pop(name, None)
    return await create_object(core, kind, request, obj)


async def create_object(core: Core, kind: Kind, request: Request, obj: Obj) -> Answer:
    """Create a decoded object; also called by an update or apply of a missing object."""
    drop_duplicate_owners(obj["metadata"], request.warnings, after_admission=False)
    track(kind, request, obj, None, core.clock.now())
    review = core.admission.review("CREATE", request, core, obj, None)
    if review and (waiting := core.admission.mutate(review)):
        await waiting
    set_server_fields(core, kind, request, obj)
    causes = [*kind.schema.validate(obj, None), *kind.rules.validate(obj)]
    if not causes or not kind.rules.metadata_last:
        causes = [*metadata_errors(kind, obj["metadata"]), *causes]
    if causes:
        raise invalid(kind.resource, obj["metadata"]["name"], causes)
    request.warnings += [*kind.rules.warn(obj, None), *finalizer_warnings(kind, obj, None)]
    if review and (waiting := core.admission.validate(review)):
        await waiting
    metadata, dry = obj["metadata"], request.options.dry_run
    if (
        request.verb == "create"
        and not dry
        and metadata.get("resourceVersion", "").strip("0").isdigit()
    ):
        raise ApiError("resourceVersion should not be set on objects to be created")
    key = key_of(kind, request, metadata["name"])
    existing = core.store.get(key)
    if existing is not None:
        name, resource = metadata["name"], kind.resource
        refusal = already_exists(resource, name)
        if metadata.get("generateName"):
            why = "the server was not able to generate a unique name for the object"
            details = about(resource, name, retryAfterSeconds=1)
            refusal = AlreadyExists(
                f"{resource.qualified} {quoted(name)} already exists, {why}", details=details
            )
        if existing["metadata"].get("deletionTimestamp"):
            refusal = AlreadyExists(
                f"object is being deleted: {refusal.message}", details=refusal.status["details"]
            )
        raise refusal
    kept = kind.to_stored(obj)
    if not dry:
        core.store.commit(key, kept)
    return Answer(kind.to_served(kept), 201)


def set_server_fields(core: Core, kind: Kind, request: Request, obj: Obj) -> None:
    """Set the fields of a new object that the server alone decides: uid, time, name, generation."""
    metadata = obj["metadata"]
    drop_duplicate_owners(metadata, request.warnings, after_admission=True)
    metadata.update(uid=core.uid(), creationTimestamp=core.now())
    if not metadata.get("name"):
        metadata["name"] = ""
        if prefix := metadata.get("generateName"):
            suffixes = core.chance.stream(NAME_STREAM)
            for _ in range(ATTEMPTS):
                metadata["name"] = prefix[:STEM_LENGTH] + suffixes.suffix()
                if core.store.get(key_of(kind, request, metadata["name"])) is None:
                    break
    if kind.rules.generation and kind.rules.first_generation:
        metadata["generation"] = kind.rules.first_generation
    if kind.has_status and kind.home not in CREATED_WITH_STATUS:
        obj.pop("status", None)
    if not request.subresource:
        kind.rules.prepare_create(obj, core)
