"""Walking a value along those branches of its schema alone where there is something to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.leaves import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj

    Visit = Callable[[Any, str], Iterator[Cause]]


def visitor(schema: Obj, own: Callable[[Obj], Visit | None]) -> Visit | None:
    """What visits values of this schema. `own` makes the visit of one place, or nothing; so does this."""
    here = own(schema)
    items = visitor(schema["items"], own) if isinstance(schema.get("items"), dict) else None
    properties = schema.get("properties") or NOTHING
    fields = {name: found for name, inner in properties.items() if (found := visitor(inner, own))}
    more = schema.get("additionalProperties")
    others = visitor(more, own) if isinstance(more, dict) else None
    if not (here or items or fields or others):
        return None

    def visit(value: Any, path: str) -> Iterator[Cause]:
        if here:
            yield from here(value, path)
        if isinstance(value, list) and items:
            for place, part in enumerate(value):
                yield from items(part, f"{path}[{place}]")
        elif isinstance(value, dict):
            for name, part in value.items():
                if inner := fields.get(name):
                    yield from inner(part, f"{path}.{name}" if path else name)
                elif others and name not in properties:
                    yield from others(part, f"{path}[{name}]")

    return visit
