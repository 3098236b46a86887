"""CEL rules of a schema (x-kubernetes-validations): types, compilation, evaluation and messages.

A rule that reads `oldSelf` is evaluated only where there is an old value. Other rules accept what
an update leaves unchanged.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel import CompilationError, EvaluationError, Program, compile_expression
from pytest_kscen.cel.functions.conversions import duration, timestamp
from pytest_kscen.cel.parsing import RESERVED
from pytest_kscen.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    optional_of,
)
from pytest_kscen.cel.values import NONE, MapList, Optional, SetList
from pytest_kscen.embedded.apiserver.schema.keywords import NO_PATH
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.embedded.apiserver.schema.structural import (
    EMBEDDED,
    InvalidFieldPath,
    resolve_field_path,
)
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

    Convert = Callable[[Any], Any]


RULES = "x-kubernetes-validations"
MAX_MESSAGE_BYTES = 5 * 1024
NO_OVERLOAD = (
    "call arguments did not match a supported operator, function or macro signature for rule"
)


class InvalidRule(ValueError):
    """Rule, or message expression of a rule, that does not compile. `part` names the member at
    fault.
    """

    def __init__(self, text: str, part: str = "rule") -> None:
        super().__init__(text)
        self.part = part


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """Compiled rule at one place of a schema. `definition` is its entry in
    x-kubernetes-validations.
    """

    definition: Obj
    program: Program
    message: Program | None
    path: str

    @property
    def uses_old_self(self) -> bool:
        return "oldSelf" in self.program.uses

    @property
    def old_self_is_optional(self) -> bool:
        return bool(self.definition.get("optionalOldSelf"))

    @property
    def title(self) -> str:
        return str(self.definition.get("message") or self.definition["rule"]).strip()


def compile_rule(definition: Obj, type_: Type, schema: Obj) -> SchemaRule:
    old = optional_of(type_) if definition.get("optionalOldSelf") else type_
    variables = {"self": type_, "oldSelf": old}
    program = _compile(definition["rule"], variables, "compilation failed: ")
    if program.type != BOOL:
        raise InvalidRule("cel expression must evaluate to a bool")
    message = None
    if definition.get("messageExpression"):
        message = _compile(
            definition["messageExpression"],
            variables,
            "messageExpression compilation failed: ",
            "messageExpression",
        )
        if message.type != STRING:
            raise InvalidRule("messageExpression must evaluate to a string", "messageExpression")
    path = ""
    if definition.get("fieldPath"):
        with contextlib.suppress(InvalidFieldPath):
            path = resolve_field_path(definition["fieldPath"], schema)[0]
    return SchemaRule(definition, program, message, path)


def _compile(source: str, variables: dict[str, Type], prefix: str, part: str = "rule") -> Program:
    try:
        return compile_expression(source, variables)
    except CompilationError as error:
        raise InvalidRule(f"{prefix}{error}", part) from None
    except EvaluationError as error:
        raise InvalidRule(f"program instantiation failed: {error}", part) from None


@dataclass(frozen=True, slots=True)
class RuleInput:
    """Input of a rule: the value and the old one, as JSON and as CEL values.

    `unchanged` tests whether an enclosing value is unchanged. It is called only when a rule fails,
    since the comparison is slow.
    """

    value: Any
    cel_value: Any
    old_cel_value: Any
    has_old: bool
    unchanged: Callable[[], bool]


def evaluate_rule(rule: SchemaRule, rule_input: RuleInput, path: str, kind: str) -> Iterator[Cause]:
    """Yield the cause if the value violates the rule or the evaluation fails.

    `kind` is the schema's type. Objects and arrays are omitted from messages.
    """
    if rule.uses_old_self and not rule_input.has_old and not rule.old_self_is_optional:
        return
    old_self = rule_input.old_cel_value
    if rule.old_self_is_optional:
        old_self = Optional(old_self, present=True) if rule_input.has_old else NONE
    variables = {"self": rule_input.cel_value, "oldSelf": old_self}
    try:
        holds = rule.program.value(variables)
    except EvaluationError as error:
        text = f"{error} evaluating rule: {rule.title}"
        if str(error).startswith("no such overload"):
            text = f"'{error}': {NO_OVERLOAD}: {rule.title}"
        yield Cause.invalid(path or NO_PATH, kind, text)
        return
    if holds is True or (not rule.uses_old_self and rule_input.unchanged()):
        return
    where = f"{path}.{rule.path}" if path and rule.path else path or rule.path or NO_PATH
    value = OMITTED_VALUE if kind in {"object", "array"} else rule_input.value
    text = rule.title if rule.definition.get("message") else f"failed rule: {rule.title}"
    if rule.message:
        with contextlib.suppress(EvaluationError):
            own = str(rule.message.value(variables)).strip()
            if own and "\n" not in own and len(own.encode()) <= MAX_MESSAGE_BYTES:
                text = own
    yield _failure_cause(rule.definition.get("reason", ""), where, value, text)


OMITTED_VALUE: Any = object()
"""Mark for a value that is too large for a message."""


def _failure_cause(reason: str, path: str, value: Any, text: str) -> Cause:
    if reason == "FieldValueForbidden":
        return Cause.forbidden(path, text)
    if reason == "FieldValueRequired":
        return Cause.required(path, text)
    if reason == "FieldValueDuplicate":
        return (
            Cause(path, "Duplicate value", reason)
            if value is OMITTED_VALUE
            else Cause.duplicate(path, value)
        )
    return (
        Cause(path, f"Invalid value: {text}")
        if value is OMITTED_VALUE
        else Cause.invalid(path, value, text)
    )


FORMAT_TYPES = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
SCALAR_TYPES = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
CEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")
CEL_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
RESOURCE_FIELDS: Obj = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def with_resource_fields(schema: Obj) -> Obj:
    """Return a resource's schema with `apiVersion`, `kind` and the name in `metadata`, which rules
    may always read.
    """
    properties = schema.get("properties") or EMPTY
    head = {
        **RESOURCE_FIELDS,
        "metadata": (properties.get("metadata", {}).get("properties") and properties["metadata"])
        or RESOURCE_FIELDS["metadata"],
    }
    return {**schema, "properties": {**properties, **head}}


def cel_type(schema: Obj, name: str = "selfType", *, is_root: bool = False) -> Type | None:
    """Return the CEL type of a schema's values; None for values that rules cannot read, such as
    untyped ones.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    if is_root or schema.get(EMBEDDED):
        schema = with_resource_fields(schema)
    kind = schema.get("type", "")
    if kind == "array":
        element = cel_type(schema.get("items") or EMPTY, f"{name}.@idx")
        return list_of(element) if element else None
    if kind == "object":
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            value = cel_type(more, f"{name}.@elem")
            return map_of(STRING, value) if value else None
        fields: dict[str, Type] = {}
        for field, inner in (schema.get("properties") or EMPTY).items():
            escaped, found = cel_name(field), cel_type(inner, f"{name}.{field}")
            if escaped and found:
                fields[escaped] = fields[field] = found
        return Type(name, (), fields)
    if kind == "string":
        return FORMAT_TYPES.get(schema.get("format", ""), STRING)
    return SCALAR_TYPES.get(kind)


