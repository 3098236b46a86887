"""The rules in a definition's schema: their form, and whether they compile where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.schema.celrules import RULES, BadRule, compiled_rule
from pytest_kscen.machinery.schema.celtypes import type_by
from pytest_kscen.machinery.schema.fieldpaths import BadPath, schema_at
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.structural import EMBEDDED
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
UNCORRELATABLE = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
BREAKS = "must not contain line breaks"


def form_faults(schema: Obj, path: str) -> Iterator[Cause]:
    """What is wrong with the rules of one place before anybody has read them."""
    for place, said in enumerate(schema.get(RULES) or ()):
        at = f"{path}.{RULES}[{place}]"
        yield from _rule_and_message(said, at)
        if said.get("messageExpression") and not said["messageExpression"].strip():
            yield Cause.required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")
        if "reason" in said and said["reason"] not in REASONS:
            yield Cause.unsupported(f"{at}.reason", said["reason"], REASONS)
        yield from _field_path(said.get("fieldPath", ""), schema, f"{at}.fieldPath")


def _rule_and_message(said: Obj, at: str) -> Iterator[Cause]:
    rule, message = said.get("rule", "").strip(), said.get("message", "")
    if not rule:
        yield Cause.required(f"{at}.rule", "rule is not specified")
    elif message and not message.strip():
        yield Cause.invalid(f"{at}.message", message, "must be non-empty if specified")
    elif _breaks(message.strip()):
        yield Cause.invalid(f"{at}.message", message, BREAKS)
    elif _breaks(rule) and not message:
        yield Cause.required(f"{at}.message", "message must be specified if rule contains line breaks")


def _field_path(path: str, schema: Obj, field: str) -> Iterator[Cause]:
    if not path:
        return
    if not path.strip():
        yield Cause.invalid(field, path, "must be non-empty if specified")
    if _breaks(path):
        yield Cause.invalid(field, path, BREAKS)
    try:
        schema_at(path, schema)
    except BadPath:
        yield Cause.invalid(field, path, "must be a valid path")


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def expression_faults(schema: Obj, path: str, *, is_root: bool = True, without_old: str = "") -> Iterator[Cause]:
    """What does not compile. `without_old` is where values stop being comparable with their old ones."""
    more, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(more, dict):
        yield from _below(more, f"{path}.additionalProperties", without_old)
    for name, inner in (schema.get("properties") or NOTHING).items():
        yield from _below(inner, f"{path}.properties[{name}]", without_old)
    if isinstance(items, dict):
        apart = "" if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _below(items, f"{path}.items", without_old or apart)
    type_ = type_by(schema, is_root=is_root) if schema.get(RULES) else None
    if type_ is None:
        return
    for place, said in enumerate(schema[RULES]):
        at = f"{path}.{RULES}[{place}]"
        try:
            rule = compiled_rule(said, type_, schema)
        except BadRule as mistake:
            yield Cause.invalid(f"{at}.{mistake.part}", _as_go_has_it(said), str(mistake))
            continue
        if rule.uses_old and without_old:
            yield Cause.invalid(f"{at}.rule", said["rule"], f"{UNCORRELATABLE} {without_old}")
        elif not rule.uses_old and "optionalOldSelf" in said:
            why = "may not be set if oldSelf is not used in rule"
            yield Cause.invalid(f"{at}.optionalOldSelf", said["optionalOldSelf"], why)


def _below(schema: Obj, path: str, without_old: str) -> Iterator[Cause]:
    return expression_faults(schema, path, is_root=bool(schema.get(EMBEDDED)), without_old=without_old)


def _as_go_has_it(said: Obj) -> Obj:
    told = {
        go: said.get(name, "")
        for go, name in (("Rule", "rule"), ("Message", "message"), ("MessageExpression", "messageExpression"))
    }
    optional = {"FieldPath": said.get("fieldPath", ""), "OptionalOldSelf": said.get("optionalOldSelf")}
    return {**told, "Reason": said.get("reason"), **optional}
