"""Decoders of built-in types, compiled from recorded OpenAPI definitions.

A decoder maps a value and the old object's value to what the real server would store. Unchanged
parts are returned as the old object's own. Called by `builtin`, `structural` and query decoding.
"""

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

    from pytest_kscen.embedded.apiserver.schema.scalars import Decoder

    Filling = tuple[str, Callable[[], Any]]


SCHEMA = f"{APIEXTENSIONS_V1}.JSONSchemaProps"


def union_decoders(decoder_of_type: Callable[[str], Decoder]) -> dict[str, Decoder]:
    """Return the decoders of JSONSchemaProps unions by definition: a schema or a boolean, list or
    names.
    """

    def schema(value: Any, old: Any) -> Any:
        """Decode a schema inside a definition. Unknown fields are dropped silently, as the real
        server does.
        """
        try:
            return decoder_of_type(SCHEMA)(value, old)
        except UnknownField:
            return decoder_of_type(SCHEMA)(prune_unknown_fields(value, SCHEMA, []), old)

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

    decoders = {
        "JSONSchemaPropsOrBool": or_bool,
        "JSONSchemaPropsOrArray": or_list,
        "JSONSchemaPropsOrStringArray": or_names,
    }
    return {f"{APIEXTENSIONS_V1}.{name}": decode for name, decode in decoders.items()}


GO_MAP, GO_SLICE = "map[", "[]"
TRUTH_IS_CHEAP = frozenset(
    [str, int, float, bool, dict, list]
)  # types whose truth value costs no call


@dataclass(slots=True)
class StructMembers:
    """Members of a struct: decoders of its fields, and what Go prints of absent ones.

    `fillings` are pairs of a field and the factory of its value. `labels` are the names of fields
    in Go's error paths, where they differ.
    """

    fields: dict[str, Decoder] = field(default_factory=dict)
    fillings: list[Filling] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


def struct_decoder(name: str, go_type: str, load: Callable[[StructMembers], None]) -> Decoder:
    """Return the decoder of a struct. `load` fills in the members when the first value arrives,
    since types may be recursive.
    """
    members = StructMembers()
    fields, fillings = members.fields, members.fillings
    decoder_of_type = fields.get

    def decode(value: Any, old: Any) -> Any:
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
        member = ""
        try:
            for member, part in value.items():
                was = old_part(member)
                if part is was and type(part) in TRUTH_IS_CHEAP and part and member in fields:
                    new[member] = part  # decoded before, as part of the old object
                elif (
                    found := decoder_of_type(member, reject_unknown_field)(part, was)
                ) is not None:
                    new[member] = found
        except DecodeError as error:
            error.add_step(name, members.labels.get(member, member))
            raise
        return _with_fillings(new, fillings) if fillings else new

    return decode


def _with_fillings(new: dict[str, Any], fillings: list[Filling]) -> dict[str, Any]:
    for missing, filling in fillings:
        if missing not in new:
            new[missing] = filling()
    return new


def reject_unknown_field(_value: Any, _old: Any) -> Any:
    """Raise UnknownField: stands in for the decoder of a field that the struct does not have."""
    raise UnknownField


