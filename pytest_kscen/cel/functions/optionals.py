"""Values that may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.values import NONE, Optional

if TYPE_CHECKING:
    from collections.abc import Callable


def _of_non_zero(value: Any) -> Optional:
    return Optional(value, there=True) if value else NONE


def _value(held: Optional) -> Any:
    if not held.there:
        raise EvaluationError("optional.none() dereference")
    return held.value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optional.of(A) optional(A)": lambda value: Optional(value, there=True),
    "optional.ofNonZeroValue(A) optional(A)": _of_non_zero,
    "optional.none() optional(A)": lambda: NONE,
}
METHODS: dict[str, Callable[..., Any]] = {
    "optional(A)::hasValue() bool": lambda held: held.there,
    "optional(A)::value() A": _value,
    "optional(A)::orValue(A) A": lambda held, instead: held.value if held.there else instead,
    "optional(A)::or(optional(A)) optional(A)": lambda held, instead: held if held.there else instead,
}
