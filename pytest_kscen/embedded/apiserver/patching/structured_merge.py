"""Structured merge and diff by shape, equivalent to structured-merge-diff.

Field sets, merge, comparison and validation of values; used by managed_fields and patches. Values
are never changed.
"""

from __future__ import annotations

from collections import deque
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.apiserver.patching.fields import (
    SELF,
    insert,
    path_text,
    without_subtrees,
)
from pytest_kscen.embedded.apiserver.patching.shapes import (
    ABSENT,
    DEDUCED,
    LIST,
    MAP,
    SCALAR,
    UnfitError,
    by_element,
    element_of,
    form_of,
)
from pytest_kscen.objects.go_values import plain, syntax, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kscen.embedded.apiserver.patching.fields import Fields
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape


def field_set(shape: Shape, value: Any) -> Fields:
    """Return every field that a value names: the fields that its applier owns.

    Unknown fields of a struct are left out.
    """
    found: Fields = {}
    _collect(shape, value, [], found)
    return found


def _collect(shape: Shape, value: Any, path: list[str], found: Fields) -> None:
    form = form_of(shape, value)
    if form == MAP and not shape.atomic_map:
        for name, part in (value or {}).items():
            inner = shape.field_shape(name)
            if inner is None:
                continue
            below = [*path, f"f:{name}"]
            _collect(inner, part, below, found)
            if part is None or part == {} or name not in shape.fields:
                insert(found, below)
    elif form == LIST and not shape.atomic_list:
        for element, items in by_element(shape, value).items():
            below = [*path, element]
            if len(items) == 1:
                _collect(shape.items, items[0], below, found)
            insert(found, below)
    elif path:
        insert(found, path)


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """Return the live value with the configuration's over it, or ABSENT if nothing is left.

    Parts that the configuration does not name are shared with the live value; the live value itself
    is returned if nothing changes.
    """
    if config is ABSENT:
        return live
    form = form_of(shape, config)
    if form == MAP and not shape.atomic_map and (live or config):
        before = live if isinstance(live, dict) else {}
        changed = {}
        for name, value in (config or {}).items():
            inner = shape.field_shape(name)
            if inner is None:
                continue
            was = before.get(name, ABSENT)
            now = merge(inner, was, value)
            if now is not was:
                changed[name] = now
        return {**before, **changed} if changed else before
    if form == LIST and not shape.atomic_list and (live or config):
        return _merged_list(shape, live if isinstance(live, list) else [], config or [])
    return live if live is not ABSENT and live == config and type(live) is type(config) else config


