"""Builders of CustomResourceDefinitions with a compact notation of schemas.

Used by the virtual machines and by Cilium. The storage has its own builders, with defaults and
rules in the style of its real definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj, Resource

TEXT: Obj = {"type": "string"}
NAME: Obj = {"type": "string", "minLength": 1}
WHOLE: Obj = {"type": "integer"}
FLAG: Obj = {"type": "boolean"}
TIME: Obj = {"type": "string", "format": "date-time"}
ANYTHING: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXTS_BY_NAME: Obj = {"type": "object", "additionalProperties": TEXT}
QUANTITY: Obj = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}

AGE = ("Age", "date", ".metadata.creationTimestamp")
IMMUTABLE_SPEC = ("self == oldSelf", "the spec cannot be changed")


def one_of(*words: str, **more: Any) -> Obj:
    return {"type": "string", "enum": list(words), **more}


def listing(items: Obj, **more: Any) -> Obj:
    return {"type": "array", "items": items, **more}


def record(
    properties: dict[str, Obj],
    *,
    required: Sequence[str] = (),
    rules: Sequence[tuple[str, str]] = (),
    **more: Any,
) -> Obj:
    """Return the schema of an object with these fields. `rules` are pairs of a CEL expression and
    the message for objects that violate it.
    """
    schema: Obj = {"type": "object", "properties": properties, **more}
    if required:
        schema["required"] = list(required)
    if rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules
        ]
    return schema


CONDITIONS = listing(
    record(
        {
            "type": {"type": "string", "maxLength": 316},
            "status": one_of("True", "False", "Unknown"),
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": TIME,
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
        required=("type", "status", "reason", "message", "lastTransitionTime"),
    )
)


def definition(
    resource: Resource,
    schema: Obj,
    *,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[tuple[str, str, str]] = (AGE,),
) -> Obj:
    """Return a definition with one version and a status subresource. A column is a heading, a type
    and a JSON path.
    """
    names = {
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {**names, "shortNames": list(short_names), "categories": list(categories)},
            "versions": [version],
        },
    }
