"""Decoding and validation of custom objects in one pass, for the large majority that is valid.

The result equals that of `structural` followed by `validation`. Everything unusual raises
SlowPathNeeded, and the slow path decides. Valid scalars are cached per place in the schema. So are
list elements, by content: writing an equal element again returns the stored one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.schema.keywords import SchemaResult, schema_types
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY, is_identical_json
from pytest_kscen.embedded.apiserver.schema.structural import (
    EMBEDDED,
    NO_SCHEMA,
    PRESERVE,
    ROOT_HEAD_DECODERS,
    default_factories,
    drops_null,
    normalize_number,
    old_if_same,
    structural_decoder,
)
from pytest_kscen.embedded.apiserver.schema.validation import (
    COMBINATIONS,
    NO_OLD_VALUE,
    duplicate_visit,
    schema_check,
    schema_visit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.schema.scalars import Decoder
    from pytest_kscen.objects.resources import Obj

    Known = Mapping[type, dict[Any, Any]]
    Fits = Callable[[Any, Any], bool]


SCALAR_TYPES = (str, int, bool, float, type(None))
MAX_CACHED_SCALARS = 128
MAX_TEXT_LENGTH = 256  # of a cached text
SLOW_KEYWORDS = (*COMBINATIONS, "enum")


def fits_schema(schema: Obj) -> Fits:
    """Return a predicate of `(value, old)`: the value is valid, given an old value that was
    accepted.

    True is certain: validation would find neither faults nor new duplicates. False means unknown.
    """
    check = schema_check(schema)
    known: dict[type, set[Any]] = {scalar: set() for scalar in SCALAR_TYPES}
    containers: dict[type, Fits] = {}

    def fits(value: Any, old: Any) -> bool:
        if value is old:
            return True
        kind = type(value)
        cached_values = known.get(kind)
        if cached_values is None:
            if not containers:
                containers.update(
                    {
                        dict: _fits_container(schema, "object"),
                        list: _fits_container(schema, "array"),
                    }
                )
            return containers[kind](value, old)
        if value in cached_values:
            return True
        result = SchemaResult()
        check(value, "", NO_OLD_VALUE, result)
        if result.faults:
            return False
        if kind is not str or len(value) <= MAX_TEXT_LENGTH:
            if len(cached_values) == MAX_CACHED_SCALARS:
                cached_values.clear()
            cached_values.add(value)
        return True

    return fits


def _fits_container(schema: Obj, kind: str) -> Fits:
    wanted = schema_types(schema)
    if wanted and kind not in wanted:
        return _fits_never
    if any(schema.get(word) for word in SLOW_KEYWORDS):
        # Full validation, for keywords that have no fast predicate.
        check, repeated = schema_check(schema), schema_visit(schema, duplicate_visit)

        def fits(value: Any, old: Any) -> bool:
            result = SchemaResult()
            check(value, "", old, result)
            return not result.faults and not (repeated and any(repeated(value, "")))

        return fits
    return _fits_object(schema) if kind == "object" else _fits_list(schema)


def _fits_never(_value: Any, _old: Any) -> bool:
    return False


def _fits_object(schema: Obj) -> Fits:
    fields = {name: fits_schema(inner) for name, inner in schema.get("properties", EMPTY).items()}
    more = schema.get("additionalProperties")
    others = fits_schema(more) if isinstance(more, dict) else _fits_never if more is False else None
    wanted, least, most = (
        frozenset(schema.get("required") or ()),
        schema.get("minProperties"),
        schema.get("maxProperties"),
    )

    def fits(value: Obj, old: Any) -> bool:
        if not wanted <= value.keys() or not is_within_limits(least, len(value), most):
            return False
        before = (old if type(old) is dict else EMPTY).get
        for name, part in value.items():
            inner, was = fields.get(name, others), before(name, NO_OLD_VALUE)
            if inner and (part is not was or inner is _fits_never) and not inner(part, was):
                return False
        return True

    return fits


def _fits_list(schema: Obj) -> Fits:
    items = schema.get("items")
    element = fits_schema(items) if isinstance(items, dict) else None
    least, most, form = (
        schema.get("minItems"),
        schema.get("maxItems"),
        schema.get("x-kubernetes-list-type"),
    )
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    cached_values: dict[int, Any] = {}  # valid elements by id; the value keeps the id in use

    def fits(value: list[Any], _old: Any) -> bool:
        if not is_within_limits(least, len(value), most) or (
            form in {"set", "map"} and not have_distinct_keys(value, keys)
        ):
            return False
        if element is None:
            return True
        for part in value:
            if cached_values.get(id(part), NO_OLD_VALUE) is not part:
                if not element(part, NO_OLD_VALUE):
                    return False
                if type(part) is dict:
                    if len(cached_values) == MAX_CACHED_SCALARS:
                        cached_values.clear()
                    cached_values[id(part)] = part
        return True

    return fits


def is_within_limits(least: int | None, count: int, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def have_distinct_keys(elements: list[Any], keys: list[str]) -> bool:
    """Report whether the elements of a set or map are certainly distinct; False if they are hard to
    compare.
    """
    try:
        if len(keys) == 1:
            names = [element[keys[0]] for element in elements]
        else:
            names = (
                [tuple([element[key] for key in keys]) for element in elements]
                if keys
                else elements
            )
        return len({*names}) == len(elements)
    except (KeyError, TypeError):
        return False


# cached elements of a list, beyond the length of the longest list seen
MAX_CACHED_ELEMENTS = 1_000
MAX_ELEMENT_BYTES = 2048

NO_CACHED: Known = {}


class SlowPathNeeded(Exception):
    """Value that the fast path cannot decide about."""


def fast_decoder(schema: Obj) -> Decoder | None:
    """Return the decoder of whole objects; None if the schema needs the slow path.

    Metadata is decoded but not validated.
    """
    return None if _needs_slow_path(schema) else _object_decoder(schema, ROOT_HEAD_DECODERS)


def _needs_slow_path(schema: Obj) -> bool:
    return any(schema.get(word) for word in (PRESERVE, EMBEDDED, *SLOW_KEYWORDS))


def _cached_decoder(schema: Obj) -> tuple[Known, Decoder]:
    """Return the cached scalars of a schema by type, and its decoder.

    The cache maps each valid scalar to its decoded form; the decoder fills it.
    """
    fits = fits_schema(schema)
    known: Known = {scalar: {} for scalar in SCALAR_TYPES}
    containers: dict[type, Decoder] = {}

    def decode_value(value: Any, old: Any) -> Any:
        kind = type(value)
        cached_values = known.get(kind)
        if cached_values is None:
            if kind is type(old) and value == old and is_identical_json(value, old):
                return old
            if not containers:
                containers.update(
                    {
                        dict: _container_decoder(schema, "object"),
                        list: _container_decoder(schema, "array"),
                    }
                )
            return containers.get(kind, _refuse)(value, old)
        found = normalize_number(value)
        if not fits(found, NO_OLD_VALUE):
            raise SlowPathNeeded
        if kind is not str or len(value) <= MAX_TEXT_LENGTH:
            if len(cached_values) == MAX_CACHED_SCALARS:
                cached_values.clear()
            cached_values[value] = found
        return found

    return known, decode_value


def _container_decoder(schema: Obj, kind: str) -> Decoder:
    wanted = schema_types(schema)
    if wanted and kind not in wanted:
        return _refuse
    if _needs_slow_path(schema):
        # Decode, then validate: some keywords have no fast decoder.
        slow_decode, fits = structural_decoder(schema), fits_schema(schema)

        def decode_value(value: Any, old: Any) -> Any:
            new = slow_decode(value, old)
            if not fits(new, NO_OLD_VALUE if old is None else old):
                raise SlowPathNeeded
            return new

        return decode_value
    return _object_decoder(schema) if kind == "object" else _list_decoder(schema)


def _refuse(_value: Any, _old: Any) -> Any:
    raise SlowPathNeeded


class _FastMembers(dict[str, "tuple[Known, Decoder]"]):
    """Scalar caches and decoders of an object's fields, each compiled on first use."""

    def __init__(self, schema: Obj, head: Mapping[str, Decoder]) -> None:
        super().__init__({name: (NO_CACHED, decoder) for name, decoder in head.items()})
        self._properties: Obj = schema.get("properties", EMPTY)
        more = schema.get("additionalProperties")
        self._others = (
            _cached_decoder(more if isinstance(more, dict) else NO_SCHEMA)
            if more
            else (NO_CACHED, _refuse)
        )

    def __missing__(self, name: str) -> tuple[Known, Decoder]:
        if name not in self._properties:
            return self._others
        member = self[name] = _cached_decoder(self._properties[name])
        return member


