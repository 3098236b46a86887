"""Getting at parts of values: fields by name, elements by place, and both where they may be missing."""

from __future__ import annotations

from typing import Any

from pytest_kscen.cel.mistakes import EvaluationError, no_such_overload
from pytest_kscen.cel.values import NONE, Optional, is_number

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


def item(value: Any, at: Any) -> Any:
    """What is at a place of a list, or under a key of a map."""
    if isinstance(value, Optional):
        return maybe_item(value, at)
    if isinstance(value, dict):
        if at not in value:
            raise EvaluationError(f"no such key: {at}")
        return value[at]
    if not isinstance(value, list) or not is_number(at):
        raise no_such_overload()
    if isinstance(at, float) and not at.is_integer():
        raise EvaluationError(f"unsupported index value: {at}")
    if not 0 <= at < len(value):
        raise EvaluationError(f"index out of bounds: {int(at)}")
    return value[int(at)]


def maybe_item(value: Any, at: Any) -> Optional:
    inner = value.value if isinstance(value, Optional) else value
    if isinstance(inner, list):
        return Optional(inner[at], there=True) if 0 <= at < len(inner) else NONE
    return Optional(inner[at], there=True) if isinstance(inner, dict) and at in inner else NONE
