"""Strategic merge patch: a merge patch with merge keys for lists, and directives.

Supports `$patch: delete | replace`, `$retainKeys`, `$deleteFromPrimitiveList/<list>` and
`$setElementOrder/<list>` with Kubernetes' semantics and messages. Neither original nor patch is
changed; untouched parts are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.patching.shapes import MAP
from pytest_kscen.objects.errors import ApiError, BadRequest, Invalid, quoted
from pytest_kscen.objects.go_values import plain, type_name
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape, StructField
    from pytest_kscen.objects.resources import Obj

DIRECTIVE, RETAIN = "$patch", "$retainKeys"
DELETE_FROM, ORDER = "$deleteFromPrimitiveList", "$setElementOrder"
FORMATS = {RETAIN: "retainKeys", DELETE_FROM: "primitive list", ORDER: "setElementOrder list"}


def strategic_merge_patch(shape: Shape, original: Obj, patch: Obj) -> Obj:
    if DIRECTIVE in patch:
        match patch[DIRECTIVE]:
            case "replace":
                return {name: value for name, value in patch.items() if name != DIRECTIVE}
            case "delete":
                return {}
            case other:
                raise ApiError(f"unknown patch type: {plain(other)} in map: {plain(patch)}")
    new = _retain_keys(original, patch)
    orders = {name: _directive_list(name, ORDER) for name in patch if name.startswith(ORDER)}
    for name, key in orders.items():
        new = _merge_ordered(shape, new, patch, key, patch[name])
    done = {RETAIN, *orders, *orders.values()}
    for name, value in patch.items():
        if name not in done:
            new = _merge_entry(shape, new, name, value)
    return new


def _bad_format(directive: str) -> BadRequest:
    return BadRequest(f"invalid patch format of {FORMATS[directive]}")


def _directive_list(name: str, directive: str) -> str:
    prefix, slash, key = name.partition("/")
    if prefix != directive or not slash:
        raise _bad_format(directive)
    return key


def _retain_keys(original: Obj, patch: Obj) -> Obj:
    if RETAIN not in patch:
        return original
    kept = patch[RETAIN]
    if not isinstance(kept, list):
        raise _bad_format(RETAIN)
    for name, value in patch.items():
        if (
            value is not None
            and not name.startswith((RETAIN, DELETE_FROM, ORDER))
            and name not in kept
        ):
            raise _bad_format(RETAIN)
    return {name: value for name, value in original.items() if name in kept}


def _merge_entry(shape: Shape, original: Obj, name: str, value: Any) -> Obj:
    """Return the original with one entry of the patch merged into it."""
    deletes = name.startswith(DELETE_FROM)
    key = _directive_list(name, DELETE_FROM) if deletes else name
    was = original.get(key)
    if value is None:
        return (
            {entry: part for entry, part in original.items() if entry != key}
            if key in original
            else original
        )
    if key in original and type(value) is type(was) and isinstance(value, dict | list):
        now = _merge_value(_field(shape, key), was, value, deletes=deletes)
    elif deletes:
        return original
    else:
        now = _new_value(value)
    if now is None:
        return {entry: part for entry, part in original.items() if entry != key}
    return (
        original
        if now is was or (not isinstance(now, dict) and same_json(now, was))
        else {**original, key: now}
    )


def _new_value(value: Any) -> Any:
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None
        cleaned = {name: _new_value(part) for name, part in value.items()}
        return {name: part for name, part in cleaned.items() if part is not None}
    if isinstance(value, list):
        return [
            _new_value(part) for part in value if not (isinstance(part, dict) and DIRECTIVE in part)
        ]
    return value


def _field(shape: Shape, name: str) -> StructField:
    if shape.fields:
        if name in shape.fields:
            return shape.fields[name]
        raise ApiError(
            f"unable to find api field in struct {shape.name} for the json field {quoted(name)}"
        )
    what = "map" if shape.form == MAP else "interface"
    raise ApiError(f"merging an object in json but data type is not struct, instead is: {what}")


def _merge_value(field: StructField, original: Any, patch: Any, *, deletes: bool) -> Any:
    strategy = next((strategy for strategy in field.strategies if strategy != "retainKeys"), "")
    if isinstance(original, dict):
        return (
            patch if strategy == "replace" else strategic_merge_patch(field.shape, original, patch)
        )
    if strategy == "merge" or deletes:
        if not original and not patch:
            return original
        if not _holds_maps(original, patch):
            if deletes:
                return [item for item in original if not _contains(item, patch)]
            merged = _unique([*original, *patch])
            return _reorder(merged, patch, original, "")
        key = field.merge_key
        if not key:
            raise ApiError("cannot merge lists without merge key for struct")
        original, patch = _with_directives(original, patch, key)
        merged = list(original)
        for item in patch:
            place = _index_of(merged, key, _key_of(item, key))
            if place is None:
                merged.append(item)
            else:
                merged[place] = strategic_merge_patch(field.shape.items, merged[place], item)
        return _reorder(merged, patch, original, key)
    return patch


def _holds_maps(*lists: list[Any]) -> bool:
    """Return True if the lists hold maps; raises ApiError if their items differ in type."""
    types = {type_name(item): None for items in lists for item in items}
    if len(types) > 1 or "<nil>" in types:
        raise ApiError(f"list element types are not identical: {plain(list(lists))}")
    if type_name([]) in types:
        raise Invalid("the server rejected our request due to an error in our request", details={})
    if not types:
        raise ApiError("no elements in any of the given slices")
    return type_name({}) in types


def _with_directives(
    original: list[Obj], patch: list[Obj], key: str
) -> tuple[list[Obj], list[Obj]]:
    """Carry out the directives among the items.

    Returns the original without deleted items, and the remaining items of the patch.
    """
    replaced = False
    for item in patch:
        match item.get(DIRECTIVE, ""):
            case "":
                pass
            case "delete":
                removed = _key_of(item, key)
                original = [
                    each
                    for each in original
                    if key not in each or not same_json(each[key], removed)
                ]
            case "replace":
                replaced = True
            case "merge":
                raise ApiError("merging lists cannot yet be specified in the patch")
            case other:
                raise ApiError(f"unknown patch type: {plain(other)} in map: {plain(item)}")
    plain_items = [item for item in patch if DIRECTIVE not in item]
    return (plain_items, []) if replaced else (original, plain_items)


def _key_of(item: Obj, key: str) -> Any:
    if key not in item:
        raise ApiError(f"map: {plain(item)} does not contain declared merge key: {key}")
    return item[key]


def _index_of(items: list[Obj], key: str, value: Any) -> int | None:
    return next(
        (place for place, item in enumerate(items) if key in item and same_json(item[key], value)),
        None,
    )


def _contains(item: Any, items: list[Any]) -> bool:
    return any(same_json(item, other) for other in items)


def _unique(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not _contains(item, found):
            found.append(item)
    return found


def _merge_ordered(shape: Shape, original: Obj, patch: Obj, key: str, order: Any) -> Obj:
    """Merge a list and bring it into the order of the patch's $setElementOrder."""
    before, items = original.get(key, []), patch.get(key, [])
    for given in (order, before, items):
        if not isinstance(given, list):
            raise ApiError(f"expected a []interface {{}}, but received a {type_name(given)}")
    field = _field(shape, key)
    # The patch's items must follow the order that it sets.
    left = (
        [item for item in items if not (isinstance(item, dict) and DIRECTIVE in item)]
        if order
        else []
    )
    wanted = list(order)
    for item in left:
        while wanted and not _same_item(item, wanted[0], field.merge_key):
            wanted.pop(0)
        if not wanted:
            message = (
                f"The order in patch list:\n{plain(items)}\n doesn't match {ORDER} "
                f"list:\n{plain(order)}\n"
            )
            raise ApiError(message)
        wanted.pop(0)
    if key in original and key in patch:
        merged = _merge_value(field, before, items, deletes=False)
    elif key in original or key in patch:
        merged = before if key in original else _new_value(items)
    else:
        return original
    _holds_maps(before, items)
    return {**original, key: _reorder(merged, order, before, field.merge_key)}


def _same_item(one: Any, other: Any, key: str) -> bool:
    return same_json(_key_of(one, key), _key_of(other, key)) if key else same_json(one, other)


def _reorder(items: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Return ordered items in their order, with the others near their places in the live list."""

    def rank(item: Any, within: list[Any]) -> int:
        if key:
            place = _index_of(within, key, _key_of(item, key))
            return -1 if place is None else place
        return next((place for place, other in enumerate(within) if same_json(item, other)), -1)

    from_patch = sorted(
        (item for item in items if rank(item, order) >= 0), key=lambda item: rank(item, order)
    )
    from_live = sorted(
        (item for item in items if rank(item, order) < 0), key=lambda item: rank(item, live)
    )
    out = []
    while from_patch and from_live:
        left, right = rank(from_live[0], live), rank(from_patch[0], live)
        out.append(from_live.pop(0) if 0 <= left < right else from_patch.pop(0))
    return out + from_patch + from_live
