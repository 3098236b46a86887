"""What is wrong with a CustomResourceDefinition: its names, its versions, and what each of them brings.

Parts that are the same in all versions are told of as if they stood at the top, as Kubernetes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.crds.conversions import conversion_faults, name_faults
from pytest_kscen.machinery.crds.parts import part_faults
from pytest_kscen.machinery.crds.standing import approval_faults, stored_version_faults
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.names import dns1035_label, dns1123_subdomain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

LONGEST_WARNING = 256
PRESERVING = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
GO_NAMES = {
    "name": "Name",
    "served": "Served",
    "storage": "Storage",
    "deprecated": "Deprecated",
    "deprecationWarning": "DeprecationWarning",
    "schema": "Schema",
    "subresources": "Subresources",
    "additionalPrinterColumns": "AdditionalPrinterColumns",
    "selectableFields": "SelectableFields",
}


def definition_faults(definition: Obj) -> Iterator[Cause]:
    yield from spec_faults(definition["spec"])
    yield from stored_version_faults(definition)
    yield from approval_faults(definition)
    if definition["spec"].get("preserveUnknownFields"):
        yield Cause.invalid("spec.preserveUnknownFields", True, PRESERVING)


def update_faults(definition: Obj, old: Obj) -> Iterator[Cause]:
    yield from spec_faults(definition["spec"])
    yield from _immutable(definition["spec"], old)
    yield from stored_version_faults(definition)
    yield from approval_faults(definition, old)
    if definition["spec"].get("preserveUnknownFields"):
        yield Cause.invalid("spec.preserveUnknownFields", True, PRESERVING)


def _immutable(spec: Obj, old: Obj) -> Iterator[Cause]:
    before, established = old["spec"], _is_true(old, "Established")
    fields = [("group",), ("names", "plural")]
    if established:
        fields = [("scope",), ("names", "kind"), *fields]
    for path in fields:
        new, was = (_at(each, path) for each in (spec, before))
        if new != was:
            yield Cause.invalid(".".join(("spec", *path)), new, "field is immutable")


def _at(spec: Obj, path: tuple[str, ...]) -> Any:
    value: Any = spec
    for step in path:
        value = value.get(step)
    return value


def _is_true(definition: Obj, condition: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def spec_faults(spec: Obj) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    shared = {part: _shared(versions, part) for part in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")}
    yield from _group_and_scope(spec)
    for place, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield Cause.required(f"spec.versions[{place}].schema.openAPIV3Schema")
    for place, version in enumerate(versions):
        own = {part: value for part, value in version.items() if not shared.get(part)}
        yield from _version(own, version, f"spec.versions[{place}]", "schema")
    yield from _versions(versions, shared)
    yield from name_faults(spec.get("names") or {}, "spec.names")
    if versions:
        own = {part: value for part, value in versions[0].items() if shared.get(part)}
        any_status = any("status" in (version.get("subresources") or {}) for version in versions)
        yield from part_faults(own, versions[0], "spec", "validation", has_status=any_status)
    yield from conversion_faults(spec.get("conversion"))


def _shared(versions: list[Obj], part: str) -> bool:
    return all(version.get(part) == versions[0].get(part) for version in versions)


def _group_and_scope(spec: Obj) -> Iterator[Cause]:
    group, scope = spec.get("group", ""), spec.get("scope", "")
    if not group:
        yield Cause.required("spec.group")
    elif wrong := dns1123_subdomain(group):
        yield Cause.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield Cause.invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield Cause.required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield Cause.unsupported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version(own: Obj, version: Obj, path: str, schema_name: str) -> Iterator[Cause]:
    if wrong := dns1035_label(version.get("name", "")):
        yield Cause.invalid(f"{path}.name", version.get("name", ""), ",".join(wrong))
    yield from _deprecation(version, path)
    has_status = "status" in (version.get("subresources") or {})
    yield from part_faults(own, version, path, schema_name, has_status=has_status)


def _deprecation(version: Obj, path: str) -> Iterator[Cause]:
    words, field = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if words is None:
        return
    if not version.get("deprecated"):
        yield Cause.invalid(field, words, "can only be set for deprecated versions")
        return
    if len(words.encode()) > LONGEST_WARNING:
        yield Cause.invalid(field, words, f"must be <= {LONGEST_WARNING} characters long")
    if not words:
        yield Cause.invalid(field, words, "must not be an empty string")
    for place, letter in enumerate(words):
        if not letter.isprintable():
            why = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
            yield Cause.invalid(field, words, why)
            return


def _versions(versions: list[Obj], shared: dict[str, bool]) -> Iterator[Cause]:
    shown = [_as_go_has_it(version, shared) for version in versions]
    names = [version.get("name", "") for version in versions]
    if len({*names}) < len(names):
        yield Cause.invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield Cause.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if names and (wrong := dns1035_label(names[0])):
        yield Cause.invalid("spec.version", names[0], ",".join(wrong))


def _as_go_has_it(version: Obj, shared: dict[str, bool]) -> Obj:
    flags = {"served": False, "storage": False, "deprecated": False}
    return {go: None if shared.get(name) else version.get(name, flags.get(name)) for name, go in GO_NAMES.items()}