def list_decoder(
    go_type: str, element: Decoder, zero: Callable[[], Any], *, keep: bool = False
) -> Decoder:
    """Return the decoder of a slice.

    An empty list decodes to None unless `keep` is set. Null among the elements becomes the zero
    value.
    """

    def decode(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not list:
            if not isinstance(value, list):
                raise TypeMismatch(value, go_type, basic=GO_SLICE)
            value = list(value)  # a lazy list
        if type(old) is list:
            if value and is_identical_json(value, old):
                return old
            new = [element(part, before) for part, before in zip_longest(value, old[: len(value)])]
        else:
            new = [element(part, None) for part in value]
        if None in new:
            new = [zero() if part is None else part for part in new]
        return new if new or keep else None

    return decode


def map_decoder(go_type: str, element: Decoder, zero: Callable[[], Any]) -> Decoder:
    """Return the decoder of a map with text keys.

    An empty map decodes to None. Null among the values becomes the zero value.
    """

    def decode(value: Any, old: Any) -> Any:
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

    return decode


def string_list_decoder(slow: Decoder) -> Decoder:
    """Return a fast decoder of lists of plain strings.

    Anything else goes to the decoder `slow`.
    """

    def decode(value: Any, old: Any) -> Any:
        if value is old or type(value) is not list:
            return slow(value, old)
        for part in value:
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is list else value.copy() or None

    return decode


def string_map_decoder(slow: Decoder) -> Decoder:
    """Return a fast decoder of maps of strings to strings, the most frequent maps.

    Anything else goes to the decoder `slow`.
    """

    def decode(value: Any, old: Any) -> Any:
        if value is old or type(value) is not dict:
            return slow(value, old)
        for part in value.values():
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is dict else value.copy() or None

    return decode


MANAGED_FIELDS_ENTRY = (
    f"{META_V1}.ManagedFieldsEntry"  # an empty list requests that managed fields be cleared
)
SCALAR_DECODERS: dict[tuple[str, str], tuple[str, Callable[..., Decoder], Any]] = {
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
def decoder_of(name: str) -> Decoder:
    """Return the decoder of a definition. It is compiled once per process, when a value first
    reaches it.
    """
    if name in SPECIAL_DECODERS:
        return SPECIAL_DECODERS[name]
    if name in UNION_DECODERS:
        return UNION_DECODERS[name]

    def load(members: StructMembers) -> None:
        for field_name, schema in definition(name).get("properties", {}).items():
            members.fields[field_name] = _decoder_for(
                schema, keep=schema.get("x-go-pointer", False)
            )
            if "x-go-path" in schema:
                members.labels[field_name] = schema["x-go-path"]
            if ("default" in schema and "x-go-omitted" not in schema) or "x-go-zero" in schema:
                members.fillings.append((field_name, _filling_of(schema)))

    return struct_decoder(name.rpartition(".")[2], go_type({"$ref": name}), load)


UNION_DECODERS = union_decoders(decoder_of)


def _decoder_for(schema: dict[str, Any], *, keep: bool) -> Decoder:
    if "$ref" in schema:
        return decoder_of(schema["$ref"])
    if schema["type"] == "array":
        inner = schema["items"]
        decode = list_decoder(
            go_type(schema),
            _decoder_for(inner, keep=True),
            zero_value_of(inner),
            keep=inner.get("$ref") == MANAGED_FIELDS_ENTRY,
        )
        return string_list_decoder(decode) if _is_text(inner) else decode
    if schema["type"] == "object":
        inner = schema["additionalProperties"]
        slow = map_decoder(go_type(schema), _decoder_for(inner, keep=True), zero_value_of(inner))
        return string_map_decoder(slow) if _is_text(inner) else slow
    go, make, _ = SCALAR_DECODERS[schema["type"], schema.get("format", "")]
    return make(schema.get("x-go-type", go), keep=keep)


def _is_text(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "string" and "format" not in schema


def zero_value_of(schema: dict[str, Any]) -> Callable[[], Any]:
    """Return the factory of the value that replaces null in a list or map of this schema."""
    if "$ref" in schema:
        decode = decoder_of(schema["$ref"])
        return SPECIAL_ZERO_VALUES.get(schema["$ref"], lambda: decode({}, None))
    if schema["type"] in {"array", "object"}:
        return lambda: None
    zero = SCALAR_DECODERS[schema["type"], schema.get("format", "")][2]
    return lambda: zero


def _filling_of(schema: dict[str, Any]) -> Callable[[], Any]:
    """Return the factory of the value that Go prints for an absent field.

    The value is the field's default, or a zero that Go cannot omit.
    """
    default = schema.get("x-go-zero", schema.get("default"))
    if isinstance(default, dict):
        decode = _decoder_for(schema, keep=True)
        return lambda: decode(default, None)
    return lambda: default


def go_type(schema: dict[str, Any]) -> str:
    """Return the name of a schema's type in Go, as error messages print it."""
    if "x-go-type" in schema:
        return str(schema["x-go-type"])
    if "$ref" in schema:
        return ".".join(schema["$ref"].split(".")[-2:])
    if schema["type"] == "array":
        return "[]" + go_type(schema["items"])
    if schema["type"] == "object":
        return "map[string]" + go_type(schema["additionalProperties"])
    return SCALAR_DECODERS[schema["type"], schema.get("format", "")][0]


Schema = dict[str, Any]
UNSTRUCTURED_TYPES = {*SPECIAL_DECODERS, *UNION_DECODERS}  # types that are not looked into
MAX_UNKNOWN_FIELDS = 100  # Go's decoder reports no more


def prune_unknown_fields(obj: Any, name: str, unknown: list[str]) -> Any:
    """Return the object without the fields that its definition does not have.

    Their paths are appended to `unknown` in document order, at most 100. The same object is
    returned if there are none.
    """
    return _prune(obj, {"$ref": name}, "", unknown)


def _prune(value: Any, schema: dict[str, Any], path: str, unknown: list[str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return original_if_unchanged(
            value,
            [
                _prune(part, schema["items"], f"{path}[{index}]", unknown)
                for index, part in enumerate(value)
            ],
        )
    if not isinstance(value, dict) or schema.get("$ref") in UNSTRUCTURED_TYPES:
        return value
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        return original_if_unchanged(
            value,
            {name: _prune(part, inner, f"{path}.{name}", unknown) for name, part in value.items()},
        )
    if "$ref" not in schema:
        return value
    properties, kept = definition(schema["$ref"]).get("properties", {}), {}
    for name, part in value.items():
        if name in properties:
            kept[name] = _prune(part, properties[name], f"{path}.{name}" if path else name, unknown)
        elif len(unknown) < MAX_UNKNOWN_FIELDS:
            unknown.append(f"{path}.{name}" if path else name)
    return original_if_unchanged(value, kept)


def original_if_unchanged(value: Any, pruned: Any) -> Any:
    """Return the original container if nothing was pruned: it may be the old object's own part,
    which must stay shared.
    """
    if len(value) != len(pruned):
        return pruned
    pairs = (
        zip(value.values(), pruned.values(), strict=True)
        if isinstance(value, dict)
        else zip(value, pruned, strict=True)
    )
    return value if all(before is after for before, after in pairs) else pruned
