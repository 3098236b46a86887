"""What OpenAPI does not tell, asked of the server itself: Go's names for types, from its refusals of wrong values.

Each definition is visited once, on the first way that leads to it from a kind that can be created; nothing is created.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.machinery.schema.compiling import go_type
from pytest_kscen.machinery.schema.special import SPECIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Post = Callable[[str, Any], dict[str, Any]]
    Schemas = dict[str, dict[str, Any]]

REFUSAL = re.compile(r"into Go struct field (\w+)\.(\S+) of type (.+)")
ELEMENT, ENTRY = "[]", "{}"
SHALLOW = 12


class Place(NamedTuple):
    """Where a definition was first met: below which collection's objects, and by which fields."""

    collection: str
    path: tuple[str, ...]
    definition: str
    labels: tuple[str, ...]

    def body(self, value: Any) -> Any:
        """The smallest object that has this value here."""
        for step in reversed(self.path):
            value = [value] if step == ELEMENT else {"key" if step == ENTRY else step: value}
        return value


def probe_types(post: Post, schemas: Schemas, roots: dict[str, str]) -> list[Place]:
    """Mark in the schemas what Go calls things where their names do not follow; tell where each definition was met.

    `roots` are the collections' paths and their kinds' definitions.
    """
    waiting = deque(Place(collection, (), definition, ()) for collection, definition in roots.items())
    met: dict[str, Place] = {}
    while waiting:
        place = waiting.popleft()
        if place.definition in met or place.definition in SPECIAL:
            continue
        met[place.definition] = place
        for field, schema in schemas[place.definition].get("properties", {}).items():
            label = _probe_field(post, place, field, schema)
            waiting.extend(_below(place, field, label, schema))
    return list(met.values())


def _probe_field(post: Post, place: Place, field: str, schema: dict[str, Any]) -> str:
    """Ask about one field, and about what is in it; give the field's piece of Go's path."""
    label = field
    for inner, path in _layers(schema):
        wrong = _wrong(inner)
        for step in reversed(path):
            wrong = [wrong] if step == ELEMENT else {"key": wrong}
        found = REFUSAL.search(post(place.collection, place.body({field: wrong})).get("message", ""))
        if found is None:
            continue
        if not path:
            label = found[2].removeprefix(".".join((*place.labels, "")))
            if label != field:
                schema["x-go-path"] = label
        if found[3] != go_type(inner) and inner.get("$ref") not in SPECIAL:
            inner["x-go-type"] = found[3]
    return label


def _layers(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """A field's schema, and its elements' when they have no definition of their own."""
    path: tuple[str, ...] = ()
    yield schema, path
    while "items" in schema or "additionalProperties" in schema:
        path += (ELEMENT,) if "items" in schema else (ENTRY,)
        schema = schema.get("items") or schema["additionalProperties"]
        if "$ref" not in schema:
            yield schema, path


def _wrong(schema: dict[str, Any]) -> Any:
    return 1 if schema.get("type") == "string" else True if schema.get("$ref") in SPECIAL else "wrong"


def _below(place: Place, field: str, label: str, schema: dict[str, Any]) -> Iterator[Place]:
    """The definitions that a field leads to. An object's own metadata is skipped: the server has its hands in it."""
    if (place.path, field) == ((), "metadata"):
        return
    path = (*place.path, field)
    while "items" in schema or "additionalProperties" in schema:
        path += (ELEMENT,) if "items" in schema else (ENTRY,)
        schema = schema.get("items") or schema["additionalProperties"]
    if "$ref" in schema and len(path) < SHALLOW:
        yield Place(place.collection, path, schema["$ref"], (*place.labels, label))
