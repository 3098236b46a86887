"""Operations of a scenario: validation without a cluster, and execution of each kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from pytest_kscen.kube.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from pytest_kscen.kube.cache import Ref, version_key
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.documents import CONSTRUCTION_ERRORS
from pytest_kscen.objects.errors import ApiError, MethodNotAllowed, NotFound, UnsupportedMediaType
from pytest_kscen.objects.resources import Obj, Resource
from pytest_kscen.scenario.models import ANNOTATION, Operation, OperationResult, written
from pytest_kscen.scenario.writes import CONFIGURATION, is_gone_or_terminating

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.kube.api import Api
    from pytest_kscen.scenario.models import CreateOperation, DeleteOperation, PatchOperation

KINDS = "createOperation, patchOperation, deleteOperation and doneOperation"
PATCH_TYPES = (STRATEGIC_PATCH, MERGE_PATCH, JSON_PATCH, APPLY_PATCH)
BY_REAL_TIME = {("batch", "CronJob"): "a CronJob acts by the clock, but a scenario has steps only"}
HOW_TO_CONFIGURE = (
    "give a configuration with play(scheduler=...), in the Scenario's file, or in its "
    f"annotation {ANNOTATION}"
)
OPTIONS = {
    "fieldManager": "field_manager",
    "fieldValidation": "field_validation",
    "force": "force",
    "gracePeriodSeconds": "grace_period",
    "propagationPolicy": "propagation",
    "orphanDependents": "orphan_dependents",
}


class ScenarioOperationFailed(Exception):
    """Report that an operation failed, with its id, its step and the API server's reason. It fails
    the scenario.
    """


def faults(operations: Sequence[Operation]) -> Iterator[tuple[int, str]]:
    for place, each in enumerate(operations):
        if why := wrong(each):
            yield place, why


def wrong(operation: Operation) -> str:
    """Return the error of an operation, with its id; empty if it is valid. No cluster is needed."""
    name = f"operation {operation.id!r}"
    if len(operation.kinds) != 1:
        have = (
            f"has {len(operation.kinds)}: {', '.join(operation.kinds)}"
            if operation.kinds
            else "has none"
        )
        return f"{name} must have exactly one of {KINDS}, and {have}"
    if operation.step < 1:
        return f"{name} has the step {operation.step}: steps begin with 1"
    if operation.create and (missing := _missing_fields(operation.create.object)):
        return f"{name} creates an object without {missing}"
    target = operation.create or operation.patch or operation.delete
    if target and (target.options or {}).get("dryRun"):
        return f"{name} would change nothing: remove its option dryRun"
    if why := _target_error(operation):
        return f"{name} cannot be part of a scenario: {why}"
    why = _patch_error(operation.patch) if operation.patch else ""
    return f"{name} has {why}" if why else ""


def _patch_error(operation: PatchOperation) -> str:
    kind = operation.patch_type
    if kind not in ("", *PATCH_TYPES):
        return (
            f"the patchType {kind!r}: there are "
            f"{', '.join(PATCH_TYPES)}{nearest(kind, PATCH_TYPES)}"
        )
    try:
        yaml.safe_load(operation.patch)
    except (yaml.YAMLError, RecursionError, *CONSTRUCTION_ERRORS) as error:
        return f"a patch that cannot be read: {' '.join(str(error).split())}"
    return ""


def _target_error(operation: Operation) -> str:
    kind = name = namespace = ""
    if operation.create:
        kind, metadata = operation.create.object["kind"], operation.create.object["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    elif target := operation.patch or operation.delete:
        kind, namespace, name = (
            target.type_meta.kind,
            target.object_meta.namespace,
            target.object_meta.name,
        )
    if (kind, namespace, name) == ("ConfigMap", *CONFIGURATION):
        return f"the scheduler's configuration applies to the whole scenario; {HOW_TO_CONFIGURE}"
    group = operation.create.object["apiVersion"].partition("/")[0] if operation.create else ""
    return BY_REAL_TIME.get((group, kind), "")


def _missing_fields(obj: Obj) -> str:
    metadata = obj.get("metadata")
    has_name = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    missing = [
        name
        for name in ("apiVersion", "kind")
        if not obj.get(name) or not isinstance(obj[name], str)
    ]
    return ", ".join(missing if has_name else [*missing, "metadata.name"])


Expect: TypeAlias = Callable[[Resource, Ref, Callable[[Obj | None], bool]], object]


async def do(api: Api, operation: Operation, expect: Expect = lambda *_: None) -> OperationResult:
    """Perform the operation and return its result; `expect` is called with the change that
    caches will show.
    """
    try:
        if operation.create:
            return OperationResult(
                written(operation.create), await _create(api, operation.create, expect)
            )
        if operation.patch:
            return OperationResult(
                written(operation.patch), await _patch(api, operation.patch, expect)
            )
        if operation.delete:
            await _delete(api, operation.delete, expect)
            return OperationResult(written(operation.delete))
    except (ApiError, OSError) as error:
        why = error.message if isinstance(error, ApiError) else repr(error)
        raise ScenarioOperationFailed(
            f"operation {operation.id!r} of step {operation.step} failed: {why}"
        ) from error
    return OperationResult({})


async def _create(api: Api, operation: CreateOperation, expect: Expect) -> Obj:
    obj = operation.object
    resource = await api.resource_of(obj["apiVersion"], obj["kind"])
    namespace = obj["metadata"].get("namespace") or ("default" if resource.namespaced else "")
    made = await api.create(resource, obj, namespace, **_options(operation.options))
    if obj.get("status"):  # a status subresource is written separately
        metadata = made["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": obj["status"]}
        with contextlib.suppress(NotFound, MethodNotAllowed):
            made = await api.patch(
                resource,
                metadata["name"],
                patch,
                metadata.get("namespace", ""),
                subresource="status",
            )
    expect(resource, Ref.of(made), lambda seen: seen is not None)
    return made


async def _patch(api: Api, operation: PatchOperation, expect: Expect) -> Obj:
    """Patch an object: by default with a strategic merge patch, or a plain merge patch if the kind
    supports no strategic one.
    """
    resource = await api.resource_of(operation.type_meta.api_version, operation.type_meta.kind)
    namespace = operation.object_meta.namespace or ("default" if resource.namespaced else "")
    patch, options = yaml.safe_load(operation.patch), _options(operation.options)
    name, kind = operation.object_meta.name, operation.patch_type
    try:
        made = await api.patch(
            resource, name, patch, namespace, patch_type=kind or STRATEGIC_PATCH, **options
        )
    except UnsupportedMediaType:
        if kind:
            raise
        made = await api.patch(resource, name, patch, namespace, **options)
    version = version_key(made["metadata"]["resourceVersion"])
    expect(
        resource,
        Ref.of(made),
        lambda seen: seen is None or version_key(seen["metadata"]["resourceVersion"]) >= version,
    )
    return made


async def _delete(api: Api, operation: DeleteOperation, expect: Expect) -> None:
    resource = await api.resource_of(operation.type_meta.api_version, operation.type_meta.kind)
    namespace = operation.object_meta.namespace or ("default" if resource.namespaced else "")
    name = operation.object_meta.name
    answer = await api.delete(resource, name, namespace, **_options(operation.options))
    uid = (answer.get("details") or {}).get("uid") or (answer.get("metadata") or {}).get("uid", "")
    expect(resource, Ref(namespace, name), lambda seen: is_gone_or_terminating(seen, uid))


def _options(options: Obj | None) -> dict[str, Any]:
    options = options or {}
    chosen = {
        ours: options[theirs] for theirs, ours in OPTIONS.items() if options.get(theirs) is not None
    }
    preconditions = options.get("preconditions") or {}
    return chosen | ({"precondition_uid": preconditions["uid"]} if preconditions.get("uid") else {})
