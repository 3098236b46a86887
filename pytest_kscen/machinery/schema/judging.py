"""Judging custom objects: a schema becomes lists of checks, in the order in which the real server makes them.

On an update, what is wrong but was so before is let through ("ratcheting"), as far as old and new can be told to be
the same part: fields by name, and the elements of lists that are maps by their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema import verdicts
from pytest_kscen.machinery.schema.keywords import enum_check, has_text_format, number_check, string_checks, type_check
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.verdicts import Verdict
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.machinery.schema.keywords import Check
    from pytest_kscen.objects.resources import Obj

    Plan = tuple[tuple[Check, ...], int]

COMBINATIONS = ("anyOf", "oneOf", "allOf", "not")
UNKNOWN: Any = object()
"""Stands for the old value where there is none to compare with."""


def judge_by(schema: Obj) -> Check:
    """A check of everything that a schema says, which lets through what was as wrong before."""
    plans: dict[type, Plan] = {}

    def judge(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        if value is old:
            return
        if not plans:
            plans.update(_plans(schema))
        checks, counted = plans[type(value)]
        before = len(verdict.faults)
        for check in checks:
            check(value, path, old, verdict)
        verdict.matches += counted
        if len(verdict.faults) > before and old is not UNKNOWN and same_json(value, old):
            verdict.forget(before)

    return judge


def _strict(schema: Obj) -> Check:
    """The same for an alternative, which is not let through as a whole; only what is in it may be."""
    plans: dict[type, Plan] = {}

    def judge(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        if not plans:
            plans.update(_plans(schema))
        checks, counted = plans[type(value)]
        for check in checks:
            check(value, path, old, verdict)
        verdict.matches += counted

    return judge


def _plans(schema: Obj) -> dict[type, Plan]:
    """The checks by the type of the value, for most keywords speak of one type alone.

    The real server counts each check that is made, also those that have nothing to look at: the type, the combinations
    (twice), the enum, what is the value's own, and the value as a whole.
    """
    types, enums = _some(type_check(schema)), _some(enum_check(schema))
    head = (*types, *_combinations(schema))
    counted = len(types) + 4
    texts = tuple(string_checks(schema))
    numbers: Plan = (*head, number_check(schema), *enums), counted + 1
    return {
        str: ((*head, *texts, *enums), counted + 1 + has_text_format(schema)),
        int: numbers,
        float: numbers,
        bool: ((*head, *enums), counted),
        list: ((*head, _list_check(schema), *enums), counted + 1),
        dict: ((*head, *enums, _object_check(schema)), counted + 1),
        type(None): ((*types, *enums), 0),
    }


def _some(check: Check | None) -> tuple[Check, ...]:
    return (check,) if check else ()


def _object_check(schema: Obj) -> Check:
    properties: dict[str, Check] = {name: judge_by(inner) for name, inner in schema.get("properties", NOTHING).items()}
    more = schema.get("additionalProperties")
    others = judge_by(more) if isinstance(more, dict) else None
    forbids_others = more is False
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    wanted: list[str] = schema.get("required") or []

    def check(value: Obj, path: str, old: Any, verdict: Verdict) -> None:
        before = old if type(old) is dict else NOTHING
        if least is not None and len(value) < least:
            verdicts.invalid(verdict, path, len(value), f"should have at least {least} properties")
        if most is not None and len(value) > most:
            verdicts.too_many(verdict, path, len(value), most, "properties")
        for name, part in value.items():
            judge, was = properties.get(name, others), before.get(name, UNKNOWN)
            if judge:
                if part is not was:
                    judge(part, f"{path}.{name}" if path else name, was, verdict)
            elif forbids_others and name not in properties:
                words = f"{path}.{name} in body is a forbidden property"
                verdicts.invalid_as(verdict, path, name, words)
        for name in wanted:
            if name not in value:
                verdicts.required(verdict, f"{path}.{name}")

    return check


def _list_check(schema: Obj) -> Check:
    items = schema.get("items")
    judge = judge_by(items) if isinstance(items, dict) else None
    least, most = schema.get("minItems"), schema.get("maxItems")

    def check(value: list[Any], path: str, old: Any, verdict: Verdict) -> None:
        if judge:
            before = counterparts(schema, value, old)
            for place, part in enumerate(value):
                judge(part, f"{path}[{place}]", before[place], verdict)
        if least is not None and len(value) < least:
            verdicts.invalid(verdict, path, len(value), f"should have at least {least} items")
        if most is not None and len(value) > most:
            verdicts.too_many(verdict, path, len(value), most, "items")
        verdict.matches += 1

    return check


def counterparts(schema: Obj, new: list[Any], old: Any) -> list[Any]:
    """The old elements that those of a list are to be compared with: of the same key, where the list is a map."""
    if type(old) is not list or schema.get("x-kubernetes-list-type") != "map":
        return [UNKNOWN] * len(new)
    by_key: dict[Any, Any] = {}
    for part in old:
        by_key.setdefault(_key(schema, part), part)
    return [by_key.get(_key(schema, part), UNKNOWN) for part in new]


def _key(schema: Obj, element: Any) -> Any:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    return repr([element.get(key) for key in keys]) if type(element) is dict else None


def _combinations(schema: Obj) -> Iterator[Check]:
    """Of several failed alternatives, the one in which most was right is told."""
    for name, combination in zip(COMBINATIONS, (_any_of, _one_of, _all_of), strict=False):
        if schema.get(name):
            yield combination(schema[name])
    if isinstance(schema.get("not"), dict):
        yield _not(schema["not"])


def _tried(judges: list[Check], value: Any, path: str, old: Any) -> Iterator[Verdict]:
    for judge in judges:
        verdict = Verdict()
        judge(value, path, old, verdict)
        yield verdict


def _best(failures: list[Verdict]) -> Verdict:
    return max(failures, key=lambda verdict: verdict.matches)


def _any_of(alternatives: list[Obj]) -> Check:
    judges = [_strict(alternative) for alternative in alternatives]

    def check(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        failures = []
        for tried in _tried(judges, value, path, old):
            if not tried.faults:
                verdict.merge(tried)
                return
            failures.append(tried)
        verdicts.plainly(verdict, f'"{path}" must validate at least one schema (anyOf)')
        verdict.merge(_best(failures))

    return check


def _one_of(alternatives: list[Obj]) -> Check:
    judges = [_strict(alternative) for alternative in alternatives]

    def check(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        all_tried = list(_tried(judges, value, path, old))
        valid = [tried for tried in all_tried if not tried.faults]
        if len(valid) == 1:
            verdict.merge(valid[0])
            return
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        verdicts.plainly(verdict, f'"{path}" must validate one and only one schema (oneOf). {found}')
        if not valid:
            verdict.merge(_best(all_tried))

    return check


def _all_of(parts: list[Obj]) -> Check:
    judges = [_strict(part) for part in parts]

    def check(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        valid = 0
        for tried in _tried(judges, value, path, old):
            valid += not tried.faults
            verdict.merge(tried)
        if valid < len(judges):
            verdicts.plainly(verdict, f'"{path}" must validate all the schemas (allOf){"" if valid else ". None validated"}')

    return check


def _not(schema: Obj) -> Check:
    judge = _strict(schema)

    def check(value: Any, path: str, old: Any, verdict: Verdict) -> None:
        tried = Verdict()
        judge(value, path, old, tried)
        if not tried.faults:
            verdicts.plainly(verdict, f'"{path}" must not validate the schema (not)')

    return check
