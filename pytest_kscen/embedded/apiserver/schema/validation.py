"""Validation of custom objects: a schema becomes lists of checks, in the order of the real server.

An update accepts faults that the old object had already ("ratcheting"), as far as old and new parts
correlate: fields by name, elements of list maps by their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.schema import keywords
from pytest_kscen.embedded.apiserver.schema.keywords import (
    SchemaResult,
    compact_json,
    enum_check,
    has_text_format,
    number_check,
    string_checks,
    type_check,
)
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.embedded.apiserver.schema.keywords import Check
    from pytest_kscen.objects.resources import Obj

    TypedChecks = tuple[tuple[Check, ...], int]
    Visit = Callable[[Any, str], Iterator[Cause]]


COMBINATIONS = ("anyOf", "oneOf", "allOf", "not")
NO_OLD_VALUE: Any = object()
"""Mark for the absence of an old value to compare with."""


def schema_check(schema: Obj) -> Check:
    """Return the check of a whole schema. Faults of a value that equals the old one are dropped."""
    typed_checks: dict[type, TypedChecks] = {}

    def check_value(value: Any, path: str, old: Any, result: SchemaResult) -> None:
        if value is old:
            return
        if not typed_checks:
            typed_checks.update(_checks_by_type(schema))
        checks, counted = typed_checks[type(value)]
        before = len(result.faults)
        for check in checks:
            check(value, path, old, result)
        result.matches += counted
        if len(result.faults) > before and old is not NO_OLD_VALUE and same_json(value, old):
            result.forget(before)

    return check_value


def _alternative_check(schema: Obj) -> Check:
    """Return the check of one alternative of a combination.

    Its own faults are kept even if the value is unchanged; nested ones may be dropped.
    """
    typed_checks: dict[type, TypedChecks] = {}

    def check_value(value: Any, path: str, old: Any, result: SchemaResult) -> None:
        if not typed_checks:
            typed_checks.update(_checks_by_type(schema))
        checks, counted = typed_checks[type(value)]
        for check in checks:
            check(value, path, old, result)
        result.matches += counted

    return check_value


def _checks_by_type(schema: Obj) -> dict[type, TypedChecks]:
    """Return the checks for each type of value, with the number of keywords that count as matched.

    The real server counts each validator it runs: type, combinations (twice), enum, the type's own,
    and the value as a whole.
    """
    types, enums = _as_tuple(type_check(schema)), _as_tuple(enum_check(schema))
    head = (*types, *_combination_checks(schema))
    counted = len(types) + 4
    texts = tuple(string_checks(schema))
    numbers: TypedChecks = (*head, number_check(schema), *enums), counted + 1
    return {
        str: ((*head, *texts, *enums), counted + 1 + has_text_format(schema)),
        int: numbers,
        float: numbers,
        bool: ((*head, *enums), counted),
        list: ((*head, _list_check(schema), *enums), counted + 1),
        dict: ((*head, *enums, _object_check(schema)), counted + 1),
        type(None): ((*types, *enums), 0),
    }


def _as_tuple(check: Check | None) -> tuple[Check, ...]:
    return (check,) if check else ()


def _object_check(schema: Obj) -> Check:
    properties: dict[str, Check] = {
        name: schema_check(inner) for name, inner in schema.get("properties", EMPTY).items()
    }
    more = schema.get("additionalProperties")
    others = schema_check(more) if isinstance(more, dict) else None
    forbids_others = more is False
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    wanted: list[str] = schema.get("required") or []

    def check(value: Obj, path: str, old: Any, result: SchemaResult) -> None:
        before = old if type(old) is dict else EMPTY
        if least is not None and len(value) < least:
            keywords.add_invalid(
                result, path, len(value), f"should have at least {least} properties"
            )
        if most is not None and len(value) > most:
            keywords.add_too_many(result, path, len(value), most, "properties")
        for name, part in value.items():
            check_value, was = properties.get(name, others), before.get(name, NO_OLD_VALUE)
            if check_value:
                if part is not was:
                    check_value(part, f"{path}.{name}" if path else name, was, result)
            elif forbids_others and name not in properties:
                message = f"{path}.{name} in body is a forbidden property"
                keywords.add_invalid_message(result, path, name, message)
        for name in wanted:
            if name not in value:
                keywords.add_required(result, f"{path}.{name}")

    return check


def _list_check(schema: Obj) -> Check:
    items = schema.get("items")
    check_value = schema_check(items) if isinstance(items, dict) else None
    least, most = schema.get("minItems"), schema.get("maxItems")

    def check(value: list[Any], path: str, old: Any, result: SchemaResult) -> None:
        if check_value:
            before = correlate_elements(schema, value, old)
            for index, part in enumerate(value):
                check_value(part, f"{path}[{index}]", before[index], result)
        if least is not None and len(value) < least:
            keywords.add_invalid(result, path, len(value), f"should have at least {least} items")
        if most is not None and len(value) > most:
            keywords.add_too_many(result, path, len(value), most, "items")
        result.matches += 1

    return check


def correlate_elements(schema: Obj, new: list[Any], old: Any) -> list[Any]:
    """Return the old element to compare with, for each element of a list.

    In a list map it is the element of the same keys. Other lists do not correlate.
    """
    if type(old) is not list or schema.get("x-kubernetes-list-type") != "map":
        return [NO_OLD_VALUE] * len(new)
    by_key: dict[Any, Any] = {}
    for part in old:
        by_key.setdefault(_list_map_key(schema, part), part)
    return [by_key.get(_list_map_key(schema, part), NO_OLD_VALUE) for part in new]


def _list_map_key(schema: Obj, element: Any) -> Any:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    return repr([element.get(key) for key in keys]) if type(element) is dict else None


def _combination_checks(schema: Obj) -> Iterator[Check]:
    """Yield the checks of anyOf, oneOf, allOf and not.

    If all alternatives fail, the faults of the one with most matches are reported.
    """
    for name, combination in zip(
        COMBINATIONS, (_any_of_check, _one_of_check, _all_of_check), strict=False
    ):
        if schema.get(name):
            yield combination(schema[name])
    if isinstance(schema.get("not"), dict):
        not_schema = schema["not"]
        check_value = _alternative_check(not_schema)

        def check(value: Any, path: str, old: Any, result: SchemaResult) -> None:
            tried = SchemaResult()
            check_value(value, path, old, tried)
            if not tried.faults:
                keywords.add_message(result, f'"{path}" must not validate the schema (not)')

        yield check


def _try_alternatives(
    branch_checks: list[Check], value: Any, path: str, old: Any
) -> Iterator[SchemaResult]:
    for check_value in branch_checks:
        result = SchemaResult()
        check_value(value, path, old, result)
        yield result


def _best_failure(failures: list[SchemaResult]) -> SchemaResult:
    return max(failures, key=lambda result: result.matches)


def _any_of_check(alternatives: list[Obj]) -> Check:
    branch_checks = [_alternative_check(alternative) for alternative in alternatives]

    def check(value: Any, path: str, old: Any, result: SchemaResult) -> None:
        failures = []
        for tried in _try_alternatives(branch_checks, value, path, old):
            if not tried.faults:
                result.merge(tried)
                return
            failures.append(tried)
        keywords.add_message(result, f'"{path}" must validate at least one schema (anyOf)')
        result.merge(_best_failure(failures))

    return check


def _one_of_check(alternatives: list[Obj]) -> Check:
    branch_checks = [_alternative_check(alternative) for alternative in alternatives]

    def check(value: Any, path: str, old: Any, result: SchemaResult) -> None:
        all_tried = list(_try_alternatives(branch_checks, value, path, old))
        valid = [tried for tried in all_tried if not tried.faults]
        if len(valid) == 1:
            result.merge(valid[0])
            return
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        keywords.add_message(
            result, f'"{path}" must validate one and only one schema (oneOf). {found}'
        )
        if not valid:
            result.merge(_best_failure(all_tried))

    return check


def _all_of_check(parts: list[Obj]) -> Check:
    branch_checks = [_alternative_check(part) for part in parts]

    def check(value: Any, path: str, old: Any, result: SchemaResult) -> None:
        valid = 0
        for tried in _try_alternatives(branch_checks, value, path, old):
            valid += not tried.faults
            result.merge(tried)
        if valid < len(branch_checks):
            keywords.add_message(
                result,
                (
                    f'"{path}" must validate all the schemas '
                    f"(allOf){'' if valid else '. None validated'}"
                ),
            )

    return check


def schema_visit(schema: Obj, own: Callable[[Obj], Visit | None]) -> Visit | None:
    """Return a function that visits the parts of a value, or None if no part needs a visit.

    `own` returns the visit of one place in the schema, or None.
    """
    here = own(schema)
    items = schema_visit(schema["items"], own) if isinstance(schema.get("items"), dict) else None
    properties = schema.get("properties") or EMPTY
    fields = {
        name: found for name, inner in properties.items() if (found := schema_visit(inner, own))
    }
    more = schema.get("additionalProperties")
    others = schema_visit(more, own) if isinstance(more, dict) else None
    if not (here or items or fields or others):
        return None

    def visit(value: Any, path: str) -> Iterator[Cause]:
        if here:
            yield from here(value, path)
        if isinstance(value, list) and items:
            for index, part in enumerate(value):
                yield from items(part, f"{path}[{index}]")
        elif isinstance(value, dict):
            for name, part in value.items():
                if inner := fields.get(name):
                    yield from inner(part, f"{path}.{name}" if path else name)
                elif others and name not in properties:
                    yield from others(part, f"{path}[{name}]")

    return visit


def duplicate_visit(schema: Obj) -> Visit | None:
    """Return a visit that yields a cause for each duplicate, if the schema's list is a set or a
    map.
    """
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return None
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    def visit(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, list):
            yield from (
                _duplicates_of(value, path)
                if kind == "set"
                else _duplicates_in_map(keys, value, path)
            )

    return visit


def _duplicates_of(keys: list[Any], path: str) -> Iterator[Cause]:
    """Yield a cause for the second occurrence of each repeated value."""
    if _are_distinct_texts(keys):
        return
    seen: dict[str, int] = {}
    for index, key in enumerate(keys):
        text = compact_json(key)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:  # noqa: PLR2004 - the second time
            shown = dict(sorted(key.items())) if isinstance(key, dict) else key
            yield Cause.duplicate(f"{path}[{index}]", shown)


def _duplicates_in_map(wanted: list[str], elements: list[Any], path: str) -> Iterator[Cause]:
    for index, element in enumerate(elements):
        if element is not None and not isinstance(element, dict):
            yield Cause.invalid(
                f"{path}[{index}]", element, "must be an object for an array of list-type map"
            )
            return
    keys = [
        {name: element[name] for name in wanted if name in element} if element else {}
        for element in elements
    ]
    yield from _duplicates_of(keys, path)


def _are_distinct_texts(elements: list[Any]) -> bool:
    """Report whether the elements are certainly distinct: texts, or objects of texts with equal
    names. Quick, and true for most lists.
    """
    kind = type(elements[0]) if elements else str
    if kind is dict:
        names = elements[0].keys()
        if not all(type(one) is dict and one.keys() == names for one in elements):
            return False
        elements = [tuple(one.values()) for one in elements]
        return all(type(part) is str for one in elements for part in one) and len(
            set(elements)
        ) == len(elements)
    return (
        kind is str
        and all(type(one) is str for one in elements)
        and len(set(elements)) == len(elements)
    )
