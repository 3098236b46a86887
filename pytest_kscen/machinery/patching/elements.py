"""How the elements of lists that merge are told apart, and what form a value has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.patching.shapes import DEDUCED, LIST, MAP, SCALAR
from pytest_kscen.machinery.patching.wording import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.machinery.patching.shapes import Shape


class UnfitError(ValueError):
    """A value that does not have its kind's shape; `path` is spelt from the outside in."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.message = message
        self.path = path


def form_of(shape: Shape, value: Any) -> str:
    """MAP, LIST or SCALAR: the shape's, or the value's own where the shape leaves it open; null passes for a map."""
    if shape.form != DEDUCED:
        return shape.form
    return MAP if value is None or isinstance(value, dict) else LIST if isinstance(value, list) else SCALAR


def element_of(shape: Shape, item: Any) -> str:
    """The path element of an item in a list of this shape."""
    if not shape.keys:
        return _value_element(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise UnfitError(f"associative list with keys may not have {what}")
    fields = shape.items.fields
    found = {}
    for key in shape.keys:
        if key in item:
            found[key] = item[key]
        elif key in fields and (default := fields[key].default) is not None:
            found[key] = default
    if not found:
        keys = " ".join(f'"{key}"' for key in shape.keys)
        raise UnfitError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + _json(dict(sorted(found.items())))


def _value_element(item: Any) -> str:
    if isinstance(item, dict):
        raise UnfitError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise UnfitError("not supported: associative list with lists as elements")
    if item is None:
        raise UnfitError("associative list without keys has an element that's an explicit null")
    return "v:" + _json(item)


def _json(value: Any) -> str:
    """Go's JSON, which escapes what HTML could mistake."""
    return as_json(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def by_element(shape: Shape, items: Iterable[Any] | None) -> dict[str, list[Any]]:
    """A list's items under their elements, in the list's order; more than one where somebody wrote duplicates."""
    found: dict[str, list[Any]] = {}
    for item in items or ():
        found.setdefault(element_of(shape, item), []).append(item)
    return found
