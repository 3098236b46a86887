"""Custom objects on their way in: unknown fields dropped, nulls judged, defaults filled in, all in
one walk.

What comes out as it was before is the old object's own part, so that whoever comes later need not
look into it. A structural schema is compiled branch by branch, when a value first reaches the
branch: definitions may be huge."""

from __future__ import annotations

import operator
import re
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

    from pytest_kscen.embedded.apiserver.schema.scalars import Walk

    Schema = dict[str, Any]
    from pytest_kscen.objects.resources import Obj


def prune_custom_fields(obj: Any, schema: dict[str, Any], told: list[str]) -> Any:
    """The same for a custom object: first those in its metadata, then those that its schema does
    not know, sorted.
    """
    metadata = prune_unknown_fields(obj.get("metadata"), OBJECT_META, told)
    told[:] = [f"metadata.{path}" for path in told]
    found: list[str] = []
    in_embedded: list[str] = []
    rest = {name: part for name, part in obj.items() if name not in HEAD_FIELDS}
    known = _prune_custom(rest, schema, "", found, in_embedded, kept=False)
    told += [*sorted(found), *sorted(in_embedded)]
    head = {name: obj[name] for name in HEAD_FIELDS if name in obj}
    return {**head, **({"metadata": metadata} if "metadata" in obj else {}), **known}


def _prune_custom(
    value: Any, schema: Schema, path: str, told: list[str], in_embedded: list[str], *, kept: bool
) -> Any:
    kept = kept or bool(schema.get(PRESERVE))
    if isinstance(value, list):
        items = schema.get("items", NO_SCHEMA)
        parts = enumerate(value)
        return original_if_unchanged(
            value,
            [
                _prune_custom(part, items, f"{path}[{place}]", told, in_embedded, kept=kept)
                for place, part in parts
            ],
        )
    if not isinstance(value, dict):
        return value
    left: dict[str, Any] = {}
    for name, part in value.items():
        below = f"{path}.{name}" if path else name
        inner = member_schema(schema, name)
        if schema.get(EMBEDDED) and name in HEAD_FIELDS:
            left[name] = _prune_embedded_head(name, part, below, in_embedded)
        elif inner is not None:
            left[name] = _prune_custom(part, inner, below, told, in_embedded, kept=False)
        elif kept:
            left[name] = part
        else:
            told.append(below)
    return original_if_unchanged(value, left)


def _prune_embedded_head(name: str, part: Any, path: str, told: list[str]) -> Any:
    if name != "metadata":
        return part
    found: list[str] = []
    metadata = prune_unknown_fields(part, OBJECT_META, found)
    told += [f"{path}.{stranger}" for stranger in found]
    return metadata


INT64_LIMIT = 1 << 63
TEXT_AND_BOOL = frozenset([str, bool])
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
TYPE_META = ("apiVersion", "kind")
HEAD_FIELDS = (*TYPE_META, "metadata")
NO_SCHEMA: Obj = {}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def decode_untyped(value: Any, old: Any) -> Any:
    """A copy of any JSON that is not the old object's own, its numbers as Go has them."""
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
                decode_untyped(part, was[place] if place < len(was) else None)
                for place, part in enumerate(value)
            ],
            old,
        )
    return old if type(value) is str and value == old else normalize_number(value)


def old_if_same(new: Obj, old: Any) -> Obj:
    """The old object itself, if the new one has nothing but its parts, in its order."""
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
    """Whole numbers are integers, and what is no int64 is a float."""
    if type(value) is float and value.is_integer() and abs(value) < INT64_LIMIT:
        return int(value)
    if type(value) is int and not -INT64_LIMIT <= value < INT64_LIMIT:
        return float(value)
    return value


def structural_decoder(schema: Obj, *, kept: bool = False) -> Walk:
    """The walk of a schema. `kept`: unknown fields are kept, because a schema above says so."""
    kept = kept or bool(schema.get(PRESERVE))
    if kept and not any(
        key in schema for key in ("properties", "items", "additionalProperties", EMBEDDED)
    ):
        return decode_untyped
    head = EMBEDDED_HEAD_DECODERS if schema.get(EMBEDDED) else EMPTY
    objects, lists = _object_decoder(schema, kept=kept, head=head), _list_decoder(schema, kept=kept)

    def walk(value: Any, old: Any) -> Any:
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

    return walk


def root_decoder(schema: Obj) -> Walk:
    """The walk of whole objects.

    What is wrong in their metadata is told without a path, as Kubernetes does.
    """
    return _object_decoder(schema, kept=bool(schema.get(PRESERVE)), head=ROOT_HEAD_DECODERS)


