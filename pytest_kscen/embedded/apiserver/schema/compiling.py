"""The places in a definition's schema where a schema may stand, or something simpler."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.recorded import definition
from pytest_kscen.embedded.apiserver.schema import scalars
from pytest_kscen.embedded.apiserver.schema.decode_errors import (
    DecodeError,
    TypeMismatch,
    UnknownField,
)
from pytest_kscen.embedded.apiserver.schema.scalars import (
    APIEXTENSIONS_V1,
    EMPTY,
    META_V1,
    SPECIAL_DECODERS,
    SPECIAL_ZERO_VALUES,
    is_identical_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.apiserver.schema.scalars import Walk

    Filling = tuple[str, Callable[[], Any]]


SCHEMA = f"{APIEXTENSIONS_V1}.JSONSchemaProps"


def union_decoders(walk_of: Callable[[str], Walk]) -> dict[str, Walk]:
    """Their walks, by definition."""

    def schema(value: Any, old: Any) -> Any:
        """Fields that are unknown in here are dropped without a word, as the real server does."""
        try:
            return walk_of(SCHEMA)(value, old)
        except UnknownField:
            return walk_of(SCHEMA)(prune_unknown_fields(value, SCHEMA, []), old)

    def or_bool(value: Any, old: Any) -> Any:
        if value is old or type(value) in {bool, type(None)}:
            return value
        if type(value) is dict:
            return schema(value, old)
        raise DecodeError("boolean or JSON schema expected")

    def or_list(value: Any, old: Any) -> Any:
        if type(value) is dict:
            return schema(value, old)
        return [schema(part, None) for part in value] if type(value) is list and value else None

    def or_names(value: Any, old: Any) -> Any:
        if type(value) is dict:
            return schema(value, old)
        return list(value) if type(value) is list and value else None

    walks = {
        "JSONSchemaPropsOrBool": or_bool,
        "JSONSchemaPropsOrArray": or_list,
        "JSONSchemaPropsOrStringArray": or_names,
    }
    return {f"{APIEXTENSIONS_V1}.{name}": walk for name, walk in walks.items()}


# Structs, lists and maps: each is walked once, next to the old object's part, which is shared
# where it is the same.

GO_MAP, GO_SLICE = "map[", "[]"
TRUTH_IS_CHEAP = frozenset([str, int, float, bool, dict, list])  # whose truth is told without work


@dataclass(slots=True)
class StructMembers:
    """What a struct is made of.

    `fillings` are what Go prints of absent fields; `labels` are the odd pieces of paths.
    """

    fields: dict[str, Walk] = field(default_factory=dict)
    fillings: list[Filling] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


def struct_decoder(name: str, go_type: str, load: Callable[[StructMembers], None]) -> Walk:
    """A struct whose members are loaded when a value first comes."""
    members = StructMembers()
    fields, fillings = members.fields, members.fillings
    walk_of = fields.get

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not dict and not isinstance(value, dict):
            raise TypeMismatch(value, go_type)
        if type(old) is dict and value == old and is_identical_json(value, old):
            return old
        if not fields:
            load(members)
        old_part = (old if type(old) is dict else EMPTY).get
        new = {}
        place = ""
        try:
            for place, part in value.items():
                was = old_part(place)
                if part is was and type(part) in TRUTH_IS_CHEAP and part and place in fields:
                    new[place] = part  # which has been put in form before
                elif (found := walk_of(place, reject_unknown_field)(part, was)) is not None:
                    new[place] = found
        except DecodeError as misfit:
            misfit.inside(name, members.labels.get(place, place))
            raise
        return _with_fillings(new, fillings) if fillings else new

    return walk


def _with_fillings(new: dict[str, Any], fillings: list[Filling]) -> dict[str, Any]:
    for missing, filling in fillings:
        if missing not in new:
            new[missing] = filling()
    return new


def reject_unknown_field(_value: Any, _old: Any) -> Any:
    """Stands where a struct has no such field."""
    raise UnknownField


def list_decoder(
    go_type: str, element: Walk, zero: Callable[[], Any], *, keep: bool = False
) -> Walk:
    """A slice; an empty one is nothing unless it is kept, and null in it stands for its
    element's zero.
    """

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not list:
            if not isinstance(value, list):
                raise TypeMismatch(value, go_type, basic=GO_SLICE)
            value = list(value)  # one that is worked out when it is looked at
        if type(old) is list:
            if value and is_identical_json(value, old):
                return old
            new = [element(part, before) for part, before in zip_longest(value, old[: len(value)])]
        else:
            new = [element(part, None) for part in value]
        if None in new:
            new = [zero() if part is None else part for part in new]
        return new if new or keep else None

    return walk


def map_decoder(go_type: str, element: Walk, zero: Callable[[], Any]) -> Walk:
    """A map by strings; an empty one is nothing, and null in it stands for its element's zero."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not dict and not isinstance(value, dict):
            raise TypeMismatch(value, go_type, basic=GO_MAP)
        if type(old) is not dict:
            old = EMPTY
        elif value and is_identical_json(value, old):
            return old
        new = {}
        for name, part in value.items():
            found = element(part, old.get(name))
            new[name] = zero() if found is None else found
        return new or None

    return walk


