"""Types in a document: recorded ones in OpenAPI's own form, and those of custom kinds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.recorded import definition, definition_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
OUR_OWN = "x-go-"  # what the recording knows beyond OpenAPI


def type_of(kind: Kind, *, is_list: bool = False) -> str:
    """The name of a kind's type, or of its list's."""
    resource, name = kind.resource, kind.resource.kind + ("List" if is_list else "")
    if kind.custom:
        return ".".join((*reversed(resource.group.split(".")), resource.version, name))
    return definition_of(resource.group, resource.version, name)


def custom_types(kind: Kind) -> dict[str, Obj]:
    """A custom kind's type and its list's."""
    resource, structure = kind.resource, kind.structure or {}
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    metadata = {**head, "metadata": _reference(f"{META}.ObjectMeta")}
    properties = {**metadata, **{name: schema for name, schema in structure.get("properties", {}).items() if name not in metadata}}
    own = {**structure, "type": "object", "properties": properties}
    listed = {
        "type": "object",
        "required": ["items"],
        "properties": {
            **head,
            "items": {"type": "array", "items": {"$ref": REF + type_of(kind)}},
            "metadata": _reference(f"{META}.ListMeta"),
        },
    }
    names = type_of(kind), type_of(kind, is_list=True)
    gvk = {"group": resource.group, "version": resource.version}
    return {
        names[0]: {**own, "x-kubernetes-group-version-kind": [{**gvk, "kind": resource.kind}]},
        names[1]: {**listed, "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{resource.kind}List"}]},
    }


def _reference(name: str) -> Obj:
    return {"allOf": [{"$ref": REF + name}]}


def recorded_types(names: Iterable[str]) -> dict[str, Obj]:
    """These types and all that they stand on, by name."""
    found: dict[str, Obj] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], below = _recorded(name)
            waiting.extend(below)
    return found


@cache
def _recorded(name: str) -> tuple[Obj, tuple[str, ...]]:
    refs: list[str] = []
    return _converted(definition(name), refs, is_field=True), tuple(refs)


def _converted(schema: Any, refs: list[str], *, is_field: bool) -> Any:
    if isinstance(schema, list):
        return [_converted(part, refs, is_field=False) for part in schema]
    if not isinstance(schema, dict):
        return schema
    new: Obj = {}
    for key, value in schema.items():
        if key == "properties":
            new[key] = {name: _converted(part, refs, is_field=True) for name, part in value.items()}
        elif key == "$ref":
            refs.append(value)
        elif not key.startswith(OUR_OWN):
            new[key] = value if key == "default" else _converted(value, refs, is_field=False)
    if "$ref" not in schema:
        return new
    reference = {"$ref": REF + schema["$ref"]}
    return {**new, "allOf": [reference]} if new or is_field else reference
