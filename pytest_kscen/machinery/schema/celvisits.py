"""All rules of a schema, put to a value branch by branch, each beside the old value it can be compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.cel.reading import paths_read
from pytest_kscen.machinery.schema.celrules import RULES, BadRule, Rule, Situation, compiled_rule, rule_faults
from pytest_kscen.machinery.schema.celtypes import conversion_by, type_by, with_head
from pytest_kscen.machinery.schema.judging import UNKNOWN, counterparts
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.structural import EMBEDDED
from pytest_kscen.objects.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.cel.reading import Path
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj

    Unchanged = Callable[[], bool]
    Ask = Callable[[Any, str, Any, Unchanged], Iterator[Cause]]

REMEMBERED = 5_000
LONGEST = 1024  # bytes of a question that is remembered


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
    """The rules of one place, compiled when a value first comes. What they agreed to once is not put to them again."""
    whole = with_head(schema) if is_root else schema
    convert, kind = conversion_by(whole), schema.get("type", "")
    compiled: list[Rule] = []
    paths: list[Path] = []
    looked_at: frozenset[str] | None = None
    agreed: set[str] = set()
    stayed: dict[int, Any] = {}  # what they agreed to beside itself, by its id

    def ask(value: Any, path: str, old: Any, unchanged: Unchanged) -> Iterator[Cause]:
        nonlocal looked_at
        if value is old and stayed.get(id(value), UNKNOWN) is value:
            return
        if not compiled:
            compiled.extend(_compiled(schema, is_root=is_root))
            paths.extend(_paths(compiled))
            looked_at = None if () in paths else frozenset(each[0] for each in paths)
        has_old = old is not UNKNOWN and old is not None
        question = _question(value, old if has_old else UNKNOWN, paths)
        if question not in agreed:
            as_cel = convert(_cut(value, looked_at)) if convert else value
            old_as_cel = (convert(_cut(old, looked_at)) if convert else old) if has_old else None
            situation = Situation(value, as_cel, old_as_cel, has_old, unchanged)
            faults = [fault for rule in compiled for fault in rule_faults(rule, situation, path, kind)]
            yield from faults
            if faults or not question:
                return
            if len(agreed) == REMEMBERED:
                agreed.clear()
            agreed.add(question)
        if value is old:
            if len(stayed) == REMEMBERED:
                stayed.clear()
            stayed[id(value)] = value

    return ask


def _paths(rules: list[Rule]) -> set[Path]:
    """The places that rules look at; all, where CEL spells one otherwise."""
    programs = [program for rule in rules for program in (rule.program, rule.message) if program]
    found = {path for program in programs for name in ("self", "oldSelf") for path in paths_read(program.tree, name)}
    return {()} if any("__" in step for path in found for step in path) else found


def _question(value: Any, old: Any, paths: list[Path]) -> str:
    """All that rules could see of a value and of the old one; nothing, if that is too much to remember.

    As text: orjson's bytes hold four KiB each, however short they are.
    """
    try:
        seen = [_at(value, path) for path in paths]
        asked = orjson.dumps([seen] if old is UNKNOWN else [seen, [_at(old, path) for path in paths]])
    except TypeError:  # no plain JSON
        return ""
    return asked.decode() if len(asked) <= LONGEST else ""


def _at(value: Any, path: Path) -> Any:
    """What is there, in a list; or else why there is nothing."""
    for step in path:
        if type(value) is not dict:
            return False
        if step not in value:
            return None
        value = value[step]
    return [value]


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
