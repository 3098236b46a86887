"""The checks of single values: types, texts, numbers, enums.

Each is made from a schema and knows its own limits.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.re2 import compiled
from pytest_kscen.embedded.apiserver.schema.formats import fits_format, is_text_format, known_format
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

    Check = Callable[[Any, str, Any, "Verdict"], None]


# What judging a custom object finds: faults, each told once, and how much was in order (it
# decides between alternatives).


NOWHERE = "<nil>"


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


@dataclass(slots=True)
class Verdict:
    """Collected while one value is judged."""

    faults: dict[str, Callable[[str], Cause]] = field(default_factory=dict)
    matches: int = 0

    def add(self, words: str, cause: Callable[[str], Cause]) -> None:
        """`cause` makes the cause from the path of what was judged as a whole ("" for the object
        itself).
        """
        self.faults.setdefault(words, cause)

    def forget(self, known: int) -> None:
        """Leave only so many faults, those that were found first."""
        while len(self.faults) > known:
            self.faults.popitem()

    def merge(self, other: Verdict) -> None:
        for words, cause in other.faults.items():
            self.faults.setdefault(words, cause)
        self.matches += other.matches


def placed(root: str, path: str) -> str:
    """A field's full path."""
    steps = path.removeprefix(".")
    return ".".join(part for part in (root, steps) if part) or NOWHERE


def invalid(verdict: Verdict, path: str, value: Any, why: str) -> None:
    invalid_as(verdict, path, value, f"{path} in body {why}")


def invalid_as(verdict: Verdict, path: str, value: Any, words: str) -> None:
    verdict.add(words, lambda root: Cause.invalid(placed(root, path), value, words))


def misformatted(verdict: Verdict, path: str, form: str, value: str) -> None:
    words = f"{path} in body must be of type {form}: {quoted(value)}"
    verdict.add(words, lambda root: Cause.mistyped(placed(root, path), value, words))


def mistyped(verdict: Verdict, path: str, wanted: str, found: str) -> None:
    words = f'{path} in body must be of type {wanted}: "{found}"'
    verdict.add(words, lambda root: Cause.mistyped(placed(root, path), found, words))


def required(verdict: Verdict, path: str) -> None:
    verdict.add(f"{path} in body is required", lambda root: Cause.required(placed(root, path)))


def unsupported(verdict: Verdict, path: str, value: Any, supported: list[str]) -> None:
    words = f"{path} in body should be one of {supported}"
    verdict.add(words, lambda root: Cause.unsupported(placed(root, path), value, supported))


def report_too_long(verdict: Verdict, path: str, most: int) -> None:
    words = f"{path} in body should be at most {most} chars long"
    verdict.add(words, lambda root: Cause.too_long(placed(root, path), most))


def too_many(verdict: Verdict, path: str, count: int, most: int, what: str) -> None:
    words = f"{path} in body should have at most {most} {what}"
    verdict.add(words, lambda root: Cause.too_many(placed(root, path), count, most))


def plainly(verdict: Verdict, words: str) -> None:
    """A fault that Kubernetes gives no field for."""
    verdict.add(words, lambda root: Cause.invalid(placed(root, ""), "", words))


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
                mistyped(verdict, path, form, found_form)
                return
        if fits:
            verdict.matches += 1
        else:
            mistyped(verdict, path, named, found)

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
    supported = [option if isinstance(option, str) else as_json(option) for option in enum]

    def check(value: Any, path: str, _old: Any, verdict: Verdict) -> None:
        if (
            (value in texts)
            if type(value) is str
            else (value is not None and any(_equal(value, option) for option in others))
        ):
            return
        unsupported(verdict, path, value, supported)

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
            misformatted(verdict, path, form, value)

    if checks:
        yield first_fault
    if is_text_format(form):
        yield formatted


def _lengths(schema: Obj) -> Iterator[Callable[[str, str, Verdict], bool]]:
    most, least = schema.get("maxLength"), schema.get("minLength")

    def too_long(value: str, path: str, verdict: Verdict) -> bool:
        if len(value) > most:  # type: ignore[operator]  # it is checked only where there is a limit
            report_too_long(verdict, path, most)  # type: ignore[arg-type]
            return True
        return False

    def too_short(value: str, path: str, verdict: Verdict) -> bool:
        if len(value) < least:  # type: ignore[operator]
            invalid(verdict, path, value, f"should be at least {least} chars long")
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
            invalid(verdict, path, value, f"should match '{pattern}'")
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
            divisor = int(factor) if type(value) is int else factor
            if divisor <= 0:
                invalid_as(
                    verdict,
                    path,
                    _shortest(divisor),
                    f"factor MultipleOf declared for {path} must be positive: {divisor}",
                )
            elif type(value) is int:
                if value % divisor:
                    invalid(verdict, path, value, f"should be a multiple of {divisor}")
            elif not _is_whole(1 / divisor * value if divisor < 1 else value / divisor):
                invalid(verdict, path, value, f"should be a multiple of {_shortest(divisor)}")
        if least is not None:
            _in_range(float(least), held_by, "Minimum boundary", path, verdict)
            _bound(
                value,
                least,
                path,
                verdict,
                (LOWER_OPEN if schema.get("exclusiveMinimum") else LOWER),
            )
        if most is not None:
            _in_range(float(most), held_by, "Maximum boundary", path, verdict)
            _bound(
                value,
                most,
                path,
                verdict,
                (UPPER_OPEN if schema.get("exclusiveMaximum") else UPPER),
            )
        verdict.matches += 1

    return check


LOWER = (lambda value, bound: value >= bound), "should be greater than or equal to"
LOWER_OPEN = (lambda value, bound: value > bound), "should be greater than"
UPPER = (lambda value, bound: value <= bound), "should be less than or equal to"
UPPER_OPEN = (lambda value, bound: value < bound), "should be less than"


def _bound(
    value: Any,
    bound: Any,
    path: str,
    verdict: Verdict,
    rule: tuple[Callable[[Any, Any], bool], str],
) -> None:
    holds, words = rule
    limit = int(bound) if type(value) is int else bound
    if not holds(value, limit):
        invalid(verdict, path, value, f"{words} {_shortest(limit)}")


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < EXACT


def _shortest(value: Any) -> Any:
    """As Go prints a number."""
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e21  # noqa: PLR2004
        else value
    )


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
        plainly(verdict, f"{what} value must be of type {kind} {named} in {path}")


def _is_float32(value: float) -> bool:
    try:
        return math.isfinite(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return False
