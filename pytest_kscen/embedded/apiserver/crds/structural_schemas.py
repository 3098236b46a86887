"""Validation of the schema of a definition's version: structure and defaults.

Results are cached by schema, since tests define the same kinds again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.cel.re2 import BadPattern, compile_pattern
from pytest_kscen.embedded.apiserver.crds.openapi_schemas import (
    validate_expressions,
    validate_openapi_schema,
)
from pytest_kscen.embedded.apiserver.schema.cel_evaluation import rules_evaluator
from pytest_kscen.embedded.apiserver.schema.custom import embedded_resource_visit
from pytest_kscen.embedded.apiserver.schema.decode_errors import DecodeError, UnknownField
from pytest_kscen.embedded.apiserver.schema.formats import known_format
from pytest_kscen.embedded.apiserver.schema.keywords import SchemaResult
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.embedded.apiserver.schema.structural import EMBEDDED, PRESERVE, structural_decoder
from pytest_kscen.embedded.apiserver.schema.validation import (
    NO_OLD_VALUE,
    schema_check,
    schema_visit,
)
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj


AT_ROOT, IN_ITEMS, IN_FIELDS = (
    "at the root",
    "for specified array items",
    "for specified object fields",
)
INT_OR_STRING = "x-kubernetes-int-or-string"
INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]
FORBIDDEN_IN_CONDITIONS = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
METADATA_FORBIDDEN = (
    "must not specify anything other than name and generateName, but metadata is implicitly "
    "specified"
)
PROPERTIES_REQUIRED = (
    "must not be empty if x-kubernetes-embedded-resource is true without "
    "x-kubernetes-preserve-unknown-fields"
)


def validate_structural(schema: Obj, path: str) -> list[Cause]:
    """Return the causes for a schema that is not structural, sorted by field and message.

    Each field needs a type of its own, and conditions may only restrict fields that exist.
    """
    causes = [
        *_validate_invariants(schema, AT_ROOT, path),
        *_validate_conditions_complete(schema, schema, path, path),
    ]
    return sorted(causes, key=lambda cause: f"{cause.field}: {cause.message}")


def _validate_invariants(schema: Obj, level: str, path: str) -> Iterator[Cause]:
    if schema.get("type") == "array" and "items" not in schema:
        yield Cause.required(f"{path}.items", "must be specified")
    if "items" in schema:
        yield from _validate_invariants(schema["items"], IN_ITEMS, f"{path}.items")
    for name, inner in (schema.get("properties") or EMPTY).items():
        yield from _validate_invariants(inner, IN_FIELDS, f"{path}.properties[{name}]")
    if "additionalProperties" in schema:
        if level is AT_ROOT:
            yield Cause.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(schema["additionalProperties"], dict):
            yield from _validate_invariants(
                schema["additionalProperties"], IN_FIELDS, f"{path}.additionalProperties"
            )
    yield from (
        Cause.invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")
        for name in (PRESERVE, EMBEDDED)
        if schema.get(INT_OR_STRING) and schema.get(name)
    )
    all_of = schema.get("allOf") or [EMPTY]
    skips = {
        "skip_any_of": schema.get("anyOf") == INTEGER_OR_STRING,
        "skip_first": all_of[0].get("anyOf") == INTEGER_OR_STRING,
    }
    yield from _validate_conditions(schema, path, **skips)
    yield from _validate_type(schema, level, path)
    yield from _validate_head(schema, level, path)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not schema.get("properties"):
        yield Cause.required(f"{path}.properties", PROPERTIES_REQUIRED)


def _validate_type(schema: Obj, level: str, path: str) -> Iterator[Cause]:
    given, field = schema.get("type", ""), f"{path}.type"
    if schema.get(EMBEDDED):
        detail = "must be object if x-kubernetes-embedded-resource is true"
        if given != "object":
            yield Cause.invalid(field, given, detail) if given else Cause.required(field, detail)
        if "additionalProperties" in schema:
            where = f"{path}.additionalProperties"
            yield Cause.forbidden(
                where, "must not be used if x-kubernetes-embedded-resource is set"
            )
    elif not given and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield Cause.required(field, f"must not be empty {level}")
    if level is AT_ROOT and given and given != "object":
        yield Cause.invalid(field, given, "must be object at the root")


def _validate_head(schema: Obj, level: str, path: str) -> Iterator[Cause]:
    """Yield the causes for schemas of a resource's kind, version and metadata."""
    properties, of_resource = (
        schema.get("properties") or EMPTY,
        level is AT_ROOT or schema.get(EMBEDDED),
    )
    for name in ("kind", "apiVersion"):
        if of_resource and name in properties and properties[name].get("type") != "string":
            yield Cause.invalid(
                f"{path}.properties[{name}].type",
                properties[name].get("type", ""),
                "must be string",
            )
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if of_resource and metadata.get("type") != "object":
        yield Cause.invalid(
            f"{path}.properties[metadata].type", metadata.get("type", ""), "must be object"
        )
    if level is AT_ROOT:
        named = set(metadata.get("properties") or EMPTY) <= {"name", "generateName"}
        if not named or any(
            value for key, value in metadata.items() if key not in {"properties", "type", "default"}
        ):
            yield Cause.forbidden(f"{path}.properties[metadata]", METADATA_FORBIDDEN)


