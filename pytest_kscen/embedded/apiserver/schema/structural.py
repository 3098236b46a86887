"""Decoding of custom objects by a structural schema: unknown fields, nulls and defaults in one
pass.

An unchanged part is returned as the old object's own part, so that later stages can skip it.
Branches are compiled when a value first reaches them, since definitions may be huge. Also resolves
field paths of rules and selectable fields.
"""

from __future__ import annotations

import operator
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.schema.compiling import (
    decoder_of,
    original_if_unchanged,
    prune_unknown_fields,
)
from pytest_kscen.embedded.apiserver.schema.decode_errors import (
    DecodeError,
    EmbeddedResourceError,
    UnknownField,
)
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY, is_identical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.schema.scalars import Decoder

    Schema = dict[str, Any]
    from pytest_kscen.objects.resources import Obj


def prune_custom_fields(obj: Any, schema: dict[str, Any], unknown: list[str]) -> Any:
    """Return a custom object without unknown fields.

    Paths are appended to `unknown`: those in the metadata, sorted those of the schema, then those
    in embedded resources.
    """
    metadata = prune_unknown_fields(obj.get("metadata"), OBJECT_META, unknown)
    unknown[:] = [f"metadata.{path}" for path in unknown]
    found: list[str] = []
    in_embedded: list[str] = []
    rest = {name: part for name, part in obj.items() if name not in HEAD_FIELDS}
    known = _prune_custom(rest, schema, "", found, in_embedded, preserved=False)
    unknown += [*sorted(found), *sorted(in_embedded)]
    head = {name: obj[name] for name in HEAD_FIELDS if name in obj}
    return {**head, **({"metadata": metadata} if "metadata" in obj else {}), **known}


def _prune_custom(
    value: Any,
    schema: Schema,
    path: str,
    unknown: list[str],
    in_embedded: list[str],
    *,
    preserved: bool,
) -> Any:
    preserved = preserved or bool(schema.get(PRESERVE))
    if isinstance(value, list):
        items = schema.get("items", NO_SCHEMA)
        parts = enumerate(value)
        return original_if_unchanged(
            value,
            [
                _prune_custom(
                    part, items, f"{path}[{index}]", unknown, in_embedded, preserved=preserved
                )
                for index, part in parts
            ],
        )
    if not isinstance(value, dict):
        return value
    left: dict[str, Any] = {}
    for name, part in value.items():
        member_path = f"{path}.{name}" if path else name
        inner = member_schema(schema, name)
        if schema.get(EMBEDDED) and name in HEAD_FIELDS:
            if name == "metadata":
                found: list[str] = []
                left[name] = prune_unknown_fields(part, OBJECT_META, found)
                in_embedded += [f"{member_path}.{unknown_path}" for unknown_path in found]
            else:
                left[name] = part
        elif inner is not None:
            left[name] = _prune_custom(
                part, inner, member_path, unknown, in_embedded, preserved=False
            )
        elif preserved:
            left[name] = part
        else:
            unknown.append(member_path)
    return original_if_unchanged(value, left)


INT64_LIMIT = 1 << 63
TEXT_AND_BOOL = frozenset([str, bool])
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
TYPE_META = ("apiVersion", "kind")
HEAD_FIELDS = (*TYPE_META, "metadata")
NO_SCHEMA: Obj = {}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def decode_untyped(value: Any, old: Any) -> Any:
    """Copy any JSON with numbers in Go's form, except the parts that equal the old object's: those
    are shared.
    """
    if value is old:
        return value
    if type(value) is dict:
        before = old if type(old) is dict else EMPTY
        return old_if_same(
            {name: decode_untyped(part, before.get(name)) for name, part in value.items()}, old
        )
    if type(value) is list:
        was = old if type(old) is list else ()
        return old_list_if_same(
            [
                decode_untyped(part, was[index] if index < len(was) else None)
                for index, part in enumerate(value)
            ],
            old,
        )
    return old if type(value) is str and value == old else normalize_number(value)


def old_if_same(new: Obj, old: Any) -> Obj:
    """Return the old object if the new one has the same parts in the same order.

    Sharing it lets later stages skip it. Otherwise the new object is returned.
    """
    if type(old) is dict and len(new) == len(old):
        for (name, part), (before, was) in zip(new.items(), old.items(), strict=True):
            if part is not was or name != before:
                return new
        return old
    return new


