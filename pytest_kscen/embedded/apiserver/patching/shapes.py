"""Shapes of kinds: list types, map types, merge keys and atomic fields, from their schemas.

Used by strategic merge, structured merge and field tracking. Built-in kinds have recorded
definitions, custom kinds their openAPIV3Schema.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from pytest_kscen.embedded.apiserver.recorded import definition, definition_of
from pytest_kscen.objects.go_values import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.objects.resources import Obj


class Absent:
    """Type of `ABSENT`: a missing value, as opposed to null."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()
MAP, LIST, SCALAR, DEDUCED = "map", "list", "scalar", "deduced"
FORMS = {
    "object": MAP,
    "array": LIST,
    "string": SCALAR,
    "integer": SCALAR,
    "number": SCALAR,
    "boolean": SCALAR,
}
DEFINITION_OVERRIDES: dict[str, Obj] = {  # types whose OpenAPI definition is misleading
    "io.k8s.api.autoscaling.v1.ScaleSpec": {
        "type": "object",
        "properties": {"replicas": {"type": "integer"}},
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string", "format": "quantity"},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"x-kubernetes-map-type": "atomic"},
}
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
ZEROS: tuple[Any, ...] = ({}, "", 0)  # defaults that are Go's zero values, not Kubernetes' defaults
UNOWNED_FIELDS = frozenset(
    (  # noqa: SIM905
        "name namespace creationTimestamp selfLink uid clusterName generation managedFields "
        "resourceVersion"
    ).split()
)
TYPE_AND_META: Obj = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": OBJECT_META},
}


class StructField:
    """Field of a struct, with its patch strategy, merge key and default.

    The shape below it is built at first access, since many kinds are recursive or large.
    """

    def __init__(self, name: str, schema: Obj, part: Callable[[Obj], Shape]) -> None:
        self._schema = schema
        self._part = part
        self.element = f"f:{name}"
        self.strategies: tuple[str, ...] = tuple(
            filter(None, schema.get("x-kubernetes-patch-strategy", "").split(","))
        )
        self.merge_key: str = schema.get("x-kubernetes-patch-merge-key", "")
        self.default: Any = schema.get("default")

    @cached_property
    def shape(self) -> Shape:
        return self._part(self._schema)


