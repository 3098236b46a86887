"""Evaluation of all CEL rules of a schema on a value and its old value.

Branches without rules are skipped. Values that passed are cached, so an update evaluates only rules
that read what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from pytest_kscen.cel.syntax import paths_read
from pytest_kscen.embedded.apiserver.schema.cel_rules import (
    RULES,
    InvalidRule,
    RuleInput,
    SchemaRule,
    cel_conversion,
    cel_type,
    compile_rule,
    evaluate_rule,
    with_resource_fields,
)
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.embedded.apiserver.schema.structural import EMBEDDED
from pytest_kscen.embedded.apiserver.schema.validation import NO_OLD_VALUE, correlate_elements
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.cel.syntax import Path
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj

    Pair: TypeAlias = tuple[Any, Any]
    CacheKey: TypeAlias = str | tuple[Any, ...]
    Evaluate = Callable[[Any, str, Any, Pair | None], Sequence[Cause]]

MAX_CACHED = 1_000
MAX_KEY_BYTES = 1024  # bytes of a cache key
MAX_TEXT_LENGTH = 128  # characters of a text within a tuple key

NO_CAUSES: Sequence[Cause] = ()


def rules_evaluator(schema: Obj, *, is_root: bool = False) -> Evaluate | None:
    """Return the function that evaluates all rules of a schema; None if it has no rules.

    Its arguments are `(value, path, old, enclosing)`. The last one is the nearest enclosing value
    that has a known old value, as a pair with it; None if there is none.
    """
    own = _own_rules_evaluator(schema, is_root=is_root) if schema.get(RULES) else None
    below: dict[type, Evaluate] = {
        kind: evaluator
        for kind, evaluator in ((list, _list_evaluator(schema)), (dict, _object_evaluator(schema)))
        if evaluator
    }
    if not (own or below):
        return None
    compares = _uses_old_self(schema)
    passed_unchanged: dict[int, Any] = {}  # values that passed against themselves as old value

    def evaluate(value: Any, path: str, old: Any, enclosing: Pair | None) -> Sequence[Cause]:
        if value is None or (
            value is old
            and (not compares or passed_unchanged.get(id(value), NO_OLD_VALUE) is value)
        ):
            return NO_CAUSES  # no value, or a value that passed before
        if old is not NO_OLD_VALUE:
            enclosing = value, old
        found = own(value, path, old, enclosing) if own else NO_CAUSES
        if (parts := below.get(type(value))) and (more := parts(value, path, old, enclosing)):
            found = [*found, *more]
        if value is old and not found:
            if len(passed_unchanged) == MAX_CACHED:
                passed_unchanged.clear()
            passed_unchanged[id(value)] = value
        return found

    return evaluate


def _uses_old_self(schema: Any) -> bool:
    """Report whether some rule in the schema may read `oldSelf`. A textual test is enough: a false
    positive only costs time.
    """
    if not isinstance(schema, dict):
        return False
    below = [
        schema.get("items"),
        schema.get("additionalProperties"),
        *(schema.get("properties") or EMPTY).values(),
    ]
    return any("oldSelf" in definition["rule"] for definition in schema.get(RULES) or ()) or any(
        map(_uses_old_self, below)
    )


def _list_evaluator(schema: Obj) -> Evaluate | None:
    inner = _nested_evaluator(schema.get("items"))
    if not inner:
        return None

    def evaluate(value: list[Any], path: str, old: Any, enclosing: Pair | None) -> Sequence[Cause]:
        found: Sequence[Cause] = NO_CAUSES
        for index, (part, before) in enumerate(
            zip(value, correlate_elements(schema, value, old), strict=True)
        ):
            if below := inner(part, f"{path}[{index}]", before, enclosing):
                found = [*found, *below]
        return found

    return evaluate


def _object_evaluator(schema: Obj) -> Evaluate | None:
    properties = schema.get("properties") or EMPTY
    fields = {
        name: found for name, inner in properties.items() if (found := _nested_evaluator(inner))
    }
    others = _nested_evaluator(schema.get("additionalProperties"))
    if not fields and not others:
        return None

    def evaluate(value: Obj, path: str, old: Any, enclosing: Pair | None) -> Sequence[Cause]:
        olds = old if isinstance(old, dict) else EMPTY
        found: Sequence[Cause] = NO_CAUSES
        for name, part in value.items():
            if name in fields:
                below = fields[name](
                    part,
                    f"{path}.{name}" if path else name,
                    olds.get(name, NO_OLD_VALUE),
                    enclosing,
                )
            elif others and name not in properties:
                below = others(part, f"{path}[{name}]", olds.get(name, NO_OLD_VALUE), enclosing)
            else:
                continue
            if below:
                found = [*found, *below]
        return found

    return evaluate


def _nested_evaluator(schema: Any) -> Evaluate | None:
    return (
        rules_evaluator(schema, is_root=bool(schema.get(EMBEDDED)))
        if isinstance(schema, dict)
        else None
    )


def _own_rules_evaluator(schema: Obj, *, is_root: bool) -> Evaluate:
    """Return the evaluator of the rules at one place of a schema.

    Rules are compiled on first use. What the rules read of values that passed is cached.
    """
    whole = with_resource_fields(schema) if is_root else schema
    convert, kind = cel_conversion(whole), schema.get("type", "")
    compiled: list[SchemaRule] = []
    paths: list[Path] = []
    old_paths: list[Path] = []
    fields_read: frozenset[str] | None = None
    passed: set[CacheKey] = set()

    def evaluate(value: Any, path: str, old: Any, enclosing: Pair | None) -> Sequence[Cause]:
        nonlocal fields_read
        if not compiled:
            compiled.extend(_compile_rules(schema, is_root=is_root))
            paths.extend(_read_paths(compiled, "self"))
            old_paths.extend(_read_paths(compiled, "oldSelf"))
            both = [*paths, *old_paths]
            fields_read = None if () in both else frozenset(each[0] for each in both)
        has_old = old is not NO_OLD_VALUE and old is not None
        key = _cache_key(value, paths, old, old_paths if has_old else ())
        if key not in passed:
            ignored_as_unchanged = False

            def unchanged() -> bool:
                nonlocal ignored_as_unchanged
                ignored_as_unchanged = enclosing is not None and same_json(*enclosing)
                return ignored_as_unchanged

            cel_value = convert(_keep_fields(value, fields_read)) if convert else value
            old_cel_value = (
                (convert(_keep_fields(old, fields_read)) if convert else old) if has_old else None
            )
            rule_input = RuleInput(value, cel_value, old_cel_value, has_old, unchanged)
            faults = [
                fault for rule in compiled for fault in evaluate_rule(rule, rule_input, path, kind)
            ]
            if faults or ignored_as_unchanged or not key:
                return faults
            if len(passed) == MAX_CACHED:
                passed.clear()
            passed.add(key)
        return NO_CAUSES

    return evaluate


def _read_paths(rules: list[SchemaRule], variable: str) -> set[Path]:
    """Return the paths below a variable that the rules read.

    The result is the empty path, which means everything, if a name is escaped in CEL.
    """
    programs = [program for rule in rules for program in (rule.program, rule.message) if program]
    found = {path for program in programs for path in paths_read(program.tree, variable)}
    return {()} if any("__" in step for path in found for step in path) else found


class _MissingValue:
    """Mark for the absence of a value at a path, with the form that it has in a cache key.

    A class, because the hash of an enum's members takes a call.
    """

    def __init__(self, *, cached_form: bool | None) -> None:
        self.cached_form = cached_form


NO_FIELD, NO_OBJECT = _MissingValue(cached_form=None), _MissingValue(cached_form=False)
COMPARABLE_TYPES = frozenset([str, bool, type(None), _MissingValue])
"""Types whose values are never equal to a value of another of these types."""


def _cache_key(value: Any, paths: Sequence[Path], old: Any, old_paths: Sequence[Path]) -> CacheKey:
    """Return all that the rules can read of a value and of the old one.

    An empty text means that it is too large to cache.
    """
    seen = _values_at(value, paths)
    if old_paths:
        seen += _values_at(old, old_paths)
    for each in seen:
        if type(each) not in COMPARABLE_TYPES or (
            type(each) is str and len(each) > MAX_TEXT_LENGTH
        ):
            # Text, because orjson's bytes occupy 4 KiB each, however short.
            try:
                as_json = orjson.dumps(
                    [each.cached_form if type(each) is _MissingValue else [each] for each in seen]
                )
            except TypeError:  # not plain JSON
                return ""
            return as_json.decode() if len(as_json) <= MAX_KEY_BYTES else ""
    return tuple(seen)


def _values_at(value: Any, paths: Sequence[Path]) -> list[Any]:
    """Return the value at each path, or the mark for a missing field or object."""
    found = []
    for path in paths:
        part = value
        for step in path:
            if type(part) is dict:
                part = part.get(step, NO_FIELD)
            elif part is not NO_FIELD:
                part = NO_OBJECT
        found.append(part)
    return found


def _keep_fields(value: Any, fields: frozenset[str] | None) -> Any:
    """Return the object with only these fields, the ones that rules read: conversion to CEL values
    is slow.
    """
    if fields is None or type(value) is not dict:
        return value
    return {name: part for name, part in value.items() if name in fields}


def _compile_rules(schema: Obj, *, is_root: bool) -> Iterator[SchemaRule]:
    type_ = cel_type(schema, is_root=is_root)
    for definition in schema[RULES]:
        try:
            if type_ and definition["rule"].strip():
                yield compile_rule(definition, type_, schema)
        except InvalidRule:  # stored before the rule became invalid; it must not block writes
            continue
