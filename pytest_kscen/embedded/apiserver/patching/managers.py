"""Field managers: the writer of a request, the fields reset per subresource, and scale's owners.

Called by tracking, patches and the scale subresource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.patching.fields import difference, has, set_of
from pytest_kscen.embedded.apiserver.patching.managed_fields import (
    Writer,
    distinct_writers,
    entries_after_update,
    sorted_entries,
    writer_identity,
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


# Fields that the server resets on a write, so that no writer owns them; by kind and subresource.


Path = tuple[str, ...]

STATUS: tuple[Path, ...] = (("f:status",),)
ALL_BUT_STATUS: tuple[Path, ...] = (("f:metadata",), ("f:spec",))
CONDITIONS: Path = ("f:status", "f:conditions")
CERTIFICATE: Path = ("f:status", "f:certificate")

RESET_FIELDS: dict[tuple[str, str, str], tuple[Path, ...]] = {
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
STATUS_RESETS_METADATA = {
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
}


def reset_fields(resource: Resource, subresource: str, *, has_status: bool, custom: bool) -> Fields:
    group, plural = resource.group, resource.plural
    special = RESET_FIELDS.get((group, plural, subresource))
    if special is not None:
        return set_of(*special)
    if subresource == "status":
        return set_of(
            *(
                ALL_BUT_STATUS
                if custom or (group, plural) in STATUS_RESETS_METADATA
                else (("f:spec",),)
            )
        )
    return set_of(*STATUS) if has_status and not subresource else {}


MANAGER_NAME_LIMIT = 128  # bytes
WRITER_CACHE = 1024  # cached writers of one kind
OPTIONS = {
    verb: Resource("meta.k8s.io", "v1", "", f"{verb.title()}Options")
    for verb in ("create", "update", "patch")
}


def writer_of(kind: Kind, request: Request, operation: str = "Update") -> Writer:
    key = request.options.field_manager, request.agent, operation, request.subresource
    writer = kind.writers.get(key)
    if writer is None:
        if len(kind.writers) == WRITER_CACHE:
            kind.writers.clear()
        resource, manager = kind.resource, request.options.field_manager
        if not manager:
            word = "".join(filter(str.isprintable, request.agent.partition("/")[0]))
            manager = word.encode()[:MANAGER_NAME_LIMIT].decode(errors="ignore")
        writer = kind.writers[key] = Writer(
            manager,
            operation,
            resource.api_version,
            request.subresource,
            shape_of(kind),
            reset_fields(
                resource, request.subresource, has_status=kind.has_status, custom=kind.custom
            ),
        )
    return writer


def check_options(request: Request) -> None:
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
        causes += manager_name_errors("fieldManager", options.field_manager)
    if causes:
        raise invalid(OPTIONS[request.verb], "", causes)


def manager_name_errors(path: str, name: str) -> list[Cause]:
    causes = []
    if len(name.encode()) > MANAGER_NAME_LIMIT:
        causes.append(Cause.too_long(path, MANAGER_NAME_LIMIT))
    for index, character in enumerate(name):
        if not character.isprintable():
            position = len(name[:index].encode())
            causes.append(
                Cause.invalid(
                    path, name, f"invalid character U+{ord(character):04X} (at position {position})"
                )
            )
    return causes


# managedFields between an object and its scale, which has the number of replicas alone. As in
# Kubernetes, scaling records no time, scaling unowned replicas adds no owner, and a plain write
# that keeps the replicas adds an entry of its own.


REPLICAS = ("f:spec", "f:replicas")
SCALE_VERSION = "autoscaling/v1"


def owners_of_scale(obj: Obj, path: str) -> list[Obj]:
    """Return the scale's entries: the owners of the replicas at this dotted path of the object."""
    place = _field_path(path)
    entries = distinct_writers(obj["metadata"].get("managedFields", ()))
    return [
        {**each, "apiVersion": SCALE_VERSION, "fieldsV1": set_of(REPLICAS)}
        for each in entries
        if has(each["fieldsV1"], place)
    ]


def owners_after_scaling(
    kind: Kind, request: Request, old: Obj, scales: tuple[Kind, Obj, Obj]
) -> list[Obj]:
    """Return the object's entries after a write of its scale.

    `scales` holds the kind of scales, the old scale and the new one.
    """
    scale_kind, before, after = scales
    path = kind.subresources["scale"].paths[0]
    of_scale: Sequence[Obj] = after["metadata"].get("managedFields", ())
    if request.patch_type != APPLY_PATCH:
        of_scale = owners_of_scale(old, path)
        # Zero counts as unset.
        after = after if after.get("spec", {}).get("replicas") else {**after, "spec": {}}
        of_scale = (
            entries_after_update(of_scale, writer_of(scale_kind, request), before, after, None)
            if of_scale
            else []
        )
    place = _field_path(path)
    left, new = (
        [],
        {writer_identity(each): each for each in of_scale if has(each["fieldsV1"], REPLICAS)},
    )
    for entry in distinct_writers(old["metadata"].get("managedFields", ())):
        if not has(entry["fieldsV1"], place) or new.pop(writer_identity(entry), {}):
            left.append(entry)
        elif fields := difference(entry["fieldsV1"], set_of(place)):
            left.append({**entry, "fieldsV1": fields})
    for entry in new.values():
        kept = {name: value for name, value in entry.items() if name != "time"}
        left.append({**kept, "apiVersion": kind.api_version, "fieldsV1": set_of(place)})
    return sorted_entries(left)


def _field_path(path: str) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in path.split("."))
