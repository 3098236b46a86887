"""Server-side apply: a configuration is checked, merged into the live object and its owner's entry brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.patching.checking import check
from pytest_kscen.machinery.patching.elements import UnfitError
from pytest_kscen.machinery.patching.fields import spelt
from pytest_kscen.machinery.patching.lastapplied import allowed, brought_up_to_date
from pytest_kscen.machinery.patching.managers import writer_of
from pytest_kscen.machinery.patching.ownership import BEFORE_FIRST_APPLY, ConflictsError, applied, updated
from pytest_kscen.machinery.patching.shapes import shape_of
from pytest_kscen.machinery.patching.wording import json_name
from pytest_kscen.objects.errors import ApiError, BadRequest, Conflict, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.machinery.patching.ownership import Entries, Writer
    from pytest_kscen.objects.resources import Obj

    Conflicts = Sequence[tuple[Obj, tuple[str, ...]]]


def apply(kind: Kind, old: Obj | None, request: Request, time: str) -> Obj:
    """The object after a configuration was applied to it, with its managedFields; `old` is None if it is to be created."""
    config = _configuration(kind, request)
    _check(kind, config)
    writer = writer_of(kind, request, "Apply")
    live = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}} if old is None else old
    entries: Entries = list(live["metadata"].get("managedFields", ()))
    if old and not entries:
        first = writer._replace(manager=BEFORE_FIRST_APPLY, operation="Update")
        entries = updated((), first, {}, old, time)
    new, entries = _merge(entries, writer, live, config, time, force=request.options.force)
    if writer.manager == "kubectl":
        new = brought_up_to_date(new, config)
    metadata = {name: value for name, value in (new["metadata"] or {}).items() if name != "managedFields"}
    return {**new, "metadata": {**metadata, "managedFields": entries} if entries else metadata}


def _configuration(kind: Kind, request: Request) -> Obj:
    config = {} if request.body is None else request.body
    if not isinstance(config, dict):
        into = f"json: cannot unmarshal {json_name(config)} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {into}")
    stated = _text(config, "apiVersion"), _text(config, "kind")
    if stated != (kind.resource.api_version, kind.resource.kind):
        group, _, version = stated[0].rpartition("/")
        raise BadRequest("invalid object type: " + ("/, Kind=" if "/" in group else f"{group}/{version}, Kind={stated[1]}"))
    metadata = config.get("metadata")
    if not isinstance(metadata, dict):
        return config
    owners = metadata.get("managedFields")
    if isinstance(owners, list) and all(isinstance(entry, dict) for entry in owners):
        raise BadRequest("metadata.managedFields must be nil")
    if owners is None:
        return {**config, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
    return config  # which does not fit, and is refused for that


def _text(part: Any, name: str) -> str:
    """A field, if there is one and it is text."""
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, str) else ""


def _check(kind: Kind, config: Obj) -> None:
    try:
        check(shape_of(kind), config)
    except UnfitError as error:
        resource, metadata = kind.resource, config.get("metadata")
        gvk = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        whose = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}; {gvk}"
        raise ApiError(f"failed to create typed patch object ({whose}): {error}") from None


def _merge(entries: Entries, writer: Writer, live: Obj, config: Obj, time: str, *, force: bool) -> tuple[Obj, Entries]:
    try:
        return applied(entries, writer, live, config, time, force=force)
    except ConflictsError as error:
        conflicts = error.conflicts
        if writer.manager == "kubectl":
            mine = allowed(writer.shape, live)
            conflicts = [each for each in conflicts if each[1] not in mine]
        if conflicts:
            raise _refusal(conflicts) from None
        return applied(entries, writer, live, config, time, force=True)


def _refusal(conflicts: Conflicts) -> Conflict:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_who(entry)}", "field": spelt(path)}
        for entry, path in conflicts
    ]
    if len(conflicts) == 1:
        said = f"1 conflict: conflict with {_who(conflicts[0][0])}: {spelt(conflicts[0][1])}"
    else:
        by_manager: dict[str, list[str]] = {}
        for entry, path in conflicts:
            by_manager.setdefault(_who(entry), []).append(f"- {spelt(path)}")
        lines = [line for who, fields in sorted(by_manager.items()) for line in (f"conflicts with {who}:", *fields)]
        said = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {said}", details={"causes": causes})


def _who(entry: Obj) -> str:
    who = quoted(entry.get("manager", ""))
    if entry.get("subresource"):
        who += f" with subresource {quoted(entry['subresource'])}"
    return f"{who} using {entry['apiVersion']}" if entry["operation"] == "Update" else who