def string_list_decoder(slow: Walk) -> Walk:
    """A slice of plain strings."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or type(value) is not list:
            return slow(value, old)
        for part in value:
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is list else value.copy() or None

    return walk


def string_map_decoder(slow: Walk) -> Walk:
    """A map of plain strings to strings, which is most maps there are."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or type(value) is not dict:
            return slow(value, old)
        for part in value.values():
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is dict else value.copy() or None

    return walk


# From recorded definitions to walks: once in a process for each definition, when a value first
# reaches it.


MANAGED_FIELDS_ENTRY = (
    f"{META_V1}.ManagedFieldsEntry"  # no entries at all ask for the record to be cleared
)
SCALAR_DECODERS: dict[tuple[str, str], tuple[str, Callable[..., Walk], Any]] = {
    ("string", ""): ("string", scalars.string_decoder, ""),
    ("string", "byte"): ("[]uint8", scalars.bytes_decoder, ""),
    ("integer", "int32"): (
        "int32",
        lambda go_type, *, keep: scalars.integer_decoder(go_type, 32, keep=keep),
        0,
    ),
    ("integer", "int64"): (
        "int64",
        lambda go_type, *, keep: scalars.integer_decoder(go_type, 64, keep=keep),
        0,
    ),
    ("boolean", ""): ("bool", scalars.boolean_decoder, False),
    ("number", "double"): ("float64", scalars.number_decoder, 0),
}


@cache
def decoder_of(name: str) -> Walk:
    """The walk of a definition."""
    if name in SPECIAL_DECODERS:
        return SPECIAL_DECODERS[name]
    if name in UNION_DECODERS:
        return UNION_DECODERS[name]

    def load(members: StructMembers) -> None:
        for name_of_field, schema in definition(name).get("properties", {}).items():
            members.fields[name_of_field] = _decoder_for(
                schema, keep=schema.get("x-go-pointer", False)
            )
            if "x-go-path" in schema:
                members.labels[name_of_field] = schema["x-go-path"]
            if ("default" in schema and "x-go-omitted" not in schema) or "x-go-zero" in schema:
                members.fillings.append((name_of_field, _filling_of(schema)))

    return struct_decoder(name.rpartition(".")[2], go_type({"$ref": name}), load)


UNION_DECODERS = union_decoders(decoder_of)


