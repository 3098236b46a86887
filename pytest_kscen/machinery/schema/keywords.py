"""The checks of single values: types, texts, numbers, enums. Each is made from a schema and knows its own limits."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.re2 import compiled
from pytest_kscen.machinery.schema import verdicts
from pytest_kscen.machinery.schema.formats import fits_format, is_text_format, known_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.machinery.schema.verdicts import Verdict
    from pytest_kscen.objects.resources import Obj

    Check = Callable[[Any, str, Any, Verdict], None]

TYPES: dict[type, tuple[str, str]] = {
    str: ("string", ""),
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
    type(None): ("null", ""),
}
EXACT = 1 << 53  # beyond it, a float says little of an integer
INT_OR_STRING = "x-kubernetes-int-or-string"


def types_of(schema: Obj) -> list[str]:
    if schema.get(INT_OR_STRING):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []


def format_of(schema: Obj) -> str:
    wanted = types_of(schema)
    return known_format(wanted[0] if len(wanted) == 1 else "", schema.get("format", ""))


def type_check(schema: Obj) -> Check | None:
    wanted, form = types_of(schema), format_of(schema)
    if not wanted and not form:
        return None
    named, nullable = ",".join(wanted), bool(schema.get("nullable"))
    numeric = bool({"integer", "number"}.intersection(wanted))

    def check(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        found, found_form = TYPES[type(value)]
        if value is None:
            fits = nullable or not wanted
        elif isinstance(value, (str, list)):
            fits = found in wanted or (bool(form) and not numeric)
        else:
            fits = found in wanted or _crosses(value, found, wanted)
            if form and not fits and found_form != form:
                verdicts.mistyped(verdict, path, form, found_form)
                return
        if fits:
            verdict.matches += 1
        else:
            verdicts.mistyped(verdict, path, named, found)

    return check


def _crosses(value: Any, found: str, wanted: list[str]) -> bool:
    """Integers are numbers, and whole numbers are integers."""
    if found == "integer":
        return "number" in wanted
    return found == "number" and "integer" in wanted and _is_whole(float(value))


def enum_check(schema: Obj) -> Check | None:
    enum: list[Any] = schema.get("enum") or []
    if not enum:
        return None
    texts = frozenset(option for option in enum if isinstance(option, str))
    others = [option for option in enum if not isinstance(option, str)]
    supported = [option if isinstance(option, str) else verdicts.as_json(option) for option in enum]

    def check(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        if (value in texts) if type(value) is str else (value is not None and any(_equal(value, option) for option in others)):
            return
        verdicts.unsupported(verdict, path, value, supported)

    return check


def _equal(value: Any, option: Any) -> bool:
    """As Go converts them: a number that is compared with an integer loses its fraction."""
    if type(value) is float and type(option) is int:
        return int(value) == option
    return bool(value == option) and isinstance(value, bool) == isinstance(option, bool)


def has_text_format(schema: Obj) -> bool:
    return is_text_format(format_of(schema))


def string_checks(schema: Obj) -> Iterator[Check]:
    """At most one fault of a text is told, and one of its format."""
    checks, form = [*_lengths(schema), *_pattern(schema)], format_of(schema)

    def first_fault(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        any(check(value, path, verdict) for check in checks)

    def formatted(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        if not fits_format(form, value):
            verdicts.misformatted(verdict, path, form, value)

    if checks:
        yield first_fault
    if is_text_format(form):
        yield formatted


def _lengths(schema: Obj) -> Iterator[Callable[[str, str, Verdict], bool]]:
    most, least = schema.get("maxLength"), schema.get("minLength")

    def too_long(value: str, path: str, verdict: Verdict) -> bool:
        if len(value) > most:  # type: ignore[operator]  # it is checked only where there is a limit
            verdicts.too_long(verdict, path, most)  # type: ignore[arg-type]
            return True
        return False

    def too_short(value: str, path: str, verdict: Verdict) -> bool:
        if len(value) < least:  # type: ignore[operator]
            verdicts.invalid(verdict, path, value, f"should be at least {least} chars long")
            return True
        return False

    if most is not None:
        yield too_long
    if least is not None:
        yield too_short


def _pattern(schema: Obj) -> Iterator[Callable[[str, str, Verdict], bool]]:
    pattern = schema.get("pattern")
    if not pattern:
        return

    def mismatch(value: str, path: str, verdict: Verdict) -> bool:
        if compiled(pattern).search(value) is None:
            verdicts.invalid(verdict, path, value, f"should match '{pattern}'")
            return True
        return False

    yield mismatch


def number_check(schema: Obj) -> Check:
    """Ranges, bounds and multiples. The order of the faults is multiple, minimum, maximum."""
    wanted, form = types_of(schema), format_of(schema)
    held_by = (wanted[0] if len(wanted) == 1 and wanted[0] in {"integer", "number"} else ""), form
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")

    def check(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        _in_range(value, held_by, "Checked", path, verdict)
        if factor is not None:
            _in_range(float(factor), held_by, "MultipleOf", path, verdict)
            _multiple(value, factor, path, verdict)
        if least is not None:
            _in_range(float(least), held_by, "Minimum boundary", path, verdict)
            _bound(value, least, path, verdict, (LOWER_OPEN if schema.get("exclusiveMinimum") else LOWER))
        if most is not None:
            _in_range(float(most), held_by, "Maximum boundary", path, verdict)
            _bound(value, most, path, verdict, (UPPER_OPEN if schema.get("exclusiveMaximum") else UPPER))
        verdict.matches += 1

    return check


LOWER = (lambda value, bound: value >= bound), "should be greater than or equal to"
LOWER_OPEN = (lambda value, bound: value > bound), "should be greater than"
UPPER = (lambda value, bound: value <= bound), "should be less than or equal to"
UPPER_OPEN = (lambda value, bound: value < bound), "should be less than"


def _bound(value: Any, bound: Any, path: str, verdict: Verdict, rule: tuple[Callable[[Any, Any], bool], str]) -> None:
    holds, words = rule
    limit = int(bound) if type(value) is int else bound
    if not holds(value, limit):
        verdicts.invalid(verdict, path, value, f"{words} {_shortest(limit)}")


def _multiple(value: Any, factor: Any, path: str, verdict: Verdict) -> None:
    divisor = int(factor) if type(value) is int else factor
    if divisor <= 0:
        verdicts.invalid_as(verdict, path, _shortest(divisor), f"factor MultipleOf declared for {path} must be positive: {divisor}")
    elif type(value) is int:
        if value % divisor:
            verdicts.invalid(verdict, path, value, f"should be a multiple of {divisor}")
    elif not _is_whole(1 / divisor * value if divisor < 1 else value / divisor):
        verdicts.invalid(verdict, path, value, f"should be a multiple of {_shortest(divisor)}")


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < EXACT


def _shortest(value: Any) -> Any:
    """As Go prints a number."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value  # noqa: PLR2004


def _in_range(value: Any, held_by: tuple[str, str], what: str, path: str, verdict: Verdict) -> None:
    """Whether a number can be held by the type and format at all."""
    kind, form = held_by
    if kind == "integer":
        bits = 32 if form == "int32" else 64
        fits = float(value).is_integer() and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
        # what arrives as a float was no int64
        fits = fits and (type(value) is int or what != "Checked")
    else:
        fits = form != "float" or _is_float32(value)
    if not fits:
        named = f"with format {form}" if form else "(default format)"
        verdicts.plainly(verdict, f"{what} value must be of type {kind} {named} in {path}")


def _is_float32(value: float) -> bool:
    try:
        return math.isfinite(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return False
