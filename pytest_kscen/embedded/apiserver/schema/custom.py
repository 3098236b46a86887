"""Schema of one version of a custom kind: decoding and validation.

Validation applies the definition's schema, its scale paths and its CEL rules.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.metadata import annotation_errors, label_errors
from pytest_kscen.embedded.apiserver.schema.cel_evaluation import rules_evaluator
from pytest_kscen.embedded.apiserver.schema.decode_errors import (
    DecodeError,
    Undecodable,
    UnknownField,
)
from pytest_kscen.embedded.apiserver.schema.fast_path import (
    SlowPathNeeded,
    fast_decoder,
    fits_schema,
)
from pytest_kscen.embedded.apiserver.schema.keywords import NO_PATH, SchemaResult
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.embedded.apiserver.schema.structural import (
    EMBEDDED,
    prune_custom_fields,
    root_decoder,
)
from pytest_kscen.embedded.apiserver.schema.validation import (
    NO_OLD_VALUE,
    duplicate_visit,
    schema_check,
    schema_visit,
)
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.go_values import plain
from pytest_kscen.objects.names import dns1035_label, path_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.schema.cel_evaluation import Evaluate
    from pytest_kscen.embedded.apiserver.schema.fast_path import Fits
    from pytest_kscen.embedded.apiserver.schema.keywords import Check
    from pytest_kscen.embedded.apiserver.schema.scalars import Decoder
    from pytest_kscen.embedded.apiserver.schema.validation import Visit
    from pytest_kscen.objects.resources import Obj

    HeadValidator = Callable[[Any, str], Iterator[Cause]]


MAX_REPLICAS = (1 << 31) - 1
GO_TYPE_NAMES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def validate_scale(
    scale: Mapping[str, Any], obj: Obj, *, status_alone: bool = False
) -> Iterator[Cause]:
    if not status_alone:
        yield from _validate_replicas(scale["specReplicasPath"], obj)
    yield from _validate_replicas(scale["statusReplicasPath"], obj)
    if path := scale.get("labelSelectorPath"):
        _, detail = _value_at(path, obj, str)
        if detail:
            yield Cause.invalid(path, "", detail)


def _validate_replicas(path: str, obj: Obj) -> Iterator[Cause]:
    replicas, detail = _value_at(path, obj, int)
    if detail:
        yield Cause.invalid(path, 0, detail)
    elif replicas is not None and replicas < 0:
        yield Cause.invalid(path, replicas, "should be a non-negative integer")
    elif replicas is not None and replicas > MAX_REPLICAS:
        yield Cause.invalid(path, replicas, f"should be less than or equal to {MAX_REPLICAS}")


def _value_at(path: str, obj: Obj, wanted: type) -> tuple[Any, str]:
    """Return the value at a path and an empty text.

    If a value on the way has the wrong type, return None and the message.
    """
    value: Any = obj
    steps = path.removeprefix(".").split(".")
    for depth, step in enumerate(steps):
        if not isinstance(value, dict):
            where = "." + ".".join(steps[: depth + 1])
            return (
                None,
                (
                    f"{where} accessor error: {plain(value)} is of the type "
                    f"{_go_type_name(value)}, expected map[string]interface{{}}"
                ),
            )
        if step not in value:
            return None, ""
        value = value[step]
    if type(value) is not wanted:
        return (
            None,
            (
                f".{'.'.join(steps)} accessor error: {plain(value)} is of the type "
                f"{_go_type_name(value)}, expected {GO_TYPE_NAMES[wanted]}"
            ),
        )
    return value, ""


def _go_type_name(value: Any) -> str:
    return GO_TYPE_NAMES.get(type(value), "<nil>")


def embedded_resource_visit(schema: Obj) -> Visit | None:
    return _validate_embedded if schema.get(EMBEDDED) else None


def _validate_embedded(value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, dict):
        return
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield Cause.required(f"{path}.{name}")
    for name, part in value.items():
        if name in HEAD_VALIDATORS:
            yield from HEAD_VALIDATORS[name](part, f"{path}.{name}")


HEAD_VALIDATORS: dict[str, HeadValidator] = {}


def _head(field: str) -> Callable[[HeadValidator], HeadValidator]:
    """Return a decorator that makes a function the validator of a field that objects begin with."""
    return lambda validate: HEAD_VALIDATORS.setdefault(field, validate)


@_head("apiVersion")
def _validate_api_version(value: Any, path: str) -> Iterator[Cause]:
    if not value:
        yield Cause.invalid(path, value, "must not be empty")
    elif value.count("/") > 1:
        yield Cause.invalid(path, value, f"unexpected GroupVersion string: {value}")


@_head("kind")
def _validate_kind(value: Any, path: str) -> Iterator[Cause]:
    if not value:
        yield Cause.invalid(path, value, "must not be empty")
    elif wrong := dns1035_label(value.lower()):
        yield Cause.invalid(
            path, value, f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        )


@_head("metadata")
def _validate_metadata(value: Any, path: str) -> Iterator[Cause]:
    if name := value.get("name"):
        for message in path_segment(name):
            yield Cause.invalid(f"{path}.name", name, message)
    yield from label_errors(f"{path}.labels", value.get("labels") or {})
    yield from annotation_errors(f"{path}.annotations", value.get("annotations") or {})


HEAD_FIELDS = ("apiVersion", "kind", "metadata")
BLOCKING_REASONS = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
RULES_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)

RULES_UNCHECKED_CAUSE = Cause.invalid(NO_PATH, None, RULES_UNCHECKED)
"""Cause that replaces the rules' causes when an object has faults that prevent their evaluation."""