def _validate_conditions(
    schema: Obj, path: str, *, skip_any_of: bool, skip_first: bool
) -> Iterator[Cause]:
    """Yield the causes for the conditions on a value. Alternatives that only mean "integer or
    string" are skipped.
    """
    if not skip_any_of:
        yield from _validate_each_nested(schema, "anyOf", path)
    for index, inner in enumerate(schema.get("allOf") or ()):
        yield from _validate_nested(
            inner, f"{path}.allOf[{index}]", skip_any_of=skip_first and index == 0
        )
    yield from _validate_each_nested(schema, "oneOf", path)
    if "not" in schema:
        yield from _validate_nested(schema["not"], f"{path}.not")
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            yield Cause.invalid(
                f"{path}.pattern",
                pattern,
                f"must be a valid regular expression, but isn't: {error}",
            )


def _validate_each_nested(schema: Obj, name: str, path: str) -> Iterator[Cause]:
    for index, inner in enumerate(schema.get(name) or ()):
        yield from _validate_nested(inner, f"{path}.{name}[{index}]")


def _validate_nested(schema: Obj, path: str, *, skip_any_of: bool = False) -> Iterator[Cause]:
    """Yield the causes for a schema inside a condition, which may only restrict fields that are
    specified outside.
    """
    yield from _validate_conditions(schema, path, skip_any_of=skip_any_of, skip_first=False)
    if "items" in schema:
        yield from _validate_nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or EMPTY).items():
        yield from _validate_nested(inner, f"{path}.properties[{name}]")
    if schema.get("additionalProperties") not in (None, False):
        yield Cause.forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for name, detail in FORBIDDEN_IN_CONDITIONS.items():
        if schema.get(name, False) not in ("", False, []):
            yield Cause.forbidden(f"{path}.{name}", detail)
    if "metadata" in (schema.get("properties") or EMPTY):
        yield Cause.forbidden(
            f"{path}.properties[metadata]", "must not be specified in a nested context"
        )


