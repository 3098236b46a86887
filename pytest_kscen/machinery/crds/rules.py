"""The rules of the kind CustomResourceDefinition: what is filled in, and what it may say.

Whatever judges and serves definitions is loaded when the first one comes: most clusters never meet any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.kinds import Rules
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.kube.requests import Options
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj

WRONG_NAME = 'must be spec.names.plural+"."+spec.group'


def default(definition: Obj) -> None:
    spec = definition["spec"] = dict(definition.get("spec") or NOTHING)
    names = spec["names"] = dict(spec.get("names") or NOTHING)
    if not names.get("singular"):
        names["singular"] = names.get("kind", "").lower()
    if not names.get("listKind") and names.get("kind"):
        names["listKind"] = f"{names['kind']}List"
    if not names["singular"]:
        del names["singular"]
    conversion = spec.get("conversion") or {"strategy": "None"}
    hook = (conversion.get("webhook") or NOTHING).get("clientConfig") or NOTHING
    if "service" in hook and not hook["service"].get("port"):
        service = {**hook["service"], "port": 443}
        conversion = {**conversion, "webhook": {**conversion["webhook"], "clientConfig": {**hook, "service": service}}}
    spec["conversion"] = {name: value for name, value in conversion.items() if value != {}}


def prepare_create(definition: Obj, _core: Core) -> None:
    stored = [version["name"] for version in definition["spec"].get("versions") or () if version.get("storage")][:1]
    none = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
    definition["status"] = {**none, "storedVersions": stored or None}


def prepare_update(new: Obj, old: Obj, _core: Core) -> None:
    status = old.get("status") or NOTHING
    stored = status.get("storedVersions") or []
    for version in new["spec"].get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            new["status"] = {**status, "storedVersions": [*stored, version["name"]]}
            return


def validate(definition: Obj) -> Iterator[Cause]:
    from pytest_kscen.machinery.crds.definitions import definition_faults

    spec, name = definition["spec"], definition["metadata"].get("name", "")
    if name != f"{(spec.get('names') or NOTHING).get('plural', '')}.{spec.get('group', '')}":
        yield Cause.invalid("metadata.name", name, WRONG_NAME)
    yield from definition_faults(definition)


def validate_update(new: Obj, old: Obj) -> Iterator[Cause]:
    from pytest_kscen.machinery.crds.definitions import update_faults

    return update_faults(new, old)


def terminate(definition: Obj, options: Options, now: float) -> Obj:
    from pytest_kscen.machinery.crds.settling import marked_for_deletion

    return marked_for_deletion(definition, options, now)


def afterwards(core: Core) -> None:
    from pytest_kscen.machinery.crds.settling import settle

    settle(core)


def warn(new: Obj, old: Obj | None) -> Iterator[str]:
    """Formats that nobody knows; those that were there before are passed over."""
    if old is not None and old["spec"] is new["spec"]:
        return iter(())
    before = {*_unknown_formats(old)} if old else set()
    return (f"unrecognized format {quoted(form)}" for form in _unknown_formats(new) if form not in before)


def _unknown_formats(definition: Obj) -> list[str]:
    from pytest_kscen.machinery.crds.schemas import unknown_formats

    versions = definition["spec"]["versions"]
    schemas = [version["schema"]["openAPIV3Schema"] for version in versions if version.get("schema")]
    if schemas and all(schema == schemas[0] for schema in schemas):
        schemas = schemas[:1]
    return [form for schema in schemas for form in unknown_formats(schema)]


DEFINITION_RULES = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): Rules(
        default=default,
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        validate=validate,
        validate_update=validate_update,
        warn=warn,
        unconditional_update=False,
        terminate=terminate,
        afterwards=afterwards,
    )
}