class Shape:
    """Level of a kind, read from its structural schema; parts are built at first access."""

    name = ""
    unowned: frozenset[str] = frozenset()
    """Fields that have no owner, so that changes in them are not tracked."""

    def __init__(self, schema: Obj, *, lenient: bool = False) -> None:
        self._schema = schema
        self._lenient = lenient or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        mixed = schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string"
        self.form: str = SCALAR if mixed else FORMS.get(schema.get("type", ""), DEDUCED)
        self.type: str = "" if mixed else schema.get("type", "")
        if self.type == "string" and schema.get("format", "byte") != "byte":
            self.type = ""

    def part(self, schema: Obj) -> Shape:
        return (
            recorded_shape(schema["$ref"])
            if "$ref" in schema
            else Shape(schema, lenient=self._lenient)
        )

    @cached_property
    def atomic_map(self) -> bool:
        """True for an object that is owned and replaced as a whole."""
        return self._schema.get("x-kubernetes-map-type") == "atomic"

    @cached_property
    def atomic_list(self) -> bool:
        """True for a list that is owned and replaced as a whole."""
        by_patch = "atomic" if not self._merges else "map" if self._merge_key else "set"
        return self.form != LIST or self._schema.get("x-kubernetes-list-type", by_patch) == "atomic"

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Fields that identify the elements of a list; empty if the elements are their own keys."""
        if "x-kubernetes-list-type" in self._schema:
            return tuple(self._schema.get("x-kubernetes-list-map-keys", ()))
        return (self._merge_key,) if self._merges and self._merge_key else ()

    @property
    def _merges(self) -> bool:
        return "merge" in self._schema.get("x-kubernetes-patch-strategy", "").split(",")

    @property
    def _merge_key(self) -> str:
        return str(self._schema.get("x-kubernetes-patch-merge-key", ""))

    @cached_property
    def items(self) -> Shape:
        return self.part(self._schema["items"]) if "items" in self._schema else UNKNOWN

    @cached_property
    def fields(self) -> Mapping[str, StructField]:
        parts = self._schema.get("properties") or {}
        if self._schema.get("x-kubernetes-embedded-resource"):
            parts = {**parts, **TYPE_AND_META}
        return {name: StructField(name, part, self.part) for name, part in parts.items()}

    @cached_property
    def implicit(self) -> Mapping[str, Any]:
        """Values of fields that Go serializes even when unset; custom resources have none."""
        return {}

    @cached_property
    def additional(self) -> Shape | None:
        """Shape of fields that are not named, or None if there may be none."""
        more = self._schema.get("additionalProperties")
        if isinstance(more, dict):
            return self.part(more)
        allowed = more if isinstance(more, bool) else self._lenient or not self.fields
        return UNKNOWN if allowed else None

    def field_shape(self, name: str) -> Shape | None:
        field = self.fields.get(name)
        return field.shape if field else self.additional

    def element_shape(self, element: str) -> Shape | None:
        """Return the shape under a path element, such as `f:spec` or `k:{"name":"a"}`."""
        if element.startswith("f:"):
            return self.field_shape(element[2:])
        return self.items if self.form == LIST else None


class GoShape(Shape):
    """Level of a built-in kind, read from its recorded definition; a struct has a name."""

    def __init__(self, schema: Obj, name: str = "") -> None:
        super().__init__(schema)
        self.name = name

    def part(self, schema: Obj) -> Shape:
        if "$ref" not in schema:
            return GoShape(schema)
        if "x-kubernetes-map-type" in schema:
            return GoShape(
                {
                    **definition(schema["$ref"]),
                    "x-kubernetes-map-type": schema["x-kubernetes-map-type"],
                }
            )
        return recorded_shape(schema["$ref"])

    @cached_property
    def implicit(self) -> Mapping[str, Any]:
        parts: Obj = self._schema.get("properties") or {}
        filled = {
            name: part["default"]
            for name, part in parts.items()
            if "x-go-omitted" not in part and "default" in part
        }
        zeros = {name: part["x-go-zero"] for name, part in parts.items() if "x-go-zero" in part}
        return {name: value for name, value in filled.items() if value in ZEROS} | zeros


UNKNOWN = Shape({})


@cache
def recorded_shape(name: str) -> Shape:
    shape = GoShape(DEFINITION_OVERRIDES.get(name) or definition(name), name.rpartition(".")[2])
    if name == OBJECT_META:
        shape.unowned = UNOWNED_FIELDS
    return shape


def structural_shape(schema: Obj) -> Shape:
    return Shape({"type": "object", **schema, "x-kubernetes-embedded-resource": True})


def shape_of(kind: Kind) -> Shape:
    if kind.shape is None:
        resource = kind.resource
        name = definition_of(resource.group, resource.version, resource.kind)
        anything: Obj = {"x-kubernetes-preserve-unknown-fields": True}
        kind.shape = (
            recorded_shape(name)
            if name
            else structural_shape(anything if kind.structure is None else kind.structure)
        )
    return kind.shape


class UnfitError(ValueError):
    """Value that does not have its kind's shape; `path` leads to it from the top."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.message = message
        self.path = path


def form_of(shape: Shape, value: Any) -> str:
    """Return MAP, LIST or SCALAR: the shape's form, or the value's where the shape allows several.

    A null counts as a map.
    """
    if shape.form != DEDUCED:
        return shape.form
    return (
        MAP
        if value is None or isinstance(value, dict)
        else LIST
        if isinstance(value, list)
        else SCALAR
    )


def element_of(shape: Shape, item: Any) -> str:
    """Return the path element of an item in a list of this shape; raises UnfitError if it
    has none.
    """
    if not shape.keys:
        if isinstance(item, dict):
            raise UnfitError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise UnfitError("not supported: associative list with lists as elements")
        if item is None:
            raise UnfitError("associative list without keys has an element that's an explicit null")
        return "v:" + _json(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise UnfitError(f"associative list with keys may not have {what}")
    fields = shape.items.fields
    found = {}
    for key in shape.keys:
        if key in item:
            found[key] = item[key]
        elif key in fields and (default := fields[key].default) is not None:
            found[key] = default
    if not found:
        keys = " ".join(f'"{key}"' for key in shape.keys)
        raise UnfitError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + _json(dict(sorted(found.items())))


def _json(value: Any) -> str:
    return as_json(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def by_element(shape: Shape, items: Iterable[Any] | None) -> dict[str, list[Any]]:
    """Return a list's items by path element, in list order; duplicates share an element."""
    found: dict[str, list[Any]] = {}
    for item in items or ():
        found.setdefault(element_of(shape, item), []).append(item)
    return found