def _validate_conditions_complete(
    condition: Obj, schema: Obj | None, path: str, condition_path: str
) -> Iterator[Cause]:
    """Yield a cause for each field that a condition mentions and the schema does not specify."""
    if schema is None:
        yield Cause.required(path, f"because it is defined in {condition_path}")
        return
    if "not" in condition:
        yield from _validate_complete(condition["not"], schema, path, f"{condition_path}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(condition.get(name) or ()):
            yield from _validate_complete(inner, schema, path, f"{condition_path}.{name}[{index}]")


def _validate_complete(
    condition: Obj, schema: Obj | None, path: str, condition_path: str
) -> Iterator[Cause]:
    if schema is None:
        yield Cause.required(path, f"because it is defined in {condition_path}")
        return
    yield from _validate_conditions_complete(condition, schema, path, condition_path)
    if "items" in condition:
        yield from _validate_complete(
            condition["items"], schema.get("items"), f"{path}.items", f"{condition_path}.items"
        )
    properties = schema.get("properties") or EMPTY
    for name, inner in (condition.get("properties") or EMPTY).items():
        yield from _validate_complete(
            inner,
            properties.get(name),
            f"{path}.properties[{name}]",
            f"{condition_path}.properties[{name}]",
        )


def validate_defaults(schema: Obj, path: str) -> Iterator[Cause]:
    if schema.get("default") is not None:
        yield from _validate_default(schema, f"{path}.default")
    if isinstance(schema.get("items"), dict):
        yield from validate_defaults(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or EMPTY).items():
        yield from validate_defaults(inner, f"{path}.properties[{name}]")


def _validate_default(schema: Obj, path: str) -> Iterator[Cause]:
    default = schema["default"]
    try:
        structural_decoder(schema)(default, None)
    except UnknownField:
        yield Cause.invalid(path, default, "must not have unknown fields")
    except DecodeError as error:
        yield Cause.invalid(path, default, str(error))
        return
    embedded = schema_visit(schema, embedded_resource_visit)
    if embedded and (wrong := list(embedded(default, path))):
        yield from wrong
        return
    result = SchemaResult()
    schema_check(schema)(default, "", NO_OLD_VALUE, result)
    yield from (cause(path) for cause in result.faults.values())
    if not result.faults and (
        evaluate := rules_evaluator(schema, is_root=bool(schema.get(EMBEDDED)))
    ):
        yield from evaluate(default, path, NO_OLD_VALUE, None)


UNSTRUCTURABLE = (
    "is not supported",
    "items must be a schema object and not an array",
)  # faults that prevent the validation of the structure
MAX_CACHED_SCHEMAS = 256
ROOT_FIELDS = {
    *(
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
    ),
    *(
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
    ),
    *(
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ),
}
GO_ROOT_FIELDS = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum "
    "MaxLength MinLength Pattern MaxItems "
    "MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
    "XPreserveUnknownFields XValidations]"
)
_cache: OrderedDict[tuple[bytes, str], tuple[Any, ...]] = OrderedDict()


def validate_version_schema(schema: Obj, path: str, *, has_status: bool) -> tuple[Cause, ...]:
    return _cached(
        schema,
        f"{path} {has_status}",
        lambda: _validate_schema(schema, path, has_status=has_status),
    )


def unknown_formats(schema: Obj) -> tuple[str, ...]:
    """Return the formats in a schema that have no meaning, with repetitions."""
    return _cached(schema, "formats", lambda: _find_unknown_formats(schema))


def _cached(schema: Obj, question: str, answer: Callable[[], Iterable[Any]]) -> tuple[Any, ...]:
    key = orjson.dumps(schema), question
    if key not in _cache:
        _cache[key] = tuple(answer())
        if len(_cache) > MAX_CACHED_SCHEMAS:
            _cache.popitem(last=False)
    return _cache[key]


def _find_unknown_formats(schema: Obj) -> Iterator[str]:
    form = schema.get("format", "")
    if form and not known_format(schema.get("type", ""), form):
        yield form
    for name in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _find_unknown_formats(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name) or ():
            yield from _find_unknown_formats(inner)
    for inner in (schema.get("properties") or EMPTY).values():
        yield from _find_unknown_formats(inner)


def _validate_schema(schema: Obj, path: str, *, has_status: bool) -> list[Cause]:
    causes: list[Cause] = []
    if has_status:
        if schema.get("type") != "object":
            detail = (
                'only "object" is allowed as the type at the root of the schema if the '
                "status subresource is enabled"
            )
            causes.append(Cause.invalid(f"{path}.type", schema.get("type", ""), detail))
        elif not {*schema} <= ROOT_FIELDS:
            detail = (
                f"only {GO_ROOT_FIELDS} fields are allowed at the root of the schema if the status "
                "subresource is enabled"
            )
            causes.append(Cause.invalid(path, schema, detail))
    if schema.get("nullable"):
        causes.append(Cause.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    openapi_causes = list(validate_openapi_schema(schema, path))
    if not any(cause.message.endswith(UNSTRUCTURABLE) for cause in openapi_causes):
        causes += validate_structural(schema, path) or validate_defaults(schema, path)
    return [*causes, *openapi_causes] or list(validate_expressions(schema, path))
