"""In whose name a request writes: the fieldManager it gives, or the first word of its User-Agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import APPLY_PATCH, DEFAULTS
from pytest_kscen.machinery.patching.ownership import Writer
from pytest_kscen.machinery.patching.resets import resets
from pytest_kscen.machinery.patching.shapes import shape_of
from pytest_kscen.objects.errors import Cause, invalid
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind

LONGEST_NAME = 128  # bytes
REMEMBERED = 1024  # writers of one kind
OPTIONS = {verb: Resource("meta.k8s.io", "v1", "", f"{verb.title()}Options") for verb in ("create", "update", "patch")}


def writer_of(kind: Kind, request: Request, operation: str = "Update") -> Writer:
    who = request.options.field_manager, request.agent, operation, request.subresource
    writer = kind.writers.get(who)
    if writer is None:
        if len(kind.writers) == REMEMBERED:
            kind.writers.clear()
        writer = kind.writers[who] = _writer(kind, *who)
    return writer


def _writer(kind: Kind, manager: str, agent: str, operation: str, subresource: str) -> Writer:
    resource = kind.resource
    ignored = resets(resource, subresource, has_status=kind.has_status, custom=kind.custom)
    return Writer(manager or _first_word(agent), operation, resource.api_version, subresource, shape_of(kind), ignored)


def _first_word(agent: str) -> str:
    word = "".join(filter(str.isprintable, agent.partition("/")[0])).encode()[:LONGEST_NAME]
    return word.decode(errors="ignore")


def check_options(request: Request) -> None:
    """What a request says of its writer must make sense."""
    options = request.options
    applies = request.verb == "patch" and request.patch_type == APPLY_PATCH
    if options is DEFAULTS and not applies:
        return
    causes = []
    if applies and not options.field_manager:
        causes.append(Cause.required("fieldManager", "is required for apply patch"))
    if options.force and request.verb == "patch" and not applies:
        causes.append(Cause.forbidden("force", "may not be specified for non-apply patch"))
    if options.field_manager:
        causes += wrong_names("fieldManager", options.field_manager)
    if causes:
        raise invalid(OPTIONS[request.verb], "", causes)


def wrong_names(path: str, name: str) -> list[Cause]:
    """What is wrong with a writer's name."""
    causes = []
    if len(name.encode()) > LONGEST_NAME:
        causes.append(Cause.too_long(path, LONGEST_NAME))
    for index, character in enumerate(name):
        if not character.isprintable():
            position = len(name[:index].encode())
            causes.append(Cause.invalid(path, name, f"invalid character U+{ord(character):04X} (at position {position})"))
    return causes
