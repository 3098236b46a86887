"""Getting at parts of values: fields by name, elements by place, and both where they may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.cel.functions.operators import element, entry
from pytest_kscen.machinery.cel.mistakes import EvaluationError, no_such_overload
from pytest_kscen.machinery.cel.values import NONE, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[[dict[str, Any]], Any]

ESCAPED = {"__underscores__": "__", "__dot__": ".", "__dash__": "-", "__slash__": "/"}


def unescaped(name: str) -> str:
    """A field's own name, where CEL's grammar could not spell it."""
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name not in ESCAPED:
        return name[2:-2]
    for spelled, meant in ESCAPED.items():
        name = name.replace(spelled, meant)
    return name


def selected(value: Any, name: str) -> Any:
    if isinstance(value, Optional):
        return maybe(value, name)
    if not isinstance(value, dict):
        raise no_such_overload()
    if name not in value:
        raise EvaluationError(f"no such key: {name}")
    return value[name]


def maybe(value: Any, name: str) -> Optional:
    inner = value.value if isinstance(value, Optional) else value
    return Optional(inner[name], there=True) if isinstance(inner, dict) and name in inner else NONE


def has(value: Any, name: str) -> bool:
    if isinstance(value, Optional):
        return isinstance(value.value, dict) and name in value.value
    if not isinstance(value, dict):
        raise no_such_overload()
    return name in value


def indexed(operand: Evaluate, key: Evaluate) -> Evaluate:
    def evaluate(variables: dict[str, Any]) -> Any:
        value, at = operand(variables), key(variables)
        if isinstance(value, list):
            if isinstance(at, (bool, str)) or not isinstance(at, (int, float)):
                raise no_such_overload()
            return element(value, at)
        if isinstance(value, dict):
            return entry(value, at)
        if isinstance(value, Optional):
            return _optional_item(value, at)
        raise no_such_overload()

    return evaluate


def indexed_maybe(operand: Evaluate, key: Evaluate) -> Evaluate:
    return lambda variables: _optional_item(operand(variables), key(variables))


def _optional_item(value: Any, at: Any) -> Optional:
    inner = value.value if isinstance(value, Optional) else value
    if isinstance(inner, list):
        return Optional(inner[at], there=True) if 0 <= at < len(inner) else NONE
    return Optional(inner[at], there=True) if isinstance(inner, dict) and at in inner else NONE
