"""Values, their kinds, and operators on them: as in Go, except that overflow is an error."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.patterns import EffortExceeded, matcher_of
from pytest_kscen.cel.re2 import BadPattern
from pytest_kscen.workflow.expressions.tokens import INT64, PositionedError

if TYPE_CHECKING:
    from collections.abc import Callable

NIL, BOOL, INT, FLOAT, STRING, ARRAY, MAP = "nil", "bool", "int", "float", "string", "array", "map"
NUMBERS = (INT, FLOAT)
MOST_STEPS = 40_000
"""Steps of work, each less than a microsecond, that an evaluation may take."""
TOO_MUCH = f"it takes more than {MOST_STEPS} steps of work"
CHARACTERS_PER_STEP, MATCHED_CHARACTERS_PER_STEP = 1024, 64
LONGEST_TEXT = 1 << 20


class StepBudget:
    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise PositionedError(TOO_MUCH)


KINDS: dict[type, str] = {
    type(None): NIL,
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STRING,
    list: ARRAY,
    range: ARRAY,
    dict: MAP,
}


def kind_of(value: Any) -> str:
    kind = KINDS.get(type(value))
    if kind is None:
        kind = MAP if isinstance(value, Mapping) else ARRAY if isinstance(value, Sequence) else None
    if kind is None:
        raise PositionedError(f"a {type(value).__name__} is not a value of expressions")
    return kind


def binary(sign: str, left: Any, right: Any, budget: StepBudget) -> Any:
    """Apply an operator to both its values; operators that may skip the right side are not among
    them.
    """
    if sign in ORDERS:
        kinds = {kind_of(left), kind_of(right)}
        if kinds != {STRING} and not kinds <= set(NUMBERS):
            raise PositionedError(
                f"{sign!r} compares two numbers or two strings, not {_described(left)} and "
                f"{_described(right)}"
            )
        return bool(ORDERS[sign](left, right))
    if sign in TEXTS:
        _both(sign, STRING, left, right)
        budget.spend(len(left) // CHARACTERS_PER_STEP)
        return TEXTS[sign](left, right)
    if sign in OPERATIONS:
        return OPERATIONS[sign](left, right, budget)
    if sign == "+" and kind_of(left) == kind_of(right) == STRING:
        budget.spend((len(left) + len(right)) // CHARACTERS_PER_STEP)
        if len(left) + len(right) > LONGEST_TEXT:
            raise PositionedError(f"the text would be longer than {LONGEST_TEXT} characters")
        return left + right
    return _arithmetic_result(sign, left, right)


def negated(sign: str, value: Any) -> Any:
    if sign in {"!", "not"}:
        return not truth(value, f"{sign!r}")
    if kind_of(value) not in NUMBERS:
        raise PositionedError(f"{sign!r} needs a number, not {_described(value)}")
    return _within(-value if sign == "-" else value)


def truth(value: Any, subject: str) -> bool:
    if not isinstance(value, bool):
        raise PositionedError(f"{subject} needs a bool, not {_described(value)}")
    return value


def member(of: Any, key: Any) -> Any:
    match kind_of(of):
        case "map":
            if not isinstance(key, str):
                raise PositionedError(f"a map's keys are strings, not {_described(key)}")
            return of.get(key)
        case "array" | "string":
            if kind_of(key) != INT:
                raise PositionedError(
                    f"{_described(of)} is indexed by whole numbers, not by {_described(key)}"
                )
            if not -len(of) <= key < len(of):
                raise PositionedError(f"index {key} is out of range: there are {len(of)}")
            return of[key]
    raise PositionedError(f"{_described(of)} has no members")


def sliced(of: Any, first: Any, last: Any, budget: StepBudget) -> Any:
    """Return the slice; ends may lie outside, and negative ones count from the end."""
    if kind_of(of) not in {ARRAY, STRING}:
        raise PositionedError(f"{_described(of)} cannot be sliced")
    for end in (first, last):
        if end is not None and kind_of(end) != INT:
            raise PositionedError(f"a slice's ends are whole numbers, not {_described(end)}")
    part = of[first:last]
    budget.spend(len(part) if kind_of(part) == ARRAY else len(part) // CHARACTERS_PER_STEP)
    return part


def length(value: Any) -> int:
    if kind_of(value) not in {ARRAY, MAP, STRING}:
        raise PositionedError(f"{_described(value)} has no length")
    return len(value)


def elements(value: Any, builtin: str) -> Sequence[Any]:
    if kind_of(value) != ARRAY:
        raise PositionedError(f"{builtin!r} goes over an array, not {_described(value)}")
    return value  # type: ignore[no-any-return]


def equal(left: Any, right: Any, budget: StepBudget) -> bool:
    """Compare two values: numbers by their value, others only with the same kind."""
    waiting = [(left, right)]
    while waiting:
        budget.spend(2)
        one, other = waiting.pop()
        kind, other_kind = kind_of(one), kind_of(other)
        if kind != other_kind and not (kind in NUMBERS and other_kind in NUMBERS):
            return False
        if kind in {ARRAY, MAP}:
            if len(one) != len(other) or (kind == MAP and one.keys() != other.keys()):
                return False
            waiting.extend(
                zip(one, other, strict=True)
                if kind == ARRAY
                else ((one[key], other[key]) for key in one)
            )
        elif one != other:
            return False
    return True


def _is_in(value: Any, among: Any, budget: StepBudget) -> bool:
    match kind_of(among):
        case "nil":
            return False
        case "map":
            return isinstance(value, str) and value in among
        case "array":
            if isinstance(among, range):
                return kind_of(value) in NUMBERS and value in among
            return any(equal(value, each, budget) for each in among)
    question = (
        " (did you mean 'contains', the other way round?)" if kind_of(among) == STRING else ""
    )
    raise PositionedError(
        f"'in' needs an array or a map on its right, not {_described(among)}{question}"
    )


def _range(first: Any, last: Any, budget: StepBudget) -> Sequence[int]:
    _both("..", INT, first, last)
    budget.spend(max(0, last - first))
    return range(first, last + 1)


def _matches(text: Any, pattern: Any, budget: StepBudget) -> bool:
    _both("matches", STRING, text, pattern)
    budget.spend(len(text) // MATCHED_CHARACTERS_PER_STEP + len(pattern))
    try:
        search = matcher_of(pattern)
        budget.spend(search.size)
        return search.finds(text, budget.left)
    except BadPattern as refusal:
        raise PositionedError(str(refusal)) from None
    except EffortExceeded:
        raise PositionedError(TOO_MUCH) from None


def _arithmetic_result(sign: str, left: Any, right: Any) -> int | float:
    both = kind_of(left) == kind_of(right) == INT
    if kind_of(left) not in NUMBERS or kind_of(right) not in NUMBERS:
        strings = ", or two strings" if sign == "+" else ""
        raise PositionedError(
            f"{sign!r} needs two numbers{strings}, not {_described(left)} and {_described(right)}"
        )
    if sign == "%" and not both:
        raise PositionedError(
            f"'%' needs two whole numbers, not {_described(left)} and {_described(right)}"
        )
    try:
        return _within(ARITHMETIC[sign](left, right))
    except ZeroDivisionError:
        raise PositionedError("it divides by zero") from None
    except (ValueError, OverflowError):
        raise PositionedError(f"{sign!r} has no result here that is a 64-bit number") from None


def _within(value: float) -> int | float:
    if isinstance(value, int) and value not in INT64:
        raise PositionedError("the result is not a 64-bit whole number")
    if isinstance(value, float) and not math.isfinite(value):
        raise PositionedError("the result is not a finite number")
    return value


def _both(sign: str, kind: str, left: Any, right: Any) -> None:
    if kind_of(left) != kind or kind_of(right) != kind:
        raise PositionedError(
            f"{sign!r} needs {kind} on both sides, not {_described(left)} and {_described(right)}"
        )


def _described(value: Any) -> str:
    return with_article(kind_of(value))


def with_article(kind: str) -> str:
    return kind if kind == NIL else f"an {kind}" if kind[0] in "ai" else f"a {kind}"


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    # Go's remainder, which has the sign of the dividend.
    "%": lambda left, right: abs(left) % abs(right) * (-1 if left < 0 else 1),
    "**": math.pow,
}
ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
}
OPERATIONS: dict[str, Callable[[Any, Any, StepBudget], Any]] = {
    "==": equal,
    "!=": lambda left, right, budget: not equal(left, right, budget),
    "in": _is_in,
    "not in": lambda left, right, budget: not _is_in(left, right, budget),
    "matches": _matches,
    "..": _range,
}
