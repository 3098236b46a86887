"""Patches by media type: JSON patch, merge patch, strategic merge patch and server-side apply.

Called by verbs.updating. Returns the patched object undecoded, and refuses as kube-apiserver does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import orjson

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver.decoding import stated_text
from pytest_kscen.embedded.apiserver.patching.fields import difference, path_text, paths
from pytest_kscen.embedded.apiserver.patching.managed_fields import (
    BEFORE_FIRST_APPLY,
    ConflictsError,
    apply_configuration,
    entries_after_update,
    materialised,
)
from pytest_kscen.embedded.apiserver.patching.managers import check_options, writer_of
from pytest_kscen.embedded.apiserver.patching.shapes import UnfitError, shape_of
from pytest_kscen.embedded.apiserver.patching.strategic import strategic_merge_patch
from pytest_kscen.embedded.apiserver.patching.structured_merge import check, compare, field_set
from pytest_kscen.kube.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    TooLarge,
    UnsupportedMediaType,
    not_found,
    quoted,
)
from pytest_kscen.objects.go_values import as_json, json_name, plain
from pytest_kscen.objects.patches import PatchError, json_patch, merge_patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.patching.managed_fields import Entries, Writer
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

    Conflicts = Sequence[tuple[Obj, tuple[str, ...]]]


# kubectl's migration from client-side to server-side apply: its annotation stands for the fields
# that it owned.


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def kubectl_owned_fields(shape: Shape, live: Obj) -> set[tuple[str, ...]]:
    """Return the fields that kubectl applied last and that are unchanged since; they cause no
    conflict.
    """
    try:
        last: Any = orjson.loads(_annotations(live).get(LAST_APPLIED) or "null")
    except orjson.JSONDecodeError:
        return set()
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return set()
    changes = compare(shape, last, live)
    return set(
        paths(difference(difference(field_set(shape, last), changes.touched), changes.removed))
    )


def refresh_last_applied(new: Obj, config: Obj) -> Obj:
    """Return the object with kubectl's annotation, if present, set to the configuration applied
    now.
    """
    annotations = _annotations(new)
    if not annotations.get(LAST_APPLIED):
        return new
    given = {name: value for name, value in _annotations(config).items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in config["metadata"].items() if name != "annotations"}
    summary = {**config, "metadata": {**metadata, "annotations": given} if given else metadata}
    text = orjson.dumps(summary, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    return {
        **new,
        "metadata": {**new["metadata"], "annotations": {**annotations, LAST_APPLIED: text}},
    }


def _annotations(obj: Obj) -> Obj:
    metadata = obj.get("metadata") or {}
    return metadata.get("annotations") or {}


def apply(kind: Kind, old: Obj | None, request: Request, time: str) -> Obj:
    """Apply a configuration to an object and return the result with its managedFields.

    `old` is None if the object is to be created. Raises Conflict if other managers own changed
    fields and `force` is not set. An object without entries gets one for all its present fields
    first.
    """
    config = _configuration(kind, request)
    try:
        check(shape_of(kind), config)
    except UnfitError as error:
        resource, metadata = kind.resource, config.get("metadata")
        gvk = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        described = f"{stated_text(metadata, 'namespace')}/{stated_text(metadata, 'name')}; {gvk}"
        raise ApiError(f"failed to create typed patch object ({described}): {error}") from None
    writer = writer_of(kind, request, "Apply")
    live = (
        {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}}
        if old is None
        else old
    )
    entries: Entries = list(live["metadata"].get("managedFields", ()))
    if old and not entries:
        first = writer._replace(manager=BEFORE_FIRST_APPLY, operation="Update")
        entries = entries_after_update((), first, {}, old, time)
    new, entries = _merge(entries, writer, live, config, time, force=request.options.force)
    if writer.manager == "kubectl":
        new = refresh_last_applied(new, config)
    metadata = {
        name: value for name, value in (new["metadata"] or {}).items() if name != "managedFields"
    }
    return {**new, "metadata": {**metadata, "managedFields": entries} if entries else metadata}


def _configuration(kind: Kind, request: Request) -> Obj:
    config = {} if request.body is None else request.body
    if not isinstance(config, dict):
        into = (
            f"json: cannot unmarshal {json_name(config)} into Go value of type "
            "map[string]interface {}"
        )
        raise BadRequest(
            f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {into}"
        )
    stated = stated_text(config, "apiVersion"), stated_text(config, "kind")
    if stated != (kind.resource.api_version, kind.resource.kind):
        group, _, version = stated[0].rpartition("/")
        raise BadRequest(
            "invalid object type: "
            + ("/, Kind=" if "/" in group else f"{group}/{version}, Kind={stated[1]}")
        )
    metadata = config.get("metadata")
    if not isinstance(metadata, dict):
        return config
    owners = metadata.get("managedFields")
    if isinstance(owners, list) and all(isinstance(entry, dict) for entry in owners):
        raise BadRequest("metadata.managedFields must be nil")
    if owners is None:
        return {
            **config,
            "metadata": {
                name: value for name, value in metadata.items() if name != "managedFields"
            },
        }
    return config  # of a wrong type, so it is refused later


def _merge(
    entries: Entries, writer: Writer, live: Obj, config: Obj, time: str, *, force: bool
) -> tuple[Obj, Entries]:
    try:
        return apply_configuration(entries, writer, live, config, time, force=force)
    except ConflictsError as error:
        conflicts = error.conflicts
        if writer.manager == "kubectl":
            owned_by_kubectl = kubectl_owned_fields(writer.shape, live)
            conflicts = [each for each in conflicts if each[1] not in owned_by_kubectl]
        if conflicts:
            causes = [
                {
                    "reason": "FieldManagerConflict",
                    "message": f"conflict with {_manager_text(entry)}",
                    "field": path_text(path),
                }
                for entry, path in conflicts
            ]
            if len(conflicts) == 1:
                entry, path = conflicts[0]
                summary = f"1 conflict: conflict with {_manager_text(entry)}: {path_text(path)}"
            else:
                by_manager: dict[str, list[str]] = {}
                for entry, path in conflicts:
                    by_manager.setdefault(_manager_text(entry), []).append(f"- {path_text(path)}")
                lines = [
                    line
                    for label, fields in sorted(by_manager.items())
                    for line in (f"conflicts with {label}:", *fields)
                ]
                summary = f"{len(conflicts)} conflicts: " + "\n".join(lines)
            raise Conflict(f"Apply failed with {summary}", details={"causes": causes}) from None
        return apply_configuration(entries, writer, live, config, time, force=True)


def _manager_text(entry: Obj) -> str:
    label = quoted(entry.get("manager", ""))
    if entry.get("subresource"):
        label += f" with subresource {quoted(entry['subresource'])}"
    return f"{label} using {entry['apiVersion']}" if entry["operation"] == "Update" else label


OPERATION_LIMIT = 10_000
REJECTED = "the server rejected our request due to an error in our request"
OWNERLESS = ("/status/", "/spec/")
OPERATION = {"op": str, "path": str, "from": str}


def apply_patch(kind: Kind, old: Obj | None, request: Request, at: float) -> Obj:
    """Return the body that a patch makes of the old object, which is None if there is none.

    Unpatched parts are shared with the old object. `at` is the cluster time of the write.
    """
    accepted = [JSON_PATCH, MERGE_PATCH, *([] if kind.custom else [STRATEGIC_PATCH]), APPLY_PATCH]
    if request.patch_type not in accepted:
        listed = ", ".join(accepted)
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types "
            f"include: {listed}"
        )
    check_options(request)
    if request.patch_type == APPLY_PATCH:
        return apply(kind, old, request, timestamp_of(at))
    if old is None:
        raise not_found(kind.resource, request.name)
    if request.patch_type == JSON_PATCH:
        validation = request.options.field_validation
        operations, unknown = (
            (_unchecked(request.body), []) if validation == "Ignore" else _checked(request)
        )
        try:
            places = (
                place
                for one in operations
                for place in (one.get("path"), one.get("from", OWNERLESS[0]))
            )
            new = cast(
                "Obj",
                json_patch(
                    materialised(old)
                    if not all(str(place).startswith(OWNERLESS) for place in places)
                    else old,
                    operations,
                ),
            )
        except PatchError:
            raise Invalid(REJECTED, details={}) from None
        if unknown and validation == "Strict":
            raise patch_refusal(request, new, f"strict decoding error: {', '.join(unknown)}")
        request.warnings.extend(unknown)
        return new
    if not isinstance(request.body, dict):
        decoding = "error decoding patch: " if request.patch_type == MERGE_PATCH else ""
        raise BadRequest(
            f"{decoding}json: cannot unmarshal {json_name(request.body)} into Go value of "
            "type map[string]interface {}"
        )
    if request.patch_type == MERGE_PATCH:
        return cast("Obj", merge_patch(old, request.body))
    return strategic_merge_patch(shape_of(kind), old, request.body)


def _unchecked(body: Any) -> Sequence[Obj]:
    """Return the operations unvalidated; nonsense in them is found when they are carried out."""
    if not isinstance(body, list):
        raise BadRequest(
            f"json: cannot unmarshal {json_name(body)} into Go value of type jsonpatch.Patch"
        )
    for operation in body:
        if not isinstance(operation, dict):
            raise BadRequest(
                f"json: cannot unmarshal {json_name(operation)} into Go value of type "
                "jsonpatch.Operation"
            )
        if any(
            not isinstance(operation[name], str | None) for name in OPERATION if name in operation
        ):
            raise Invalid(REJECTED, details={})
    return body


def _checked(request: Request) -> tuple[Sequence[Obj], list[str]]:
    """Return the operations, and a text for each unknown field in them."""
    body = request.body
    if not isinstance(body, list):
        raise _decode_error(body, "value of type []handlers.jsonPatchOp")
    unknown = []
    for place, operation in enumerate(body):
        if not isinstance(operation, dict):
            raise _decode_error(operation, "value of type handlers.jsonPatchOp")
        for name, value in operation.items():
            if name in OPERATION and value is not None and not isinstance(value, str):
                raise _decode_error(value, f"struct field jsonPatchOp.{name} of type string")
        unknown += [
            f'json patch unknown field "[{place}].{name}"'
            for name in operation
            if name not in {*OPERATION, "value"}
        ]
    if len(body) > OPERATION_LIMIT:
        summary = (
            f"The allowed maximum operations in a JSON patch is {OPERATION_LIMIT}, got {len(body)}"
        )
        raise TooLarge(f"Request entity too large: {summary}")
    return body, unknown


def _decode_error(value: Any, target: str) -> BadRequest:
    return BadRequest(
        f"error decoding patch: json: cannot unmarshal {json_name(value)} into Go {target}"
    )


def patch_refusal(request: Request, body: Obj, why: str) -> ApiError:
    """Return the refusal of a patch whose result does not decode as its kind.

    `why` is the message of the decoder or converter.
    """
    if request.patch_type == APPLY_PATCH:
        version = body["apiVersion"] if "/" in body["apiVersion"] else f"/{body['apiVersion']}"
        gvk, metadata = f"{version}, Kind={body['kind']}", request.body.get("metadata") or {}
        described = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {gvk}"
        summary = (
            f"failed to convert new object ({described}) to proper version: unable to convert "
            f"unstructured object to {gvk}: "
        )
        return ApiError(summary + why)
    is_strategic = request.patch_type == STRATEGIC_PATCH
    shown = (
        plain(request.body) if is_strategic else as_json(dict(sorted(materialised(body).items())))
    )
    message = f"Invalid value: {quoted(shown)}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return Invalid(f' "" is invalid: patch: {message}', details={"causes": [cause]})