class CompiledPart:
    """Checks of a schema, or of the part of it that describes the status; compiled on first use."""

    def __init__(self, structure: Obj) -> None:
        self._structure = structure

    @cached_property
    def check(self) -> Check:
        return schema_check(self._structure)

    @cached_property
    def fits(self) -> Fits:
        return fits_schema(self._structure)


class CustomSchema:
    """Implementation of `kinds.Schema` for a version of a custom kind.

    Parts are compiled on first use. The object that the fast path decoded last is remembered, since
    validation follows at once.
    """

    def __init__(self, kind: str, version: str, structure: Obj, scale: Obj = EMPTY) -> None:
        self._kind, self._version, self._scale = kind, version, scale
        self.structure = structure
        self._whole = CompiledPart(structure)
        self._status = CompiledPart((structure.get("properties") or EMPTY).get("status") or EMPTY)
        self._last_decoded: tuple[Obj, Obj | None] = EMPTY, None

    @cached_property
    def _fast_decode(self) -> Decoder | None:
        return fast_decoder(self.structure)

    @cached_property
    def _decode(self) -> Decoder:
        return root_decoder(self.structure)

    @cached_property
    def _find_duplicates(self) -> Visit | None:
        return schema_visit(self.structure, duplicate_visit)

    @cached_property
    def _validate_embedded_resources(self) -> Visit | None:
        return schema_visit(self.structure, embedded_resource_visit)

    @cached_property
    def _evaluate_rules(self) -> Evaluate | None:
        return rules_evaluator(self.structure, is_root=True)

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        new: Obj
        if self._fast_decode is not None:  # decodes and validates in one pass
            try:
                new = self._fast_decode(obj, old)
            except (SlowPathNeeded, UnknownField, DecodeError):
                pass
            else:
                self._last_decoded = new, old
                return new
        unknown: list[str] = []
        try:
            try:
                new = self._decode(obj, old)
            except UnknownField:
                new = self._decode(prune_custom_fields(obj, self.structure, unknown), old)
        except DecodeError as error:
            raise Undecodable(self._kind, self._version, str(error)) from None
        messages = [f'unknown field "{path}"' for path in unknown]
        if messages and strictness == "Strict":
            raise Undecodable(
                self._kind, self._version, f"strict decoding error: {', '.join(messages)}"
            )
        if strictness == "Warn":
            warnings += messages
        return new

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> list[Cause]:
        """Return the causes for an object, or for its status alone if `subresource` is `status`.

        The order of the causes is that of the real server.
        """
        status = subresource == "status"
        known: Any = NO_OLD_VALUE if old is None else old
        last_valid, baseline = self._last_decoded
        is_recent = baseline is None or baseline is old
        if status:
            # The new status need only be compared with the last valid one, or with the old one.
            before = last_valid if is_recent and "status" in last_valid else old or EMPTY
            is_valid = self._status.fits(
                new.get("status", NO_OLD_VALUE), before.get("status", NO_OLD_VALUE)
            )
        else:
            # The new object is compared with the old one, overlaid by what the fast path found
            # valid.
            known_valid: Any = known
            if is_recent:
                known_valid = {
                    **(old or EMPTY),
                    **{name: part for name, part in last_valid.items() if name not in HEAD_FIELDS},
                }
            is_valid = self._whole.fits(new, known_valid)
        causes = [] if is_valid else list(self._schema_causes(new, old, status=status))
        if self._scale:
            causes += validate_scale(self._scale, new, status_alone=status)
        if self._validate_embedded_resources and not status:
            causes += self._validate_embedded_resources(new, "")
        if (
            not is_valid
            and self._find_duplicates
            and (found := list(self._find_duplicates(new, "")))
        ):
            causes += found if old is None or not any(self._find_duplicates(old, "")) else ()
        if self._evaluate_rules:
            is_nameless = not new["metadata"].get("name")  # reported by the metadata's validation
            is_blocked = is_nameless or (
                causes and any(cause.reason in BLOCKING_REASONS for cause in causes)
            )
            causes += (
                [RULES_UNCHECKED_CAUSE]
                if is_blocked
                else self._evaluate_rules(new, "", known, None)
            )
        return causes

    def _schema_causes(self, new: Obj, old: Obj | None, *, status: bool) -> Iterator[Cause]:
        result = SchemaResult()
        if not status:
            self._whole.check(new, "", NO_OLD_VALUE if old is None else old, result)
        elif "status" in new:
            before = (old or EMPTY).get("status", NO_OLD_VALUE)
            self._status.check(new["status"], "", before, result)
        for cause in result.faults.values():
            yield cause("status" if status else "")
