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
    same_or_pruned,
    walk_of,
    without_strangers,
)
from pytest_kscen.embedded.apiserver.schema.decode_errors import Misplaced, Stranger, Unfit
from pytest_kscen.embedded.apiserver.schema.scalars import NOTHING, repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.schema.scalars import Walk

    Schema = dict[str, Any]
    from pytest_kscen.objects.resources import Obj


def without_custom_strangers(obj: Any, schema: dict[str, Any], told: list[str]) -> Any:
    """The same for a custom object: first those in its metadata, then those that its schema does
    not know, sorted.
    """
    metadata = without_strangers(obj.get("metadata"), OBJECT_META, told)
    told[:] = [f"metadata.{path}" for path in told]
    found: list[str] = []
    in_embedded: list[str] = []
    rest = {name: part for name, part in obj.items() if name not in HEAD}
    known = _pruned_custom(rest, schema, "", found, in_embedded, kept=False)
    told += [*sorted(found), *sorted(in_embedded)]
    head = {name: obj[name] for name in HEAD if name in obj}
    return {**head, **({"metadata": metadata} if "metadata" in obj else {}), **known}


def _pruned_custom(
    value: Any, schema: Schema, path: str, told: list[str], in_embedded: list[str], *, kept: bool
) -> Any:
    kept = kept or bool(schema.get(PRESERVE))
    if isinstance(value, list):
        items = schema.get("items", NO_SCHEMA)
        parts = enumerate(value)
        return same_or_pruned(
            value,
            [
                _pruned_custom(part, items, f"{path}[{place}]", told, in_embedded, kept=kept)
                for place, part in parts
            ],
        )
    if not isinstance(value, dict):
        return value
    left: dict[str, Any] = {}
    for name, part in value.items():
        below = f"{path}.{name}" if path else name
        inner = member_schema(schema, name)
        if schema.get(EMBEDDED) and name in HEAD:
            left[name] = _embedded_head(name, part, below, in_embedded)
        elif inner is not None:
            left[name] = _pruned_custom(part, inner, below, told, in_embedded, kept=False)
        elif kept:
            left[name] = part
        else:
            told.append(below)
    return same_or_pruned(value, left)


def _embedded_head(name: str, part: Any, path: str, told: list[str]) -> Any:
    if name != "metadata":
        return part
    found: list[str] = []
    metadata = without_strangers(part, OBJECT_META, found)
    told += [f"{path}.{stranger}" for stranger in found]
    return metadata


LARGEST = 1 << 63
TEXT_OR_TRUTH = frozenset([str, bool])
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
TYPE_META = ("apiVersion", "kind")
HEAD = (*TYPE_META, "metadata")
NO_SCHEMA: Obj = {}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def plain(value: Any, old: Any) -> Any:
    """A copy of any JSON that is not the old object's own, its numbers as Go has them."""
    if value is old:
        return value
    if type(value) is dict:
        before = old if type(old) is dict else NOTHING
        return or_old({name: plain(part, before.get(name)) for name, part in value.items()}, old)
    if type(value) is list:
        was = old if type(old) is list else ()
        return or_old_list(
            [
                plain(part, was[place] if place < len(was) else None)
                for place, part in enumerate(value)
            ],
            old,
        )
    return old if type(value) is str and value == old else number(value)


def or_old(new: Obj, old: Any) -> Obj:
    """The old object itself, if the new one has nothing but its parts, in its order."""
    if type(old) is dict and len(new) == len(old):
        for (name, part), (before, was) in zip(new.items(), old.items(), strict=True):
            if part is not was or name != before:
                return new
        return old
    return new


def or_old_list(new: list[Any], old: Any) -> list[Any]:
    if type(old) is list and len(new) == len(old) and all(map(operator.is_, new, old)):
        return old
    return new


def number(value: Any) -> Any:
    """Whole numbers are integers, and what is no int64 is a float."""
    if type(value) is float and value.is_integer() and abs(value) < LARGEST:
        return int(value)
    if type(value) is int and not -LARGEST <= value < LARGEST:
        return float(value)
    return value


def walk_by(schema: Obj, *, kept: bool = False) -> Walk:
    """The walk of a schema. `kept`: unknown fields are kept, because a schema above says so."""
    kept = kept or bool(schema.get(PRESERVE))
    if kept and not any(
        key in schema for key in ("properties", "items", "additionalProperties", EMBEDDED)
    ):
        return plain
    head = EMBEDDED_HEAD if schema.get(EMBEDDED) else NOTHING
    objects, lists = _objects(schema, kept=kept, head=head), _lists(schema, kept=kept)

    def walk(value: Any, old: Any) -> Any:
        if value is old:
            return value
        if type(value) is dict:
            return (
                old
                if type(old) is dict and repeats(value, old)
                else or_old(objects(value, old), old)
            )
        if type(value) is list:
            return old if type(old) is list and repeats(value, old) else lists(value, old)
        return old if type(value) is str and value == old else number(value)

    return walk


def root_walk(schema: Obj) -> Walk:
    """The walk of whole objects.

    What is wrong in their metadata is told without a path, as Kubernetes does.
    """
    return _objects(schema, kept=bool(schema.get(PRESERVE)), head=ROOT_HEAD)


