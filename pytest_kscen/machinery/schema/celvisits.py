"""All rules of a schema, put to a value branch by branch, each beside the old value it can be compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.cel.reading import fields_read
from pytest_kscen.machinery.schema.celrules import RULES, BadRule, Rule, Situation, compiled_rule, rule_faults
from pytest_kscen.machinery.schema.celtypes import conversion_by, type_by, with_head
from pytest_kscen.machinery.schema.judging import UNKNOWN, counterparts
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.structural import EMBEDDED
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj

    Unchanged = Callable[[], bool]
    Ask = Callable[[Any, str, Any, Unchanged], Iterator[Cause]]


def rules_asker(schema: Obj, *, is_root: bool = False) -> Ask | None:
    """What asks the rules of a schema about `(value, path, old, unchanged)`; nothing, if there are none in it."""
    own = _own_rules(schema, is_root=is_root) if schema.get(RULES) else None
    items, members = _inner(schema.get("items")), _members(schema)
    if not (own or items or members):
        return None
    compares = _compares(schema)

    def ask(value: Any, path: str, old: Any, unchanged: Unchanged) -> Iterator[Cause]:
        if value is None or (value is old and not compares):
            return  # nothing to ask, or nothing that has not been let through before
        same = (lambda: same_json(value, old)) if old is not UNKNOWN else unchanged
        if own:
            yield from own(value, path, old, same)
        if isinstance(value, list) and items:
            for place, (part, before) in enumerate(zip(value, counterparts(schema, value, old), strict=True)):
                yield from items(part, f"{path}[{place}]", before, same)
        elif isinstance(value, dict) and members:
            yield from members(value, path, old, same)

    return ask


def _compares(schema: Any) -> bool:
    """Whether some rule in here may speak of the old value."""
    if not isinstance(schema, dict):
        return False
    below = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or NOTHING).values()]
    return any("oldSelf" in said["rule"] for said in schema.get(RULES) or ()) or any(map(_compares, below))


def _members(schema: Obj) -> Ask | None:
    properties = schema.get("properties") or NOTHING
    fields = {name: found for name, inner in properties.items() if (found := _inner(inner))}
    others = _inner(schema.get("additionalProperties"))
    if not fields and not others:
        return None

    def ask(value: Obj, path: str, old: Any, unchanged: Unchanged) -> Iterator[Cause]:
        olds = old if isinstance(old, dict) else NOTHING
        for name, part in value.items():
            if inner := fields.get(name):
                yield from inner(part, f"{path}.{name}" if path else name, olds.get(name, UNKNOWN), unchanged)
            elif others and name not in properties:
                yield from others(part, f"{path}[{name}]", olds.get(name, UNKNOWN), unchanged)

    return ask


def _inner(schema: Any) -> Ask | None:
    return rules_asker(schema, is_root=bool(schema.get(EMBEDDED))) if isinstance(schema, dict) else None


def _own_rules(schema: Obj, *, is_root: bool) -> Ask:
    """The rules of one place, compiled when a value first comes."""
    whole = with_head(schema) if is_root else schema
    convert, kind = conversion_by(whole), schema.get("type", "")
    compiled: list[Rule] = []
    looked_at: frozenset[str] | None = None

    def ask(value: Any, path: str, old: Any, unchanged: Unchanged) -> Iterator[Cause]:
        nonlocal looked_at
        if not compiled:
            compiled.extend(_compiled(schema, is_root=is_root))
            looked_at = _looked_at(compiled)
        has_old = old is not UNKNOWN and old is not None
        as_cel = convert(_cut(value, looked_at)) if convert else value
        old_as_cel = (convert(_cut(old, looked_at)) if convert else old) if has_old else None
        for rule in compiled:
            yield from rule_faults(rule, Situation(value, as_cel, old_as_cel, has_old, unchanged), path, kind)

    return ask


def _looked_at(rules: list[Rule]) -> frozenset[str] | None:
    """The fields of a value that its rules look at; None for all of it, or where CEL spells one otherwise."""
    programs = [program for rule in rules for program in (rule.program, rule.message) if program]
    read = [fields_read(program.tree, name) for program in programs for name in ("self", "oldSelf")]
    found = frozenset[str]().union(*(fields for fields in read if fields))
    return None if None in read or any("__" in field for field in found) else found


def _cut(value: Any, fields: frozenset[str] | None) -> Any:
    """So much of a value as anybody looks at: it takes time to make CEL's values of the rest."""
    if fields is None or type(value) is not dict:
        return value
    return {name: part for name, part in value.items() if name in fields}


def _compiled(schema: Obj, *, is_root: bool) -> Iterator[Rule]:
    type_ = type_by(schema, is_root=is_root)
    for said in schema[RULES]:
        try:
            if type_ and said["rule"].strip():
                yield compiled_rule(said, type_, schema)
        except BadRule:  # it was let in before, and never holds anybody up
            continue
