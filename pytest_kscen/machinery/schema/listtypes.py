"""Lists that are sets or maps hold nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.verdicts import as_json
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.schema.visiting import Visit
    from pytest_kscen.objects.resources import Obj


def repetitions(schema: Obj) -> Visit | None:
    """A visit that finds repetitions, where the schema's list is a set or a map."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return None
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    def visit(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, list):
            yield from _in_set(value, path) if kind == "set" else _in_map(keys, value, path)

    return visit


def _in_set(elements: list[Any], path: str) -> Iterator[Cause]:
    for place in _seconds(elements):
        yield Cause.duplicate(f"{path}[{place}]", _sorted(elements[place]))


def _in_map(wanted: list[str], elements: list[Any], path: str) -> Iterator[Cause]:
    for place, element in enumerate(elements):
        if element is not None and not isinstance(element, dict):
            yield Cause.invalid(f"{path}[{place}]", element, "must be an object for an array of list-type map")
            return
    keys = [{name: element[name] for name in wanted if name in element} if element else {} for element in elements]
    for place in _seconds(keys):
        yield Cause.duplicate(f"{path}[{place}]", _sorted(keys[place]))


def _seconds(elements: list[Any]) -> Iterator[int]:
    """Where each value that is there more than once is there for the second time."""
    if _are_distinct_texts(elements):
        return
    seen: dict[str, int] = {}
    for place, element in enumerate(elements):
        text = as_json(element)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:  # noqa: PLR2004 - the second time
            yield place


def _are_distinct_texts(elements: list[Any]) -> bool:
    """Whether these are texts, or maps of texts with the same names, no two alike: what nearly all lists are."""
    kind = type(elements[0]) if elements else str
    if kind is dict:
        names = elements[0].keys()
        if not all(type(one) is dict and one.keys() == names for one in elements):
            return False
        elements = [tuple(one.values()) for one in elements]
        return all(type(part) is str for one in elements for part in one) and len(set(elements)) == len(elements)
    return kind is str and all(type(one) is str for one in elements) and len(set(elements)) == len(elements)


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value
