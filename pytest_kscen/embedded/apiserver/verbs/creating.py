"""create: decode, admit, fill in, judge, commit. Nothing is stored before all have agreed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.core import key_of
from pytest_kscen.embedded.apiserver.decoding import decode
from pytest_kscen.embedded.apiserver.metadata import (
    doubtful_finalizers,
    without_repetition,
    wrong_in_new,
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
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj

THE_SERVERS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
NAMES = "names"  # the stream of what is generated
ATTEMPTS = 8  # at a generated name that nobody has
STEM = 58  # how much of a generateName is used
BORN_WITH_STATUS = {("", "nodes")}  # a kubelet registers its node with the status


async def create(core: Core, kind: Kind, request: Request) -> Answer:
    check_options(request)
    obj = decode(kind, request, request.body, None)
    for name in THE_SERVERS:
        obj["metadata"].pop(name, None)
    return await make(core, kind, request, obj)


async def make(core: Core, kind: Kind, request: Request, obj: Obj) -> Answer:
    """Bring a decoded object into being; an update and an apply may do so too."""
    without_repetition(obj["metadata"], request.warnings, after_admission=False)
    track(kind, request, obj, None, core.clock.now())
    review = core.admission.review("CREATE", request, core, obj, None)
    if review and (waiting := core.admission.mutate(review)):
        await waiting
    fill_in(core, kind, request, obj)
    if causes := _wrong(kind, obj):
        raise invalid(kind.resource, obj["metadata"]["name"], causes)
    request.warnings += [*kind.rules.warn(obj, None), *doubtful_finalizers(kind, obj, None)]
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
    kept = kind.kept(obj)
    if not dry:
        core.store.commit(key, kept)
    return Answer(kind.shown(kept), 201)


def _wrong(kind: Kind, obj: Obj) -> list[Cause]:
    causes = [*kind.schema.validate(obj, None), *kind.rules.validate(obj)]
    if causes and kind.rules.metadata_last:
        return causes
    return [*wrong_in_new(kind, obj["metadata"]), *causes]


def fill_in(core: Core, kind: Kind, request: Request, obj: Obj) -> None:
    """What the server alone decides about a new object."""
    metadata = obj["metadata"]
    without_repetition(metadata, request.warnings, after_admission=True)
    metadata.update(uid=core.uid(), creationTimestamp=core.now())
    if not metadata.get("name"):
        stem = metadata.get("generateName")
        metadata["name"] = _generated(core, kind, request, stem) if stem else ""
    if kind.rules.generation and kind.rules.first_generation:
        metadata["generation"] = kind.rules.first_generation
    if kind.has_status and kind.home not in BORN_WITH_STATUS:
        obj.pop("status", None)
    if not request.subresource:
        kind.rules.prepare_create(obj, core)


def _generated(core: Core, kind: Kind, request: Request, stem: str) -> str:
    suffixes = core.chance.stream(NAMES)
    for _ in range(ATTEMPTS):
        name = stem[:STEM] + suffixes.suffix()
        if core.store.get(key_of(kind, request, name)) is None:
            break
    return name