def _object_decoder(schema: Obj, head: Mapping[str, Decoder] = EMPTY) -> Decoder:
    members = _FastMembers(schema, head)
    defaults = default_factories(schema)
    wanted, least, most = (
        frozenset(schema.get("required") or ()),
        schema.get("minProperties"),
        schema.get("maxProperties"),
    )
    is_limited = least is not None or most is not None

    def decode_value(value: Any, old: Any) -> Any:
        before = old if type(old) is dict else EMPTY
        new = value.copy()
        for name, part in value.items():
            was = before.get(name)
            if part is None:
                if not drops_null(schema, name):
                    raise SlowPathNeeded
                del new[name]
            elif part is not was or name not in members:
                known, decode_field = members[name]
                if (cached_values := known.get(type(part))) is None or (
                    found := cached_values.get(part, NO_OLD_VALUE)
                ) is NO_OLD_VALUE:
                    found = decode_field(part, was)
                new[name] = found
        for name, default in defaults.items():
            if name not in new:
                new[name] = members[name][1](default(), before.get(name))
        if (wanted and not wanted <= new.keys()) or (
            is_limited and not is_within_limits(least, len(new), most)
        ):
            raise SlowPathNeeded
        return new if len(new) == len(value) else old_if_same(new, old)

    return decode_value


