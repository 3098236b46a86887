"""An applied configuration and the live object: the fields it names, the two merged, and what is given up taken out."""

from __future__ import annotations

from collections import deque
from operator import is_
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.patching.elements import by_element, element_of, form_of
from pytest_kscen.machinery.patching.fields import SELF, insert
from pytest_kscen.machinery.patching.shapes import ABSENT, LIST, MAP

if TYPE_CHECKING:
    from pytest_kscen.machinery.patching.fields import Fields
    from pytest_kscen.machinery.patching.shapes import Shape


def field_set(shape: Shape, value: Any) -> Fields:
    """Every field that the value names: what an applier of it owns."""
    found: Fields = {}
    _collect(shape, value, [], found)
    return found


def _collect(shape: Shape, value: Any, path: list[str], found: Fields) -> None:
    form = form_of(shape, value)
    if form == MAP and not shape.atomic_map:
        for name, part in (value or {}).items():
            inner = shape.of_field(name)
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


def merged(shape: Shape, live: Any, config: Any) -> Any:
    """The live value with the configuration's over it; ABSENT if nothing is left. Shares what the configuration is silent on."""
    if config is ABSENT:
        return live
    form = form_of(shape, config)
    if form == MAP and not shape.atomic_map and (live or config):
        return _merged_map(shape, live if isinstance(live, dict) else {}, config or {})
    if form == LIST and not shape.atomic_list and (live or config):
        return _merged_list(shape, live if isinstance(live, list) else [], config or [])
    return live if live is not ABSENT and live == config and type(live) is type(config) else config


def _merged_map(shape: Shape, live: dict[str, Any], config: dict[str, Any]) -> Any:
    changed = {}
    for name, value in config.items():
        inner = shape.of_field(name)
        if inner is None:
            continue
        was = live.get(name, ABSENT)
        now = merged(inner, was, value)
        if now is not was:
            changed[name] = now
    return {**live, **changed} if changed else live


def _merged_list(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """Items in the configuration's order, with the live ones that it does not name about where they were."""
    mine = {element_of(shape, item): item for item in config}
    wanted = list(mine)
    places = [element_of(shape, item) for item in live]
    theirs: dict[str, Any] = {}
    for element, item in zip(places, live, strict=True):
        theirs[element] = None if element in theirs else item
    out: list[Any] = []
    for from_live, place in _interleaved(places, wanted):
        if from_live:
            out.append(live[place])
        else:
            element = wanted[place]
            out.append(merged(shape.items, theirs.get(element, ABSENT), mine[element]))
    return live if len(out) == len(live) and all(map(is_, out, live)) else out


def _interleaved(live: list[str], config: list[str]) -> list[tuple[bool, int]]:
    """Which item comes next, one of the live list (True) or one of the configuration: structured-merge-diff's order."""
    wanted, known = frozenset(config), frozenset(live)
    shared = deque(element for element in config if element in known)
    order: list[tuple[bool, int]] = []
    done: set[str] = set()
    left = right = 0
    while left < len(live) or right < len(config):
        here = live[left] if left < len(live) else None
        there = config[right] if right < len(config) else None
        if here in wanted and there not in {None, here} and shared and shared[0] != here:
            left += 1  # in the configuration too, but not its turn yet
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


def taken_out(shape: Shape, value: Any, given_up: Fields) -> Any:
    """The value without these fields; ABSENT if nothing is left of it."""
    form = form_of(shape, value)
    if form == MAP and isinstance(value, dict) and value:
        return ABSENT if shape.atomic_map else _taken_from_map(shape, value, given_up)
    if form == LIST and isinstance(value, list) and value:
        return ABSENT if shape.atomic_list else _taken_from_list(shape, value, given_up)
    return ABSENT if form in {MAP, LIST} else value


def _taken_from_map(shape: Shape, value: dict[str, Any], given_up: Fields) -> Any:
    kept = {}
    for name, part in value.items():
        below = given_up.get(f"f:{name}")
        if below is None:
            kept[name] = part
        elif below and SELF not in below:
            inner = shape.of_field(name)
            left = part if inner is None else taken_out(inner, part, below)
            kept[name] = None if left is ABSENT else left
    return kept or ABSENT


def _taken_from_list(shape: Shape, value: list[Any], given_up: Fields) -> Any:
    kept = []
    for item in value:
        below = given_up.get(element_of(shape, item))
        if below is None:
            kept.append(item)
        elif below and SELF not in below:
            left = taken_out(shape.items, item, below)
            kept.append(None if left is ABSENT else left)
    return kept or ABSENT


def with_named(shape: Shape | None, fields: Fields) -> Fields:
    """The set with every named field in it that it leads through: structs are there because their parts are."""
    named = {}
    for element, below in fields.items():
        if element == SELF:
            named[SELF] = below
            continue
        inner = shape.of_element(element) if shape else None
        deeper = with_named(inner, below) if below else below
        if below and shape and element.startswith("f:") and element[2:] in shape.fields:
            deeper = {SELF: {}, **deeper}
        named[element] = deeper
    return named