def cel_name(name: str) -> str:
    """Return the name of a field in CEL, with reserved words and characters escaped; empty if it
    cannot be written.
    """
    if name in CEL_KEYWORDS:
        return f"__{name}__"
    if not CEL_NAME.fullmatch(name):
        return ""
    return (
        name.replace("__", "__underscores__")
        .replace(".", "__dot__")
        .replace("-", "__dash__")
        .replace("/", "__slash__")
    )


def cel_conversion(schema: Obj) -> Convert | None:
    """Return the function that makes CEL values of JSON; None if they are equal for this schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    kind = schema.get("type", "")
    if kind == "array":
        return _list_conversion(schema)
    if kind == "object":
        properties = schema.get("properties") or EMPTY
        fields = {
            name: found for name, inner in properties.items() if (found := cel_conversion(inner))
        }
        more = schema.get("additionalProperties")
        others = cel_conversion(more) if isinstance(more, dict) else None
        if not fields and others is None:
            return None

        def converted(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            converters = (
                (name, part, fields.get(name, None if name in properties else others))
                for name, part in value.items()
            )
            return {name: convert(part) if convert else part for name, part, convert in converters}

        return converted
    if kind == "string":
        return STRING_CONVERSIONS.get(schema.get("format", ""))
    return _as_double if kind == "number" else None


def _as_double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _as_bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return value


def _string_conversion(read: Callable[[str], Any], suffix: str = "") -> Convert:
    def convert(value: Any) -> Any:
        try:
            return read(value + suffix) if isinstance(value, str) else value
        except EvaluationError:
            return value

    return convert


STRING_CONVERSIONS: dict[str, Convert] = {
    "byte": _as_bytes,
    "duration": _string_conversion(duration),
    "date": _string_conversion(timestamp, "T00:00:00Z"),
    "date-time": _string_conversion(timestamp),
}


def _list_conversion(schema: Obj) -> Convert | None:
    element, kind = (
        cel_conversion(schema.get("items") or EMPTY),
        schema.get("x-kubernetes-list-type"),
    )
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if element is None and kind not in {"set", "map"}:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        parts = [element(part) for part in value] if element else value
        if kind == "set":
            return SetList(parts)
        if kind == "map":
            keyed = MapList(parts)
            keyed.keys = keys
            return keyed
        return parts

    return convert
