"""Validation of the OpenAPI features and CEL rules in a definition's schema.

Structure is validated by `structural_schemas`, which calls this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.schema.cel_rules import (
    RULES,
    InvalidRule,
    cel_type,
    compile_rule,
)
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.embedded.apiserver.schema.structural import (
    EMBEDDED,
    PRESERVE,
    InvalidFieldPath,
    resolve_field_path,
)
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj


RULE_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
UNCORRELATABLE = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
LINE_BREAKS_FORBIDDEN = "must not contain line breaks"


def validate_rule_forms(schema: Obj, path: str) -> Iterator[Cause]:
    """Yield the causes for the form of the rules at one place, before any of them is compiled."""
    for index, rule_spec in enumerate(schema.get(RULES) or ()):
        at = f"{path}.{RULES}[{index}]"
        rule, message = rule_spec.get("rule", "").strip(), rule_spec.get("message", "")
        if not rule:
            yield Cause.required(f"{at}.rule", "rule is not specified")
        elif message and not message.strip():
            yield Cause.invalid(f"{at}.message", message, "must be non-empty if specified")
        elif _has_line_break(message.strip()):
            yield Cause.invalid(f"{at}.message", message, LINE_BREAKS_FORBIDDEN)
        elif _has_line_break(rule) and not message:
            yield Cause.required(
                f"{at}.message", "message must be specified if rule contains line breaks"
            )
        if rule_spec.get("messageExpression") and not rule_spec["messageExpression"].strip():
            yield Cause.required(
                f"{at}.messageExpression", "messageExpression must be non-empty if specified"
            )
        if "reason" in rule_spec and rule_spec["reason"] not in RULE_REASONS:
            yield Cause.unsupported(f"{at}.reason", rule_spec["reason"], RULE_REASONS)
        yield from _validate_field_path(rule_spec.get("fieldPath", ""), schema, f"{at}.fieldPath")


def _validate_field_path(path: str, schema: Obj, field: str) -> Iterator[Cause]:
    if not path:
        return
    if not path.strip():
        yield Cause.invalid(field, path, "must be non-empty if specified")
    if _has_line_break(path):
        yield Cause.invalid(field, path, LINE_BREAKS_FORBIDDEN)
    try:
        resolve_field_path(path, schema)
    except InvalidFieldPath:
        yield Cause.invalid(field, path, "must be a valid path")


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def validate_expressions(
    schema: Obj, path: str, *, is_root: bool = True, without_old: str = ""
) -> Iterator[Cause]:
    """Yield the causes for rules that do not compile, at this place and below.

    `without_old` is the path from which on values cannot be correlated with old ones; empty if they
    can.
    """
    more, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(more, dict):
        yield from _validate_nested_rules(more, f"{path}.additionalProperties", without_old)
    for name, inner in (schema.get("properties") or EMPTY).items():
        yield from _validate_nested_rules(inner, f"{path}.properties[{name}]", without_old)
    if isinstance(items, dict):
        list_path = "" if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _validate_nested_rules(items, f"{path}.items", without_old or list_path)
    type_ = cel_type(schema, is_root=is_root) if schema.get(RULES) else None
    if type_ is None:
        return
    for index, rule_spec in enumerate(schema[RULES]):
        at = f"{path}.{RULES}[{index}]"
        try:
            rule = compile_rule(rule_spec, type_, schema)
        except InvalidRule as error:
            named_fields = {
                go: rule_spec.get(name, "")
                for go, name in (
                    ("Rule", "rule"),
                    ("Message", "message"),
                    ("MessageExpression", "messageExpression"),
                )
            }
            optional = {
                "FieldPath": rule_spec.get("fieldPath", ""),
                "OptionalOldSelf": rule_spec.get("optionalOldSelf"),
            }
            yield Cause.invalid(
                f"{at}.{error.part}",
                {**named_fields, "Reason": rule_spec.get("reason"), **optional},
                str(error),
            )
            continue
        if rule.uses_old_self and without_old:
            yield Cause.invalid(f"{at}.rule", rule_spec["rule"], f"{UNCORRELATABLE} {without_old}")
        elif not rule.uses_old_self and "optionalOldSelf" in rule_spec:
            detail = "may not be set if oldSelf is not used in rule"
            yield Cause.invalid(f"{at}.optionalOldSelf", rule_spec["optionalOldSelf"], detail)


def _validate_nested_rules(schema: Obj, path: str, without_old: str) -> Iterator[Cause]:
    return validate_expressions(
        schema, path, is_root=bool(schema.get(EMBEDDED)), without_old=without_old
    )


SCHEMA_TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNSUPPORTED_KEYWORDS = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
LIST_TYPE, MAP_KEYS, MAP_TYPE = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
HEAD_FIELDS = ("metadata", "kind", "apiVersion")
UNIQUE_ITEMS_FORBIDDEN = (
    "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
)
SET_ITEM_ATOMIC = "must be atomic as item of a list with x-kubernetes-list-type=set"
PROPERTIES_EXCLUSIVE = "additionalProperties and properties are mutual exclusive"
MAP_ITEM_OBJECT = "must be object if parent array's x-kubernetes-list-type is map"
MAP_KEY_REQUIRED = (
    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
    "required property"
)
MAP_KEY_NOT_NULLABLE = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"


@dataclass(frozen=True, slots=True)
class SchemaContext:
    """Facts about the place of a nested schema.

    `no_default` is the reason why it must not have a default, `in_head` is set within a resource's
    metadata.
    """

    no_default: str = ""
    in_head: bool = False


def validate_openapi_schema(schema: Obj, path: str) -> Iterator[Cause]:
    yield from _validate_schema(schema, path, SchemaContext(), is_root=True)


def _validate_schema(
    schema: Obj, path: str, context: SchemaContext, *, is_root: bool = False
) -> Iterator[Cause]:
    given = schema.get("type", "")
    if given and given not in SCHEMA_TYPES:
        yield Cause.unsupported(f"{path}.type", given, SCHEMA_TYPES)
    if "default" in schema and context.no_default:
        yield Cause.forbidden(f"{path}.default", f"must not be set {context.no_default}")
    for name in UNSUPPORTED_KEYWORDS:
        if schema.get(name) not in (None, "", {}):
            yield Cause.forbidden(f"{path}.{name}", f"{name} is not supported")
    if given == "null":
        yield Cause.forbidden(
            f"{path}.type", "type cannot be set to null, use nullable as an alternative"
        )
    if isinstance(schema.get("items"), list):
        yield Cause.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if context.in_head and schema.get(EMBEDDED):
        yield Cause.forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        yield Cause.forbidden(f"{path}.uniqueItems", UNIQUE_ITEMS_FORBIDDEN)
    yield from _validate_nested_schemas(schema, path, context, is_root=is_root)
    yield from _validate_list_and_map_types(schema, path)
    yield from validate_rule_forms(schema, path)


def _validate_nested_schemas(
    schema: Obj, path: str, context: SchemaContext, *, is_root: bool
) -> Iterator[Cause]:
    more, properties = schema.get("additionalProperties"), schema.get("properties") or EMPTY
    if more is not None:
        if properties and more is not True:
            yield Cause.forbidden(f"{path}.additionalProperties", PROPERTIES_EXCLUSIVE)
        if isinstance(more, dict):
            detail = "inside additionalProperties applying to object metadata"
            inside = replace(context, no_default=detail) if context.in_head else context
            yield from _validate_schema(more, f"{path}.additionalProperties", inside)
    for name, inner in properties.items():
        inside = context
        if name in HEAD_FIELDS and (is_root or schema.get(EMBEDDED)):
            no_default = f"in top-level {name}" if is_root else context.no_default
            inside = replace(context, in_head=True, no_default=no_default)
        yield from _validate_schema(inner, f"{path}.properties[{name}]", inside)
    if "not" in schema:
        yield from _validate_schema(schema["not"], f"{path}.not", context)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield from _validate_schema(inner, f"{path}.{name}[{index}]", context)
    if isinstance(schema.get("items"), dict):
        yield from _validate_schema(schema["items"], f"{path}.items", context)


def _validate_list_and_map_types(schema: Obj, path: str) -> Iterator[Cause]:
    given = schema.get("type", "")
    if schema.get(PRESERVE) is False:
        yield Cause.invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if MAP_TYPE in schema:
        yield from _validate_type(
            f"{path}.type", given, "object", "must be object if x-kubernetes-map-type is specified"
        )
        if schema[MAP_TYPE] not in {"atomic", "granular"}:
            yield Cause.unsupported(f"{path}.{MAP_TYPE}", schema[MAP_TYPE], ("atomic", "granular"))
    kind = schema.get(LIST_TYPE)
    if kind is not None:
        yield from _validate_type(
            f"{path}.type", given, "array", "must be array if x-kubernetes-list-type is specified"
        )
        if given == "array" and kind == "set" and isinstance(schema.get("items"), dict):
            yield from _validate_set_items(schema["items"], f"{path}.items")
        if kind not in {"atomic", "set", "map"}:
            yield Cause.unsupported(f"{path}.{LIST_TYPE}", kind, ("atomic", "set", "map"))
    if schema.get(MAP_KEYS) and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            Cause.invalid(f"{path}.{LIST_TYPE}", kind, detail)
            if kind is not None
            else Cause.required(f"{path}.{LIST_TYPE}", detail)
        )
    if kind == "map":
        yield from _validate_list_map(schema, path)
    if kind in {"map", "set"} and isinstance(schema.get("items"), dict):
        yield from _validate_map_keys(schema, kind, f"{path}.items")


def _validate_type(field: str, given: str, wanted: str, detail: str) -> Iterator[Cause]:
    if given != wanted:
        yield Cause.invalid(field, given, detail) if given else Cause.required(field, detail)


def _validate_set_items(items: Obj, path: str) -> Iterator[Cause]:
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield Cause.invalid(f"{path}.{LIST_TYPE}", items[LIST_TYPE], SET_ITEM_ATOMIC)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield Cause.invalid(f"{path}.{MAP_TYPE}", items.get(LIST_TYPE), SET_ITEM_ATOMIC)


def _validate_list_map(schema: Obj, path: str) -> Iterator[Cause]:
    keys, items = schema.get(MAP_KEYS) or [], schema.get("items")
    if not keys:
        yield Cause.required(
            f"{path}.{MAP_KEYS}", "must not be empty if x-kubernetes-list-type is map"
        )
    if items is None:
        yield Cause.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif isinstance(items, dict) and items.get("type") != "object":
        yield Cause.invalid(f"{path}.items.type", items.get("type", ""), MAP_ITEM_OBJECT)
    elif isinstance(items, dict):
        properties = items.get("properties") or EMPTY
        for index, key in enumerate(keys):
            if key not in properties:
                yield Cause.invalid(
                    f"{path}.{MAP_KEYS}", keys, "entries must all be names of item properties"
                )
            elif properties[key].get("type") in {"array", "object"}:
                detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield Cause.invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
            if key in keys[:index]:
                yield Cause.invalid(
                    f"{path}.{MAP_KEYS}", keys, "must not contain duplicate entries"
                )


def _validate_map_keys(schema: Obj, kind: str, path: str) -> Iterator[Cause]:
    items = schema["items"]
    if items.get("nullable"):
        yield Cause.forbidden(
            f"{path}.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}"
        )
    if kind == "set":
        return
    properties = items.get("properties") or EMPTY
    for key in schema.get(MAP_KEYS) or ():
        inner, field = properties.get(key), f"{path}.properties[{key}]"
        if inner is None:
            continue
        if key not in (items.get("required") or ()) and "default" not in inner:
            yield Cause.required(f"{field}.default", MAP_KEY_REQUIRED)
        if inner.get("nullable"):
            yield Cause.forbidden(f"{field}.nullable", MAP_KEY_NOT_NULLABLE)