class _MemberDecoders(dict[str, "Walk"]):
    """The walks of an object's fields, each compiled at its first use."""

    def __init__(self, schema: Obj, *, kept: bool) -> None:
        super().__init__()
        self._schema, self._kept = schema, kept

    def __missing__(self, name: str) -> Walk:
        schema = member_schema(self._schema, name)
        if schema is None and not self._kept:
            raise UnknownField
        walk = self[name] = decode_untyped if schema is None else structural_decoder(schema)
        return walk


def member_schema(schema: Obj, name: str) -> Obj | None:
    """The schema of an object's field, if it has one."""
    properties: Obj = schema.get("properties", EMPTY)
    if name in properties:
        found: Obj = properties[name]
        return found
    more = schema.get("additionalProperties")
    return more if isinstance(more, dict) else NO_SCHEMA if more else None


def _object_decoder(schema: Obj, *, kept: bool, head: Mapping[str, Walk] = EMPTY) -> Walk:
    """The walk of an object; `head` are the fields that have a walk whatever the schema says."""
    members = _MemberDecoders(schema, kept=kept)
    members.update(head)
    is_plain = not head  # which may have words of its own about texts
    defaults: dict[str, Callable[[], Any]] | None = None

    def walk(value: Any, old: Any) -> Any:
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
        except EmbeddedResourceError as misfit:
            named = name in head or name in schema.get("properties", EMPTY)
            misfit.below(f".{name}" if named else f"[{name}]")
            raise
        for name, default in defaults.items():
            if name not in new:
                new[name] = default()
        return new

    return walk


def drops_null(schema: Obj, name: str) -> bool:
    """Null is nothing, where it may not be; what has a default gets it then."""
    inner = member_schema(schema, name)
    return inner is not None and inner is not NO_SCHEMA and not inner.get("nullable")


def default_factories(schema: Obj) -> dict[str, Callable[[], Any]]:
    """The defaults of an object's fields, each with those inside it; a new copy for each object."""
    properties = schema.get("properties", EMPTY)
    return {
        name: _default_factory(inner)
        for name, inner in properties.items()
        if inner.get("default") is not None
    }


def _default_factory(schema: Obj) -> Callable[[], Any]:
    default = structural_decoder(schema)(schema["default"], None)
    return lambda: decode_untyped(default, None)


def _list_decoder(schema: Obj, *, kept: bool) -> Walk:
    items = schema.get("items", NO_SCHEMA)
    element: Walk | None = None
    default = None if items.get("nullable") else items.get("default")

    def walk(value: Any, old: Any) -> Any:
        nonlocal element
        if element is None:
            element = structural_decoder(items, kept=kept)
        before = old if type(old) is list else []
        place = 0
        new = []
        try:
            for place, part in enumerate(value):
                given = default if part is None else part
                new.append(element(given, before[place] if place < len(before) else None))
        except EmbeddedResourceError as misfit:
            misfit.below(f"[{place}]")
            raise
        return old_list_if_same(new, old)

    return walk


def _decode_head_string(value: Any, _: Any) -> Any:
    """An embedded resource's apiVersion or kind."""
    if type(value) is not str:
        raise EmbeddedResourceError(value, "must be a string")
    return value


def _decode_root_metadata(value: Any, old: Any) -> Any:
    return decoder_of(OBJECT_META)({} if value is None else value, old)


def _decode_embedded_metadata(value: Any, old: Any) -> Any:
    try:
        return _decode_root_metadata(value, old)
    except DecodeError as misfit:
        raise EmbeddedResourceError(value, str(misfit)) from None


EMBEDDED_HEAD_DECODERS: Mapping[str, Walk] = {
    **dict.fromkeys(TYPE_META, _decode_head_string),
    "metadata": _decode_embedded_metadata,
}
ROOT_HEAD_DECODERS: Mapping[str, Walk] = {
    **dict.fromkeys(TYPE_META, decode_untyped),
    "metadata": _decode_root_metadata,
}


# Paths in a definition that point to a field of its schema: `.spec.replicas`, and
# `.labels['a.b']` in rules.


PATH_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
INVALID_FIELD = "does not refer to a valid field"
UNEXPECTED_END = "unexpected end of JSON path"


class InvalidFieldPath(ValueError):
    """The text says why."""


def resolve_field_path(path: str, schema: Obj, *, by_key: bool = True) -> tuple[str, Obj]:
    """The path as Kubernetes writes it, and the schema that it leads to."""
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