def old_list_if_same(new: list[Any], old: Any) -> list[Any]:
    if type(old) is list and len(new) == len(old) and all(map(operator.is_, new, old)):
        return old
    return new


def normalize_number(value: Any) -> Any:
    """Return a whole float as an integer, and an integer that is no int64 as a float, like Go's
    decoder.
    """
    if type(value) is float and value.is_integer() and abs(value) < INT64_LIMIT:
        return int(value)
    if type(value) is int and not -INT64_LIMIT <= value < INT64_LIMIT:
        return float(value)
    return value


def structural_decoder(schema: Obj, *, preserved: bool = False) -> Decoder:
    """Return the decoder of a schema.

    `preserved` means that a schema above it preserves unknown fields.
    """
    preserved = preserved or bool(schema.get(PRESERVE))
    if preserved and not any(
        key in schema for key in ("properties", "items", "additionalProperties", EMBEDDED)
    ):
        return decode_untyped
    head = EMBEDDED_HEAD_DECODERS if schema.get(EMBEDDED) else EMPTY
    objects, lists = (
        _object_decoder(schema, preserved=preserved, head=head),
        _list_decoder(schema, preserved=preserved),
    )

    def decode(value: Any, old: Any) -> Any:
        if value is old:
            return value
        if type(value) is dict:
            return (
                old
                if type(old) is dict and is_identical_json(value, old)
                else old_if_same(objects(value, old), old)
            )
        if type(value) is list:
            return old if type(old) is list and is_identical_json(value, old) else lists(value, old)
        return old if type(value) is str and value == old else normalize_number(value)

    return decode


def root_decoder(schema: Obj) -> Decoder:
    """Return the decoder of whole objects. Faults in their metadata are reported without a path, as
    in the real server.
    """
    return _object_decoder(schema, preserved=bool(schema.get(PRESERVE)), head=ROOT_HEAD_DECODERS)


class _MemberDecoders(dict[str, "Decoder"]):
    """Decoders of an object's fields, each compiled on first use. Raises UnknownField for a field
    without a schema.
    """

    def __init__(self, schema: Obj, *, preserved: bool) -> None:
        super().__init__()
        self._schema, self._kept = schema, preserved

    def __missing__(self, name: str) -> Decoder:
        schema = member_schema(self._schema, name)
        if schema is None and not self._kept:
            raise UnknownField
        decode = self[name] = decode_untyped if schema is None else structural_decoder(schema)
        return decode


def member_schema(schema: Obj, name: str) -> Obj | None:
    """Return the schema of an object's field, from `properties` or `additionalProperties`; None if
    the field is unknown.
    """
    properties: Obj = schema.get("properties", EMPTY)
    if name in properties:
        found: Obj = properties[name]
        return found
    more = schema.get("additionalProperties")
    return more if isinstance(more, dict) else NO_SCHEMA if more else None


def _object_decoder(
    schema: Obj, *, preserved: bool, head: Mapping[str, Decoder] = EMPTY
) -> Decoder:
    """Return the decoder of an object. `head` holds decoders of fields that the schema does not
    decide about.
    """
    members = _MemberDecoders(schema, preserved=preserved)
    members.update(head)
    is_plain = not head  # decoders of the head may refuse a text
    defaults: dict[str, Callable[[], Any]] | None = None

    def decode(value: Any, old: Any) -> Any:
        nonlocal defaults
        if defaults is None:
            defaults = default_factories(schema)
        before = (old if type(old) is dict else EMPTY).get
        new, name = {}, ""
        try:
            for name, part in value.items():
                if part is None and drops_null(schema, name):
                    continue
                member, was = members[name], before(name)
                if part is was and part is not None:
                    new[name] = part
                elif is_plain and type(part) in TEXT_AND_BOOL:
                    new[name] = was if part == was and type(was) is str else part
                else:
                    new[name] = member(part, was)
        except EmbeddedResourceError as error:
            named = name in head or name in schema.get("properties", EMPTY)
            error.prepend(f".{name}" if named else f"[{name}]")
            raise
        for name, default in defaults.items():
            if name not in new:
                new[name] = default()
        return new

    return decode