class _Members(dict[str, "Walk"]):
    """The walks of an object's fields, each compiled at its first use."""

    def __init__(self, schema: Obj, *, kept: bool) -> None:
        super().__init__()
        self._schema, self._kept = schema, kept

    def __missing__(self, name: str) -> Walk:
        schema = member_schema(self._schema, name)
        if schema is None and not self._kept:
            raise Stranger
        walk = self[name] = plain if schema is None else walk_by(schema)
        return walk


def member_schema(schema: Obj, name: str) -> Obj | None:
    """The schema of an object's field, if it has one."""
    properties: Obj = schema.get("properties", NOTHING)
    if name in properties:
        found: Obj = properties[name]
        return found
    more = schema.get("additionalProperties")
    return more if isinstance(more, dict) else NO_SCHEMA if more else None


def _objects(schema: Obj, *, kept: bool, head: Mapping[str, Walk] = NOTHING) -> Walk:
    """The walk of an object; `head` are the fields that have a walk whatever the schema says."""
    members = _Members(schema, kept=kept)
    members.update(head)
    is_plain = not head  # which may have words of its own about texts
    defaults: dict[str, Callable[[], Any]] | None = None

    def walk(value: Any, old: Any) -> Any:
        nonlocal defaults
        if defaults is None:
            defaults = defaults_of(schema)
        before = (old if type(old) is dict else NOTHING).get
        new, name = {}, ""
        try:
            for name, part in value.items():
                if part is None and drops_null(schema, name):
                    continue
                member, was = members[name], before(name)
                if part is was and part is not None:
                    new[name] = part
                elif is_plain and type(part) in TEXT_OR_TRUTH:
                    new[name] = was if part == was and type(was) is str else part
                else:
                    new[name] = member(part, was)
        except Misplaced as misfit:
            named = name in head or name in schema.get("properties", NOTHING)
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


def defaults_of(schema: Obj) -> dict[str, Callable[[], Any]]:
    """The defaults of an object's fields, each with those inside it; a new copy for each object."""
    properties = schema.get("properties", NOTHING)
    return {
        name: _filled(inner)
        for name, inner in properties.items()
        if inner.get("default") is not None
    }


def _filled(schema: Obj) -> Callable[[], Any]:
    default = walk_by(schema)(schema["default"], None)
    return lambda: plain(default, None)


def _lists(schema: Obj, *, kept: bool) -> Walk:
    items = schema.get("items", NO_SCHEMA)
    element: Walk | None = None
    default = None if items.get("nullable") else items.get("default")

    def walk(value: Any, old: Any) -> Any:
        nonlocal element
        if element is None:
            element = walk_by(items, kept=kept)
        before = old if type(old) is list else []
        place = 0
        new = []
        try:
            for place, part in enumerate(value):
                given = default if part is None else part
                new.append(element(given, before[place] if place < len(before) else None))
        except Misplaced as misfit:
            misfit.below(f"[{place}]")
            raise
        return or_old_list(new, old)

    return walk


def _word(value: Any, _: Any) -> Any:
    """An embedded resource's apiVersion or kind."""
    if type(value) is not str:
        raise Misplaced(value, "must be a string")
    return value


def _root_metadata(value: Any, old: Any) -> Any:
    return walk_of(OBJECT_META)({} if value is None else value, old)


def _metadata(value: Any, old: Any) -> Any:
    try:
        return _root_metadata(value, old)
    except Unfit as misfit:
        raise Misplaced(value, str(misfit)) from None


EMBEDDED_HEAD: Mapping[str, Walk] = {**dict.fromkeys(TYPE_META, _word), "metadata": _metadata}
ROOT_HEAD: Mapping[str, Walk] = {**dict.fromkeys(TYPE_META, plain), "metadata": _root_metadata}


# Paths in a definition that point to a field of its schema: `.spec.replicas`, and
# `.labels['a.b']` in rules.


TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
NOWHERE = "does not refer to a valid field"
CUT_OFF = "unexpected end of JSON path"


class BadPath(ValueError):
    """The text says why."""


def schema_at(path: str, schema: Obj, *, by_key: bool = True) -> tuple[str, Obj]:
    """The path as Kubernetes writes it, and the schema that it leads to."""
    tokens, written = TOKEN.findall(path)[::-1], ""
    while tokens:
        opening = tokens.pop()
        if opening == "[" and not by_key:
            raise BadPath("array notation is not allowed")
        if opening not in {"[", "."}:
            raise BadPath(f"expected [ or . but got: {opening}")
        if not tokens:
            raise BadPath(CUT_OFF)
        name = tokens.pop() if opening == "." else _key(tokens)
        properties = schema.get("properties") or NOTHING
        if name in properties:
            step, schema = f".{name}", properties[name]
        else:
            more = schema.get("additionalProperties")
            if properties or not isinstance(more, dict):
                raise BadPath(NOWHERE)
            step, schema = f"[{name}]", more
        written += step
    return written.removeprefix("."), schema


def _key(tokens: list[str]) -> str:
    quoted = tokens.pop()
    if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":  # noqa: PLR2004 - the two quotes
        raise BadPath(f"expected single quoted string but got {quoted}")
    if not tokens:
        raise BadPath(CUT_OFF)
    if (closing := tokens.pop()) != "]":
        raise BadPath(f"expected ] but got {closing}")
    return quoted[1:-1].replace(r"\'", "'").replace(r"\\", "\\")