def _list_decoder(schema: Obj) -> Decoder:
    scalars, element = _cached_decoder(schema.get("items", NO_SCHEMA))
    least, most, form = (
        schema.get("minItems"),
        schema.get("maxItems"),
        schema.get("x-kubernetes-list-type"),
    )
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    is_limited, has_keys = least is not None or most is not None, form in {"set", "map"}
    by_content: dict[str, Any] = {}  # decoded elements by content
    by_id: dict[int, Any] = {}  # decoded elements by id; the value keeps the id in use
    longest = 0

    def decode_value(value: Any, _old: Any) -> Any:
        nonlocal longest
        if len(value) > longest:  # noqa: PLR1730  # without a call for each list
            longest = len(value)
        new = [
            part if by_id.get(id(part), NO_OLD_VALUE) is part else decode_element(part)
            for part in value
        ]
        if (is_limited and not is_within_limits(least, len(new), most)) or (
            has_keys and not have_distinct_keys(new, keys)
        ):
            raise SlowPathNeeded
        return new

    def decode_element(part: Any) -> Any:
        if type(part) is not dict:
            cached_forms = scalars.get(type(part))
            return (
                cached_forms[part] if cached_forms and part in cached_forms else element(part, None)
            )
        try:
            # Text, because orjson's bytes occupy 4 KiB each, however short.
            content = orjson.dumps(part).decode()
        except TypeError:  # not plain JSON
            raise SlowPathNeeded from None
        found = by_content.get(content)
        if found is None:
            found = element(part, None)
            if len(content) <= MAX_ELEMENT_BYTES:
                if len(by_content) >= longest + MAX_CACHED_ELEMENTS:
                    by_content.clear()
                    by_id.clear()
                by_content[content] = by_id[id(found)] = found
        return found

    return decode_value
