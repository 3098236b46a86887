"""Rules of the kind CustomResourceDefinition, and the reconciliation of definitions that follows
each write.

Validation is imported when the first definition arrives, since most clusters never have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver.crds.serving import (
    ESTABLISHED,
    NAMES_ACCEPTED,
    TERMINATING,
    accept_names,
    condition_of,
    is_true,
    kinds_of,
    mark_established,
    with_condition,
)
from pytest_kscen.embedded.apiserver.deletion import plan_deletion
from pytest_kscen.embedded.apiserver.kinds import Rules
from pytest_kscen.embedded.apiserver.patching import track
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.kube.api import DEFAULTS, Options, Request
from pytest_kscen.objects.errors import Cause, quoted
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import Key
    from pytest_kscen.objects.resources import Obj


NAME_MISMATCH = 'must be spec.names.plural+"."+spec.group'


def default_definition(definition: Obj) -> None:
    spec = definition["spec"] = dict(definition.get("spec") or EMPTY)
    names = spec["names"] = dict(spec.get("names") or EMPTY)
    if not names.get("singular"):
        names["singular"] = names.get("kind", "").lower()
    if not names.get("listKind") and names.get("kind"):
        names["listKind"] = f"{names['kind']}List"
    if not names["singular"]:
        del names["singular"]
    conversion = spec.get("conversion") or {"strategy": "None"}
    hook = (conversion.get("webhook") or EMPTY).get("clientConfig") or EMPTY
    if "service" in hook and not hook["service"].get("port"):
        service = {**hook["service"], "port": 443}
        conversion = {
            **conversion,
            "webhook": {**conversion["webhook"], "clientConfig": {**hook, "service": service}},
        }
    spec["conversion"] = {name: value for name, value in conversion.items() if value != {}}


def prepare_definition_create(definition: Obj, _core: Core) -> None:
    stored = [
        version["name"]
        for version in definition["spec"].get("versions") or ()
        if version.get("storage")
    ][:1]
    none = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
    definition["status"] = {**none, "storedVersions": stored or None}


def prepare_definition_update(new: Obj, old: Obj, _core: Core) -> None:
    status = old.get("status") or EMPTY
    stored = status.get("storedVersions") or []
    for version in new["spec"].get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            new["status"] = {**status, "storedVersions": [*stored, version["name"]]}
            return


def validate_definition_object(definition: Obj) -> Iterator[Cause]:
    from pytest_kscen.embedded.apiserver.crds.definitions import validate_definition

    spec, name = definition["spec"], definition["metadata"].get("name", "")
    if name != f"{(spec.get('names') or EMPTY).get('plural', '')}.{spec.get('group', '')}":
        yield Cause.invalid("metadata.name", name, NAME_MISMATCH)
    yield from validate_definition(definition)


def validate_definition_object_update(new: Obj, old: Obj) -> Iterator[Cause]:
    from pytest_kscen.embedded.apiserver.crds.definitions import validate_definition_update

    return validate_definition_update(new, old)


def warn_of_unknown_formats(new: Obj, old: Obj | None) -> Iterator[str]:
    """Yield a warning for each unknown format in the schemas, unless the old definition has it
    already.
    """
    if old is not None and old["spec"] is new["spec"]:
        return iter(())
    before = {*_unknown_formats(old)} if old else set()
    return (
        f"unrecognized format {quoted(form)}"
        for form in _unknown_formats(new)
        if form not in before
    )


def _unknown_formats(definition: Obj) -> list[str]:
    from pytest_kscen.embedded.apiserver.crds.structural_schemas import unknown_formats

    versions = definition["spec"]["versions"]
    schemas = [
        version["schema"]["openAPIV3Schema"] for version in versions if version.get("schema")
    ]
    if schemas and all(schema == schemas[0] for schema in schemas):
        schemas = schemas[:1]
    return [form for schema in schemas for form in unknown_formats(schema)]


DEFINITION_GROUP, DEFINITION_PLURAL = (
    CUSTOM_RESOURCE_DEFINITIONS.group,
    CUSTOM_RESOURCE_DEFINITIONS.plural,
)
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
DELETION_PENDING = (
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
)


def mark_for_deletion(definition: Obj, _options: Options, now: float) -> Obj:
    """Return a definition that waits for the deletion of its instances: deletion time, cleanup
    finalizer, condition Terminating.
    """
    when, metadata = timestamp_of(now), dict(definition["metadata"])
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = (
        finalizers if CLEANUP_FINALIZER in finalizers else [*finalizers, CLEANUP_FINALIZER]
    )
    metadata["deletionTimestamp"] = when
    status = with_condition(
        definition["status"], when, TERMINATING, "True", "InstanceDeletionPending", DELETION_PENDING
    )
    return {**definition, "metadata": metadata, "status": status}


def reconcile_definitions(core: Core) -> None:
    """Advance all definitions until nothing changes, then add and remove the kinds that are served.

    The controllers of the real server do this a moment later; here it is done before the write is
    answered.
    """
    while True in [_advance(core, definition) for definition in _definitions(core)]:
        pass
    # Serve the kinds of established definitions. Unchanged kinds stay the same objects.
    established_definitions = {
        each["metadata"]["name"]: each for each in _definitions(core) if is_true(each, ESTABLISHED)
    }
    for name, (definition, kinds) in list(core.served.items()):
        if name not in established_definitions or not _serves_same_kinds(
            definition, established_definitions[name]
        ):
            for kind in kinds:
                core.kinds.remove(kind.resource)
            del core.served[name]
    for name, definition in established_definitions.items():
        if name not in core.served:
            core.served[name] = definition, kinds_of(definition, reconcile_definitions)
            for kind in core.served[name][1]:
                core.kinds.add(kind)
                _decode_stored_objects(core, kind)


def _definitions(core: Core) -> list[Obj]:
    return list(core.store.all(DEFINITION_GROUP, DEFINITION_PLURAL))


def _key_of(definition: Obj) -> Key:
    return DEFINITION_GROUP, DEFINITION_PLURAL, "", definition["metadata"]["name"]


def _advance(core: Core, definition: Obj) -> bool:
    """Take one step of one definition: deletion, names or the condition Established. Return whether
    there was one.
    """
    if core.store.get(_key_of(definition)) is not definition:
        return True
    if definition["metadata"].get("deletionTimestamp"):
        return _finalize(core, definition)
    others = [
        each for each in _definitions(core) if each["spec"]["group"] == definition["spec"]["group"]
    ]
    status = accept_names(definition, others, core.now())
    is_installing = condition_of(definition, ESTABLISHED).get("reason") == "Installing"
    if status is definition.get("status") and is_installing and is_true(definition, NAMES_ACCEPTED):
        status = mark_established(status, core.now())
    if status is definition.get("status"):
        return False
    _write_status(core, definition, status)
    return True


def _write_status(core: Core, definition: Obj, status: Obj) -> None:
    """Store a status without admission or validation, as `kube-apiserver`; the write that caused it
    is stored already.
    """
    kind = core.kinds.at(DEFINITION_GROUP, CUSTOM_RESOURCE_DEFINITIONS.version, DEFINITION_PLURAL)
    request = Request(
        "update", kind.resource, name=definition["metadata"]["name"], subresource="status"
    )
    request.user, request.agent = "system:apiserver", "kube-apiserver"
    new = {**definition, "metadata": dict(definition["metadata"]), "status": status}
    track(kind, request, new, definition, core.clock.now())
    core.store.commit(_key_of(definition), new)


def _finalize(core: Core, definition: Obj) -> bool:
    """Delete the instances of a definition, and remove the definition once they are gone. Return
    whether anything changed.
    """
    finalizers = definition["metadata"].get("finalizers") or []
    if CLEANUP_FINALIZER not in finalizers:
        return False
    reason = condition_of(definition, TERMINATING).get("reason")
    if reason == "InstanceDeletionPending":
        reason_and_message = (
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        _write_status(
            core,
            definition,
            with_condition(
                definition["status"], core.now(), TERMINATING, "True", *reason_and_message
            ),
        )
        group, plural = (
            definition["spec"]["group"],
            definition["status"]["acceptedNames"].get("plural", ""),
        )
        kind = (
            next(iter(kinds_of(definition, reconcile_definitions)), None)
            if is_true(definition, ESTABLISHED)
            else None
        )
        for instance in _instances(core, definition):
            metadata = instance["metadata"]
            key = group, plural, metadata.get("namespace", ""), metadata["name"]
            if kind is None or metadata.get("deletionTimestamp"):
                continue
            planned = plan_deletion(kind, instance, DEFAULTS, core.clock.now())
            if planned.removed:
                core.store.remove(key)
            elif planned.marked:
                core.store.commit(key, planned.marked)
        return True
    if any(_instances(core, definition)):
        return False
    left = [each for each in finalizers if each != CLEANUP_FINALIZER]
    if left:
        metadata = {**definition["metadata"], "finalizers": left}
        reason_and_message = ("InstanceDeletionCompleted", "removed all instances")
        status = with_condition(
            definition["status"], core.now(), TERMINATING, "False", *reason_and_message
        )
        core.store.commit(
            _key_of(definition), {**definition, "metadata": metadata, "status": status}
        )
    else:
        core.store.remove(_key_of(definition))
    return True


def _instances(core: Core, definition: Obj) -> list[Obj]:
    names = definition["status"].get("acceptedNames") or {}
    if not is_true(definition, ESTABLISHED):
        return []
    return list(core.store.all(definition["spec"]["group"], names["plural"]))


def _decode_stored_objects(core: Core, kind: Kind) -> None:
    """Decode the stored objects of a kind by its new schema.

    Objects are replaced without a new revision or event, since no client wrote them.
    """
    resource = kind.resource
    for obj in list(core.store.all(resource.group, resource.plural)):
        if obj["apiVersion"] == kind.api_version:
            metadata = obj["metadata"]
            new = kind.schema.decode(obj, {"metadata": metadata}, strictness="Ignore", warnings=[])
            if new != obj:
                namespace, name = metadata.get("namespace", ""), metadata["name"]
                core.store.replace((resource.group, resource.plural, namespace, name), new)


def _serves_same_kinds(old: Obj, new: Obj) -> bool:
    if old["metadata"]["uid"] != new["metadata"]["uid"]:
        return False
    names = [each["status"]["acceptedNames"] for each in (old, new)]
    return bool((old["spec"] is new["spec"] or old["spec"] == new["spec"]) and names[0] == names[1])


DEFINITION_RULES = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): Rules(
        default=default_definition,
        prepare_create=prepare_definition_create,
        prepare_update=prepare_definition_update,
        validate=validate_definition_object,
        validate_update=validate_definition_object_update,
        warn=warn_of_unknown_formats,
        unconditional_update=False,
        terminate=mark_for_deletion,
        afterwards=reconcile_definitions,
    )
}
