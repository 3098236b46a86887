"""Checks of scalar keywords (type, length, pattern, range, enum), and the result that all checks
write to.

Each check is compiled from a schema by `validation`. Messages are those of the real server's
OpenAPI validator.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.re2 import compile_pattern
from pytest_kscen.embedded.apiserver.schema.formats import fits_format, is_text_format, known_format
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

    Check = Callable[[Any, str, Any, "SchemaResult"], None]


NO_PATH = "<nil>"


def compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


@dataclass(slots=True)
class SchemaResult:
    """Result of one validation: faults by message, each kept once, and the number of keywords that
    matched.

    The count selects the alternative whose faults are reported.
    """

    faults: dict[str, Callable[[str], Cause]] = field(default_factory=dict)
    matches: int = 0

    def add(self, message: str, cause: Callable[[str], Cause]) -> None:
        """Add a fault unless its message is known.

        `cause` makes the cause from the path of the value that was validated as a whole, "" for the
        object itself.
        """
        self.faults.setdefault(message, cause)

    def forget(self, known: int) -> None:
        """Drop the faults that were added last, until `known` are left."""
        while len(self.faults) > known:
            self.faults.popitem()

    def merge(self, other: SchemaResult) -> None:
        for message, cause in other.faults.items():
            self.faults.setdefault(message, cause)
        self.matches += other.matches


def full_path(root: str, path: str) -> str:
    """Join the path of the validated value with the path below it; `<nil>` stands for the object
    itself.
    """
    steps = path.removeprefix(".")
    return ".".join(part for part in (root, steps) if part) or NO_PATH


def add_invalid(result: SchemaResult, path: str, value: Any, detail: str) -> None:
    add_invalid_message(result, path, value, f"{path} in body {detail}")


def add_invalid_message(result: SchemaResult, path: str, value: Any, message: str) -> None:
    result.add(message, lambda root: Cause.invalid(full_path(root, path), value, message))


def add_format_error(result: SchemaResult, path: str, form: str, value: str) -> None:
    message = f"{path} in body must be of type {form}: {quoted(value)}"
    result.add(message, lambda root: Cause.mistyped(full_path(root, path), value, message))


def add_type_error(result: SchemaResult, path: str, wanted: str, found: str) -> None:
    message = f'{path} in body must be of type {wanted}: "{found}"'
    result.add(message, lambda root: Cause.mistyped(full_path(root, path), found, message))


def add_required(result: SchemaResult, path: str) -> None:
    result.add(f"{path} in body is required", lambda root: Cause.required(full_path(root, path)))


def add_unsupported(result: SchemaResult, path: str, value: Any, supported: list[str]) -> None:
    message = f"{path} in body should be one of {supported}"
    result.add(message, lambda root: Cause.unsupported(full_path(root, path), value, supported))


def add_too_long(result: SchemaResult, path: str, most: int) -> None:
    message = f"{path} in body should be at most {most} chars long"
    result.add(message, lambda root: Cause.too_long(full_path(root, path), most))


def add_too_many(result: SchemaResult, path: str, count: int, most: int, what: str) -> None:
    message = f"{path} in body should have at most {most} {what}"
    result.add(message, lambda root: Cause.too_many(full_path(root, path), count, most))


def add_message(result: SchemaResult, message: str) -> None:
    """Add a fault that the real server reports without field and value."""
    result.add(message, lambda root: Cause.invalid(full_path(root, ""), "", message))


OPENAPI_TYPES: dict[type, tuple[str, str]] = {
    str: ("string", ""),
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
    type(None): ("null", ""),
}
MAX_EXACT_INTEGER = 1 << 53  # above it, a float does not represent each integer
INT_OR_STRING = "x-kubernetes-int-or-string"


def schema_types(schema: Obj) -> list[str]:
    if schema.get(INT_OR_STRING):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []


def schema_format(schema: Obj) -> str:
    wanted = schema_types(schema)
    return known_format(wanted[0] if len(wanted) == 1 else "", schema.get("format", ""))


def type_check(schema: Obj) -> Check | None:
    wanted, form = schema_types(schema), schema_format(schema)
    if not wanted and not form:
        return None
    named, nullable = ",".join(wanted), bool(schema.get("nullable"))
    numeric = bool({"integer", "number"}.intersection(wanted))

    def check(value: Any, path: str, _old: Any, result: SchemaResult) -> None:
        found, found_form = OPENAPI_TYPES[type(value)]
        if value is None:
            fits = nullable or not wanted
        elif isinstance(value, (str, list)):
            fits = found in wanted or (bool(form) and not numeric)
        else:
            # Integers are numbers, and whole numbers are integers.
            fits = (
                found in wanted
                or (found == "integer" and "number" in wanted)
                or (found == "number" and "integer" in wanted and _is_whole(float(value)))
            )
            if form and not fits and found_form != form:
                add_type_error(result, path, form, found_form)
                return
        if fits:
            result.matches += 1
        else:
            add_type_error(result, path, named, found)

    return check


def enum_check(schema: Obj) -> Check | None:
    enum: list[Any] = schema.get("enum") or []
    if not enum:
        return None
    texts = frozenset(option for option in enum if isinstance(option, str))
    others = [option for option in enum if not isinstance(option, str)]
    supported = [option if isinstance(option, str) else compact_json(option) for option in enum]

    def check(value: Any, path: str, _old: Any, result: SchemaResult) -> None:
        if (
            (value in texts)
            if type(value) is str
            else (value is not None and any(_equals_enum_value(value, option) for option in others))
        ):
            return
        add_unsupported(result, path, value, supported)

    return check


def _equals_enum_value(value: Any, option: Any) -> bool:
    """Compare as Go converts: a float that is compared with an integer loses its fraction, and
    booleans equal booleans only.
    """
    if type(value) is float and type(option) is int:
        return int(value) == option
    return bool(value == option) and isinstance(value, bool) == isinstance(option, bool)


def has_text_format(schema: Obj) -> bool:
    return is_text_format(schema_format(schema))


def string_checks(schema: Obj) -> Iterator[Check]:
    """Yield the checks of a text. At most one fault of length and pattern is reported, and one of
    the format.
    """
    checks, form = list(_text_checks(schema)), schema_format(schema)

    def first_fault(value: Any, path: str, _old: Any, result: SchemaResult) -> None:
        any(check(value, path, result) for check in checks)

    def formatted(value: Any, path: str, _old: Any, result: SchemaResult) -> None:
        if not fits_format(form, value):
            add_format_error(result, path, form, value)

    if checks:
        yield first_fault
    if is_text_format(form):
        yield formatted


def _text_checks(schema: Obj) -> Iterator[Callable[[str, str, SchemaResult], bool]]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")

    def too_long(value: str, path: str, result: SchemaResult) -> bool:
        if len(value) > most:  # type: ignore[operator]  # it is checked only where there is a limit
            add_too_long(result, path, most)  # type: ignore[arg-type]
            return True
        return False

    def too_short(value: str, path: str, result: SchemaResult) -> bool:
        if len(value) < least:  # type: ignore[operator]
            add_invalid(result, path, value, f"should be at least {least} chars long")
            return True
        return False

    def mismatch(value: str, path: str, result: SchemaResult) -> bool:
        if compile_pattern(pattern).search(value) is None:
            add_invalid(result, path, value, f"should match '{pattern}'")
            return True
        return False

    if most is not None:
        yield too_long
    if least is not None:
        yield too_short
    if pattern:
        yield mismatch


def number_check(schema: Obj) -> Check:
    """Return the check of range, bounds and multiples. Faults are reported in the order multiple,
    minimum, maximum.
    """
    wanted, form = schema_types(schema), schema_format(schema)
    held_by = (wanted[0] if len(wanted) == 1 and wanted[0] in {"integer", "number"} else ""), form
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")

    def check(value: Any, path: str, _old: Any, result: SchemaResult) -> None:
        _check_representable(value, held_by, "Checked", path, result)
        if factor is not None:
            _check_representable(float(factor), held_by, "MultipleOf", path, result)
            divisor = int(factor) if type(value) is int else factor
            if divisor <= 0:
                add_invalid_message(
                    result,
                    path,
                    _go_number(divisor),
                    f"factor MultipleOf declared for {path} must be positive: {divisor}",
                )
            elif type(value) is int:
                if value % divisor:
                    add_invalid(result, path, value, f"should be a multiple of {divisor}")
            elif not _is_whole(1 / divisor * value if divisor < 1 else value / divisor):
                add_invalid(result, path, value, f"should be a multiple of {_go_number(divisor)}")
        if least is not None:
            _check_representable(float(least), held_by, "Minimum boundary", path, result)
            _check_bound(
                value,
                least,
                path,
                result,
                (LOWER_OPEN if schema.get("exclusiveMinimum") else LOWER),
            )
        if most is not None:
            _check_representable(float(most), held_by, "Maximum boundary", path, result)
            _check_bound(
                value,
                most,
                path,
                result,
                (UPPER_OPEN if schema.get("exclusiveMaximum") else UPPER),
            )
        result.matches += 1

    return check


LOWER = (lambda value, bound: value >= bound), "should be greater than or equal to"
LOWER_OPEN = (lambda value, bound: value > bound), "should be greater than"
UPPER = (lambda value, bound: value <= bound), "should be less than or equal to"
UPPER_OPEN = (lambda value, bound: value < bound), "should be less than"


def _check_bound(
    value: Any,
    bound: Any,
    path: str,
    result: SchemaResult,
    rule: tuple[Callable[[Any, Any], bool], str],
) -> None:
    holds, message = rule
    limit = int(bound) if type(value) is int else bound
    if not holds(value, limit):
        add_invalid(result, path, value, f"{message} {_go_number(limit)}")


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < MAX_EXACT_INTEGER


def _go_number(value: Any) -> Any:
    """Return a number as Go prints it.

    A whole number has no fraction, unless it is so large that Go prints an exponent.
    """
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e21  # noqa: PLR2004
        else value
    )


def _check_representable(
    value: Any, held_by: tuple[str, str], what: str, path: str, result: SchemaResult
) -> None:
    """Add a fault if the type and format cannot represent the number at all."""
    kind, form = held_by
    if kind == "integer":
        bits = 32 if form == "int32" else 64
        fits = float(value).is_integer() and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
        # a float cannot have been an int64 in the request
        fits = fits and (type(value) is int or what != "Checked")
    else:
        fits = form != "float" or _is_float32(value)
    if not fits:
        named = f"with format {form}" if form else "(default format)"
        add_message(result, f"{what} value must be of type {kind} {named} in {path}")


def _is_float32(value: float) -> bool:
    try:
        return math.isfinite(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return False
