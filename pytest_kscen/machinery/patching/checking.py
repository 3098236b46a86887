"""Whether an applied configuration has its kind's shape, in the words of structured-merge-diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.patching.elements import UnfitError, element_of, form_of
from pytest_kscen.machinery.patching.fields import spelt
from pytest_kscen.machinery.patching.shapes import DEDUCED, LIST, MAP, SCALAR
from pytest_kscen.machinery.patching.wording import plain, syntax, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.patching.shapes import Shape

TWICE = "duplicate entries for key "
_OF_MAPS, _OF_LISTS, _OF_SCALARS = (MAP, DEDUCED), (LIST, DEDUCED), (SCALAR, DEDUCED)


def check(shape: Shape, value: Any) -> None:
    """Raises an UnfitError that lists every place that does not fit."""
    found = list(_misfits(shape, value, ""))
    if len(found) == 1:
        raise found[0]
    if found:
        raise UnfitError("\n".join(["errors:", *(f"  {error}" for error in found)]))


def fits(shape: Shape, value: Any) -> bool:
    """Whether a value has its shape, but for elements that are there twice."""
    return _plainly_fits(shape, value) or all(error.message.startswith(TWICE) for error in _misfits(shape, value, ""))


def _plainly_fits(shape: Shape, value: Any) -> bool:
    """The same answer for what is in order, without words; False says nothing."""
    if type(value) is dict:
        if shape.form not in _OF_MAPS:
            return False
        fields, others = shape.fields, shape.others
        for name, part in value.items():
            field = fields.get(name)
            inner = field.shape if field else others
            if inner is None or not _plainly_fits(inner, part):
                return False
        return True
    if type(value) is list:
        return shape.form in _OF_LISTS and _items_plainly_fit(shape, value)
    return value is None or (shape.form in _OF_SCALARS and not _scalar(shape.type, value))


def _items_plainly_fit(shape: Shape, items: list[Any]) -> bool:
    inner, keys = shape.items, shape.keys
    if not shape.atomic_list and not all(_can_be_told(item, keys) for item in items):
        return False
    return all(_plainly_fits(inner, item) for item in items)


def _can_be_told(item: Any, keys: tuple[str, ...]) -> bool:
    """Whether an item of a list that merges can be told from others."""
    if keys:
        return type(item) is dict and any(item.get(key) is not None for key in keys)
    return type(item) in {str, int, float, bool}


def _misfits(shape: Shape, value: Any, path: str) -> Iterator[UnfitError]:
    if value is None:
        return
    form = form_of(shape, value)
    if form == MAP:
        yield from _in_map(shape, value, path)
    elif form == LIST:
        yield from _in_list(shape, value, path)
    elif message := _scalar(shape.type, value):
        yield UnfitError(message, path)


def _in_map(shape: Shape, value: Any, path: str) -> Iterator[UnfitError]:
    if not isinstance(value, dict):
        yield UnfitError(f"expected map, got &{{{plain(value)}}}", path)
        return
    for name, part in value.items():
        inner = shape.of_field(name)
        if inner is None:
            yield UnfitError("field not declared in schema", f"{path}.{name}")
            return
        yield from _misfits(inner, part, f"{path}.{name}")


def _in_list(shape: Shape, value: Any, path: str) -> Iterator[UnfitError]:
    if not isinstance(value, list):
        yield UnfitError(f"expected list, got &{{{plain(value)}}}", path)
        return
    seen = set()
    for place, item in enumerate(value):
        element = f"i:{place}"
        if not shape.atomic_list:
            try:
                element = element_of(shape, item)
            except UnfitError as error:
                yield UnfitError(f"element {place}: {error.message}", path)
                return
            if element in seen:
                yield UnfitError(f"{TWICE}{spelt([element])}", path)
            seen.add(element)
        yield from _misfits(shape.items, item, path + spelt([element]))


def _scalar(type_: str, value: Any) -> str:
    match type_:
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{plain(value)}}}"
        case "integer" | "number" if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {type_name(value)}"
        case "" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{plain(value)}}}"
    return ""
