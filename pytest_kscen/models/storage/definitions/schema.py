"""Builders for the storage's structural schemas and definitions.

Pure functions that return JSON; the CEL rules in them are checked by the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj, Resource

DECIMAL_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
ADDRESS_BYTE = "(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
OBJECT_NAME = "^[a-z0-9]([a-z0-9-.]{0,251}[a-z0-9])?$"
VOLUME_NAME = "^[0-9A-Za-z.+_-]*$"
REPLICA_NAME = "^.+-([0-9]|[12][0-9]|3[01])$"


def record(
    required: Iterable[str] = (), *, rules: Any = (), default: Any = None, **fields: Any
) -> Obj:
    needed = {"required": list(required)} if required else {}
    return with_rules(
        {"type": "object", **needed, "properties": fields, **_default(default)}, *rules
    )


def table(values: Obj) -> Obj:
    return {"type": "object", "additionalProperties": values}


def many(items: Obj, *rules: Obj, **limits: Any) -> Obj:
    """Return the schema of a list that is replaced as a whole."""
    return with_rules(
        {"type": "array", "items": items, "x-kubernetes-list-type": "atomic", **limits}, *rules
    )


def keyed(items: Obj, key: str, **limits: Any) -> Obj:
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
        **limits,
    }


def text(longest: int = 0, *, shortest: int = 0, pattern: str = "", **more: Any) -> Obj:
    limits = {"maxLength": longest, "minLength": shortest, "pattern": pattern}
    return {"type": "string", **{key: value for key, value in limits.items() if value}, **more}


def one_of(*values: str, default: str | None = None) -> Obj:
    return {"type": "string", "enum": list(values), **_default(default)}


def whole(
    least: int | None = None, most: int | None = None, *, default: int | None = None, form: str = ""
) -> Obj:
    limits = {"minimum": least, "maximum": most, "format": form or None}
    return {
        "type": "integer",
        **{key: value for key, value in limits.items() if value is not None},
        **_default(default),
    }


def flag(*, default: bool | None = None) -> Obj:
    return {"type": "boolean", **_default(default)}


def _default(value: Any) -> Obj:
    return {} if value is None else {"default": value}


def rule(expression: str, message: str) -> Obj:
    return {"rule": expression, "message": message}


def with_rules(schema: Obj, *rules: Obj) -> Obj:
    return {**schema, "x-kubernetes-validations": list(rules)} if rules else schema


def immutable(schema: Obj, message: str = "this cannot be changed") -> Obj:
    return with_rules(schema, rule("self == oldSelf", message))


def unique(by: str = "") -> Obj:
    path = f".{by}" if by else ""
    return rule(
        f"self.all(a, self.exists_one(b, a{path} == b{path}))",
        f"every {by or 'element'} may be there once",
    )


MOMENT = text(format="date-time")
LONG = whole(form="int64")
QUANTITY: Obj = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^[+-]?{DECIMAL_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{DECIMAL_NUMBER})?$",
}
IPV4_ADDRESS = record(
    ["ipv4", "port"],
    ipv4=text(15, pattern=rf"^({ADDRESS_BYTE}\.){{3}}{ADDRESS_BYTE}$"),
    port=whole(1025, 65535),
)
CONDITIONS = keyed(
    record(
        ["type", "status", "reason", "message", "lastTransitionTime"],
        type=text(
            316,
            pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        ),
        status=one_of("True", "False", "Unknown"),
        reason=text(1024, shortest=1, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        message=text(32768),
        lastTransitionTime=MOMENT,
        observedGeneration=whole(0, form="int64"),
    ),
    "type",
)


def column(name: str, path: str, type_: str = "string", *, wide: bool = False) -> Obj:
    return {"name": name, "type": type_, "jsonPath": path, **({"priority": 1} if wide else {})}


def condition_column(name: str, type_: str = "", *, wide: bool = False) -> Obj:
    return column(name, f".status.conditions[?(@.type=='{type_ or name}')].status", wide=wide)


AGE = column("Age", ".metadata.creationTimestamp", "date")


def definition(
    resource: Resource,
    short_name: str,
    spec: Obj,
    status: Obj,
    *,
    columns: Iterable[Obj],
    rules: Iterable[Obj] = (),
    selectable: Iterable[str] = (),
    status_subresource: bool = True,
) -> Obj:
    """Return a CustomResourceDefinition. Without `status_subresource`, the status has none and
    is written with the rest of the object.
    """
    schema = record(["spec"], rules=rules, spec=spec, status=status)
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}} if status_subresource else {},
        "additionalPrinterColumns": list(columns),
        **({"selectableFields": [{"jsonPath": path} for path in selectable]} if selectable else {}),
    }
    names = {
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "kind": resource.kind,
        "shortNames": [short_name],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified, "labels": {"module": "sds-replicated-volume"}},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": names,
            "versions": [version],
        },
    }
