"""Whether what somebody wrote fits a Scenario's own schema: the API server would refuse the rest, but could name no line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.scenario.models import ScenarioSpec
from pytest_kscen.scenario.shape import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

Path = tuple[str, ...]

TYPES: dict[str, tuple[type, str]] = {
    "object": (dict, "a map"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}


FILLED_IN = ("id",)


def misfits(spec: Any) -> Iterator[tuple[Path, str]]:
    """Where a spec does not fit, as somebody writes it, and why."""
    yield from _misfits(spec, schema_of(ScenarioSpec), ("spec",))


def _misfits(value: Any, schema: Obj, path: Path) -> Iterator[tuple[Path, str]]:
    wanted, words = TYPES[schema["type"]]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        yield path, f"{path[-1]} is {value!r}: it has to be {words}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _misfits(each, schema["items"], (*path, str(number)))
        for key in schema.get("x-kubernetes-list-map-keys") or ():
            yield from _again(value, key, path)
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield from _misfits_in(value, schema, path)


def _misfits_in(value: Obj, schema: Obj, path: Path) -> Iterator[tuple[Path, str]]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if value.get(name) is None and name not in FILLED_IN:
            yield path, f"{name} is missing"
    for name, part in value.items():
        if name not in properties:
            yield (*path, str(name)), f"nothing is called {name!r} here{nearest(str(name), properties)}"
        elif part is not None:
            yield from _misfits(part, properties[name], (*path, name))


def _again(elements: list[Any], key: str, path: Path) -> Iterator[tuple[Path, str]]:
    """Those that have what tells them apart from another before them."""
    seen: set[str] = set()
    for number, each in enumerate(elements):
        value = str(each.get(key) or "") if isinstance(each, dict) else ""
        if value in seen:
            yield (*path, str(number)), f"there is one with the {key} {value!r} before it"
        seen |= {value} - {""}