def drops_null(schema: Obj, name: str) -> bool:
    """Report whether null stands for absence in this field, which is not nullable. A default
    applies afterwards.
    """
    inner = member_schema(schema, name)
    return inner is not None and inner is not NO_SCHEMA and not inner.get("nullable")


def default_factories(schema: Obj) -> dict[str, Callable[[], Any]]:
    """Return the factories of the defaults of an object's fields. Each call makes a copy, complete
    with the nested defaults.
    """
    properties = schema.get("properties", EMPTY)
    return {
        name: partial(decode_untyped, structural_decoder(inner)(inner["default"], None), None)
        for name, inner in properties.items()
        if inner.get("default") is not None
    }


def _list_decoder(schema: Obj, *, preserved: bool) -> Decoder:
    items = schema.get("items", NO_SCHEMA)
    element: Decoder | None = None
    default = None if items.get("nullable") else items.get("default")

    def decode(value: Any, old: Any) -> Any:
        nonlocal element
        if element is None:
            element = structural_decoder(items, preserved=preserved)
        before = old if type(old) is list else []
        index = 0
        new = []
        try:
            for index, part in enumerate(value):
                given = default if part is None else part
                new.append(element(given, before[index] if index < len(before) else None))
        except EmbeddedResourceError as error:
            error.prepend(f"[{index}]")
            raise
        return old_list_if_same(new, old)

    return decode


def _decode_head_string(value: Any, _: Any) -> Any:
    """Decode the apiVersion or kind of an embedded resource, which must be a string."""
    if type(value) is not str:
        raise EmbeddedResourceError(value, "must be a string")
    return value


def _decode_root_metadata(value: Any, old: Any) -> Any:
    return decoder_of(OBJECT_META)({} if value is None else value, old)


def _decode_embedded_metadata(value: Any, old: Any) -> Any:
    try:
        return _decode_root_metadata(value, old)
    except DecodeError as error:
        raise EmbeddedResourceError(value, str(error)) from None


EMBEDDED_HEAD_DECODERS: Mapping[str, Decoder] = {
    **dict.fromkeys(TYPE_META, _decode_head_string),
    "metadata": _decode_embedded_metadata,
}
ROOT_HEAD_DECODERS: Mapping[str, Decoder] = {
    **dict.fromkeys(TYPE_META, decode_untyped),
    "metadata": _decode_root_metadata,
}


PATH_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
INVALID_FIELD = "does not refer to a valid field"
UNEXPECTED_END = "unexpected end of JSON path"


class InvalidFieldPath(ValueError):
    """Field path that cannot be resolved; the text is the real server's message."""


def resolve_field_path(path: str, schema: Obj, *, by_key: bool = True) -> tuple[str, Obj]:
    """Return a path such as `.spec.replicas` or `.labels['a.b']` in Kubernetes' form, and the
    schema at its end.

    `by_key` permits the bracket notation. Raises InvalidFieldPath.
    """
    tokens, written = PATH_TOKEN.findall(path)[::-1], ""
    while tokens:
        opening = tokens.pop()
        if opening == "[" and not by_key:
            raise InvalidFieldPath("array notation is not allowed")
        if opening not in {"[", "."}:
            raise InvalidFieldPath(f"expected [ or . but got: {opening}")
        if not tokens:
            raise InvalidFieldPath(UNEXPECTED_END)
        name = tokens.pop() if opening == "." else _parse_quoted_key(tokens)
        properties = schema.get("properties") or EMPTY
        if name in properties:
            step, schema = f".{name}", properties[name]
        else:
            more = schema.get("additionalProperties")
            if properties or not isinstance(more, dict):
                raise InvalidFieldPath(INVALID_FIELD)
            step, schema = f"[{name}]", more
        written += step
    return written.removeprefix("."), schema


def _parse_quoted_key(tokens: list[str]) -> str:
    quoted = tokens.pop()
    if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":  # noqa: PLR2004 - the two quotes
        raise InvalidFieldPath(f"expected single quoted string but got {quoted}")
    if not tokens:
        raise InvalidFieldPath(UNEXPECTED_END)
    if (closing := tokens.pop()) != "]":
        raise InvalidFieldPath(f"expected ] but got {closing}")
    return quoted[1:-1].replace(r"\'", "'").replace(r"\\", "\\")