def _decoder_for(schema: dict[str, Any], *, keep: bool) -> Walk:
    if "$ref" in schema:
        return decoder_of(schema["$ref"])
    if schema["type"] == "array":
        inner = schema["items"]
        walk = list_decoder(
            go_type(schema),
            _decoder_for(inner, keep=True),
            zero_value_of(inner),
            keep=inner.get("$ref") == MANAGED_FIELDS_ENTRY,
        )
        return string_list_decoder(walk) if _is_text(inner) else walk
    if schema["type"] == "object":
        inner = schema["additionalProperties"]
        slow = map_decoder(go_type(schema), _decoder_for(inner, keep=True), zero_value_of(inner))
        return string_map_decoder(slow) if _is_text(inner) else slow
    go, make, _ = SCALAR_DECODERS[schema["type"], schema.get("format", "")]
    return make(schema.get("x-go-type", go), keep=keep)


def _is_text(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "string" and "format" not in schema


def zero_value_of(schema: dict[str, Any]) -> Callable[[], Any]:
    """What null stands for in a list or a map."""
    if "$ref" in schema:
        walk = decoder_of(schema["$ref"])
        return SPECIAL_ZERO_VALUES.get(schema["$ref"], lambda: walk({}, None))
    if schema["type"] in {"array", "object"}:
        return lambda: None
    zero = SCALAR_DECODERS[schema["type"], schema.get("format", "")][2]
    return lambda: zero


def _filling_of(schema: dict[str, Any]) -> Callable[[], Any]:
    """What is printed of an absent field: its default, or what Go cannot leave out."""
    default = schema.get("x-go-zero", schema.get("default"))
    if isinstance(default, dict):
        walk = _decoder_for(schema, keep=True)
        return lambda: walk(default, None)
    return lambda: default


def go_type(schema: dict[str, Any]) -> str:
    """How Go names the type."""
    if "x-go-type" in schema:
        return str(schema["x-go-type"])
    if "$ref" in schema:
        return ".".join(schema["$ref"].split(".")[-2:])
    if schema["type"] == "array":
        return "[]" + go_type(schema["items"])
    if schema["type"] == "object":
        return "map[string]" + go_type(schema["additionalProperties"])
    return SCALAR_DECODERS[schema["type"], schema.get("format", "")][0]


# Unknown fields: found, named by their path, and left out. Only a body that has some comes
# here.


Schema = dict[str, Any]
UNSTRUCTURED_TYPES = {*SPECIAL_DECODERS, *UNION_DECODERS}  # types that are not looked into
MAX_UNKNOWN_FIELDS = 100  # Go's decoder stops telling here


def prune_unknown_fields(obj: Any, name: str, told: list[str]) -> Any:
    """The object without what the definition does not know; the paths are told in the order of
    the document.
    """
    return _prune(obj, {"$ref": name}, "", told)


def _prune(value: Any, schema: dict[str, Any], path: str, told: list[str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return original_if_unchanged(
            value,
            [
                _prune(part, schema["items"], f"{path}[{place}]", told)
                for place, part in enumerate(value)
            ],
        )
    if not isinstance(value, dict) or schema.get("$ref") in UNSTRUCTURED_TYPES:
        return value
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        return original_if_unchanged(
            value,
            {name: _prune(part, inner, f"{path}.{name}", told) for name, part in value.items()},
        )
    if "$ref" not in schema:
        return value
    properties, kept = definition(schema["$ref"]).get("properties", {}), {}
    for name, part in value.items():
        if name in properties:
            kept[name] = _prune(part, properties[name], f"{path}.{name}" if path else name, told)
        elif len(told) < MAX_UNKNOWN_FIELDS:
            told.append(f"{path}.{name}" if path else name)
    return original_if_unchanged(value, kept)


def original_if_unchanged(value: Any, pruned: Any) -> Any:
    """The very object that came, if nothing was left out: then it may still be the old one's
    own.
    """
    if len(value) != len(pruned):
        return pruned
    pairs = (
        zip(value.values(), pruned.values(), strict=True)
        if isinstance(value, dict)
        else zip(value, pruned, strict=True)
    )
    return value if all(before is after for before, after in pairs) else pruned
