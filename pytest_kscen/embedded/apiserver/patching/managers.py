"""Field managers: name of the writer, fields reset on write, and owners mapped to and from the
scale subresource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.patching.fields import difference, has, set_of
from pytest_kscen.embedded.apiserver.patching.managed_fields import (
    Writer,
    distinct,
    identity,
    in_order,
    updated,
)
from pytest_kscen.embedded.apiserver.patching.shapes import shape_of
from pytest_kscen.kube.api import APPLY_PATCH, DEFAULTS
from pytest_kscen.objects.errors import Cause, invalid
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.patching.fields import Fields
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj


# What the server resets on a write whatever the writer says, so that nobody comes to own it: by
# kind and subresource.


Path = tuple[str, ...]

STATUS: tuple[Path, ...] = (("f:status",),)
ALL_BUT_STATUS: tuple[Path, ...] = (("f:metadata",), ("f:spec",))
CONDITIONS: Path = ("f:status", "f:conditions")
CERTIFICATE: Path = ("f:status", "f:certificate")

SPECIAL: dict[tuple[str, str, str], tuple[Path, ...]] = {
    ("", "namespaces", "finalize"): STATUS,
    ("", "pods", "status"): (
        ("f:spec",),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:ownerReferences"),
    ),
    ("apps", "deployments", "status"): (("f:spec",), ("f:metadata", "f:labels")),
    ("certificates.k8s.io", "certificatesigningrequests", ""): (("f:spec",), ("f:status",)),
    ("certificates.k8s.io", "certificatesigningrequests", "status"): (("f:spec",), CONDITIONS),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): (("f:spec",), CERTIFICATE),
}
METADATA_TOO = {
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
}


def resets(resource: Resource, subresource: str, *, has_status: bool, custom: bool) -> Fields:
    group, plural = resource.group, resource.plural
    special = SPECIAL.get((group, plural, subresource))
    if special is not None:
        return set_of(*special)
    if subresource == "status":
        return set_of(
            *(ALL_BUT_STATUS if custom or (group, plural) in METADATA_TOO else (("f:spec",),))
        )
    return set_of(*STATUS) if has_status and not subresource else {}


LONGEST_NAME = 128  # bytes
REMEMBERED = 1024  # writers of one kind
OPTIONS = {
    verb: Resource("meta.k8s.io", "v1", "", f"{verb.title()}Options")
    for verb in ("create", "update", "patch")
}


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
    return Writer(
        manager or _first_word(agent),
        operation,
        resource.api_version,
        subresource,
        shape_of(kind),
        ignored,
    )


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
            causes.append(
                Cause.invalid(
                    path, name, f"invalid character U+{ord(character):04X} (at position {position})"
                )
            )
    return causes


# managedFields between an object and its scale, which shows the number of replicas alone.
# Kubernetes' ways are kept: scaling leaves no time; who scales what nobody owned comes to own
# nothing; and a plain writer who keeps the replicas while somebody scales gets an entry of its
# own for them.


REPLICAS = ("f:spec", "f:replicas")
SCALE_VERSION = "autoscaling/v1"


def owners_of_scale(obj: Obj, path: str) -> list[Obj]:
    """The scale's entries: whoever owns the replicas at this dotted path of the object."""
    place = _place(path)
    entries = distinct(obj["metadata"].get("managedFields", ()))
    return [
        {**each, "apiVersion": SCALE_VERSION, "fieldsV1": set_of(REPLICAS)}
        for each in entries
        if has(each["fieldsV1"], place)
    ]


def owners_after_scaling(
    kind: Kind, request: Request, old: Obj, scales: tuple[Kind, Obj, Obj]
) -> list[Obj]:
    """The object's entries; `scales` are the kind of scales, the old one and the new."""
    scale_kind, before, after = scales
    path = kind.subresources["scale"].paths[0]
    of_scale: Sequence[Obj] = after["metadata"].get("managedFields", ())
    if request.patch_type != APPLY_PATCH:
        of_scale = owners_of_scale(old, path)
        after = (
            after if after.get("spec", {}).get("replicas") else {**after, "spec": {}}
        )  # zero is not written
        of_scale = (
            updated(of_scale, writer_of(scale_kind, request), before, after, None)
            if of_scale
            else []
        )
    place = _place(path)
    left, new = [], {identity(each): each for each in of_scale if has(each["fieldsV1"], REPLICAS)}
    for entry in distinct(old["metadata"].get("managedFields", ())):
        if not has(entry["fieldsV1"], place) or new.pop(identity(entry), {}):
            left.append(entry)
        elif fields := difference(entry["fieldsV1"], set_of(place)):
            left.append({**entry, "fieldsV1": fields})
    for entry in new.values():
        kept = {name: value for name, value in entry.items() if name != "time"}
        left.append({**kept, "apiVersion": kind.api_version, "fieldsV1": set_of(place)})
    return in_order(left)


def _place(path: str) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in path.split("."))