def _merged_list(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """Return items in the configuration's order, with other live items near their places."""
    own_items = {element_of(shape, item): item for item in config}
    wanted = list(own_items)
    places = [element_of(shape, item) for item in live]
    live_items: dict[str, Any] = {}
    for element, item in zip(places, live, strict=True):
        live_items[element] = None if element in live_items else item
    out: list[Any] = []
    for from_live, place in _interleaved(places, wanted):
        if from_live:
            out.append(live[place])
        else:
            element = wanted[place]
            out.append(merge(shape.items, live_items.get(element, ABSENT), own_items[element]))
    return live if len(out) == len(live) and all(map(is_, out, live)) else out


def _interleaved(live: list[str], config: list[str]) -> list[tuple[bool, int]]:
    """Return the order of items as (from the live list, index), by structured-merge-diff's
    algorithm.
    """
    wanted, known = frozenset(config), frozenset(live)
    shared = deque(element for element in config if element in known)
    order: list[tuple[bool, int]] = []
    done: set[str] = set()
    left = right = 0
    while left < len(live) or right < len(config):
        here = live[left] if left < len(live) else None
        there = config[right] if right < len(config) else None
        if here in wanted and there not in {None, here} and shared and shared[0] != here:
            left += 1  # also in the configuration, at a later position
            continue
        if here is not None and here not in wanted:
            order.append((True, left))
            left += 1
            continue
        if here is not None and (here == there or here in done):
            left += 1
        if there is not None:
            done.add(there)
            order.append((False, right))
            if shared and shared[0] == there:
                shared.popleft()
            right += 1
    return order


def remove_fields(shape: Shape, value: Any, given_up: Fields) -> Any:
    """Return the value without these fields, or ABSENT if nothing is left."""
    form = form_of(shape, value)
    if form == MAP and isinstance(value, dict) and value:
        return ABSENT if shape.atomic_map else _remove_from_map(shape, value, given_up)
    if form == LIST and isinstance(value, list) and value:
        return ABSENT if shape.atomic_list else _remove_from_list(shape, value, given_up)
    return ABSENT if form in {MAP, LIST} else value


def _remove_from_map(shape: Shape, value: dict[str, Any], given_up: Fields) -> Any:
    kept = {}
    for name, part in value.items():
        below = given_up.get(f"f:{name}")
        if below is None:
            kept[name] = part
        elif below and SELF not in below:
            inner = shape.field_shape(name)
            left = part if inner is None else remove_fields(inner, part, below)
            kept[name] = None if left is ABSENT else left
    return kept or ABSENT


def _remove_from_list(shape: Shape, value: list[Any], given_up: Fields) -> Any:
    kept = []
    for item in value:
        below = given_up.get(element_of(shape, item))
        if below is None:
            kept.append(item)
        elif below and SELF not in below:
            left = remove_fields(shape.items, item, below)
            kept.append(None if left is ABSENT else left)
    return kept or ABSENT


def with_struct_fields(shape: Shape | None, fields: Fields) -> Fields:
    """Return the set with all named fields that it passes through as members.

    Structs exist because their parts do.
    """
    named = {}
    for element, below in fields.items():
        if element == SELF:
            named[SELF] = below
            continue
        inner = shape.element_shape(element) if shape else None
        deeper = with_struct_fields(inner, below) if below else below
        if below and shape and element.startswith("f:") and element[2:] in shape.fields:
            deeper = {SELF: {}, **deeper}
        named[element] = deeper
    return named


TOP = ["f:metadata"]  # of an object, not of a template within it
NOTHING: Mapping[str, Any] = {}


class FieldChanges(NamedTuple):
    """Sets of fields that were added or changed, and that were removed."""

    touched: Fields
    removed: Fields

    def excluding(self, ignored: Fields) -> FieldChanges:
        return (
            FieldChanges(
                without_subtrees(self.touched, ignored), without_subtrees(self.removed, ignored)
            )
            if ignored
            else self
        )


def compare(shape: Shape, old: Any, new: Any) -> FieldChanges:
    comparison = _Comparison()
    comparison.visit(shape, old, new)
    return FieldChanges(comparison.touched, comparison.removed)


class _Comparison:
    """Comparison of two values, with the current path.

    Parts that are the same instance in both are skipped.
    """

    def __init__(self) -> None:
        self.touched: Fields = {}
        self.removed: Fields = {}
        self._path: list[str] = []

    def visit(self, shape: Shape, old: Any, new: Any) -> None:
        if old is new:
            return
        form = form_of(shape, old if new is ABSENT else new)
        if old is not ABSENT and new is not ABSENT and form_of(shape, old) != form:
            self._contents(form_of(shape, old), shape, old, new)
        as_a_whole = self._contents(form, shape, old, new)
        if not as_a_whole and self._path:
            if old is ABSENT:
                insert(self.touched, self._path)
            elif new is ABSENT:
                insert(self.removed, self._path)

    def _contents(self, form: str, shape: Shape, old: Any, new: Any) -> bool:
        """Compare the parts, or the value as a whole if it is atomic; return True in the latter
        case.
        """
        if form == MAP and not shape.atomic_map:
            if (isinstance(old, dict) and old) or (isinstance(new, dict) and new):
                self._entries(shape, old, new)
                return False
        elif form == LIST and not shape.atomic_list:
            before, after = (value if isinstance(value, list) else [] for value in (old, new))
            if before or after:
                old_items, new_items = by_element(shape, before), by_element(shape, after)
                for element in {**old_items, **new_items}:
                    same_before, same_after = old_items.get(element, ()), new_items.get(element, ())
                    if len(same_before) <= 1 and len(same_after) <= 1:
                        self._below(
                            element,
                            shape.items,
                            same_before[0] if same_before else ABSENT,
                            same_after[0] if same_after else ABSENT,
                        )
                    else:
                        self._duplicates(element, shape.items, list(same_before), list(same_after))
                return False
        if self._path:
            if new is ABSENT:
                insert(self.removed, self._path)
            elif old is ABSENT or old != new:
                insert(self.touched, self._path)
        return True

    def _entries(self, shape: Shape, one: Any, other: Any) -> None:
        before, old_zero = (one, shape.implicit) if isinstance(one, dict) else (NOTHING, NOTHING)
        after, new_zero = (other, shape.implicit) if isinstance(other, dict) else (NOTHING, NOTHING)
        for name in {**before, **after}:
            if name in shape.unowned and self._path == TOP:
                continue
            old = before[name] if name in before else old_zero.get(name, ABSENT)
            new = after[name] if name in after else new_zero.get(name, ABSENT)
            if old is new:
                continue
            field = shape.fields.get(name)
            part = field.shape if field else shape.additional
            if part is not None:
                self._below(field.element if field else f"f:{name}", part, old, new)

    def _duplicates(self, element: str, shape: Shape, old: list[Any], new: list[Any]) -> None:
        """Compare items that share an element; they are owned together."""
        path = [*self._path, element]
        if len(old) > 1 and len(new) > 1:
            if old != new:
                insert(self.touched, path)
        elif len(old) > 1:
            if new:
                self._below(element, shape, ABSENT, new[0])
            insert(self.removed, path)
        else:
            if old:
                self._below(element, shape, old[0], ABSENT)
            insert(self.touched, path)

    def _below(self, element: str, shape: Shape, old: Any, new: Any) -> None:
        self._path.append(element)
        self.visit(shape, old, new)
        self._path.pop()


DUPLICATE = "duplicate entries for key "
_OF_MAPS, _OF_LISTS, _OF_SCALARS = (MAP, DEDUCED), (LIST, DEDUCED), (SCALAR, DEDUCED)


def check(shape: Shape, value: Any) -> None:
    """Raise an UnfitError that lists everything in a value that does not fit its shape.

    Messages are those of structured-merge-diff.
    """
    found = list(_shape_errors(shape, value, ""))
    if len(found) == 1:
        raise found[0]
    if found:
        raise UnfitError("\n".join(["errors:", *(f"  {error}" for error in found)]))


def fits(shape: Shape, value: Any) -> bool:
    """Return True if a value has its shape, ignoring duplicate list elements.

    A write of a custom object that does not fit leaves the field owners as they were.
    """
    return _fits_plainly(shape, value) or all(
        error.message.startswith(DUPLICATE) for error in _shape_errors(shape, value, "")
    )


def _fits_plainly(shape: Shape, value: Any) -> bool:
    """Return True if a value certainly fits, without building messages; False decides nothing."""
    if type(value) is dict:
        if shape.form not in _OF_MAPS:
            return False
        fields, additional = shape.fields, shape.additional
        for name, part in value.items():
            field = fields.get(name)
            inner = field.shape if field else additional
            if inner is None or not _fits_plainly(inner, part):
                return False
        return True
    if type(value) is list:
        inner, keys = shape.items, shape.keys
        if shape.form not in _OF_LISTS or not (
            shape.atomic_list
            or all(
                (
                    type(item) is dict and any(item.get(key) is not None for key in keys)
                    if keys
                    else type(item) in {str, int, float, bool}
                )
                for item in value
            )
        ):
            return False
        return all(_fits_plainly(inner, item) for item in value)
    return value is None or (shape.form in _OF_SCALARS and not _scalar_error(shape.type, value))


def _shape_errors(shape: Shape, value: Any, path: str) -> Iterator[UnfitError]:
    if value is None:
        return
    form = form_of(shape, value)
    if form == MAP:
        if not isinstance(value, dict):
            yield UnfitError(f"expected map, got &{{{plain(value)}}}", path)
            return
        for name, part in value.items():
            inner = shape.field_shape(name)
            if inner is None:
                yield UnfitError("field not declared in schema", f"{path}.{name}")
                return
            yield from _shape_errors(inner, part, f"{path}.{name}")
    elif form == LIST:
        yield from _list_errors(shape, value, path)
    elif message := _scalar_error(shape.type, value):
        yield UnfitError(message, path)


def _list_errors(shape: Shape, value: Any, path: str) -> Iterator[UnfitError]:
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
                yield UnfitError(f"{DUPLICATE}{path_text([element])}", path)
            seen.add(element)
        yield from _shape_errors(shape.items, item, path + path_text([element]))


def _scalar_error(type_: str, value: Any) -> str:
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
