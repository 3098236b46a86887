"""The fields that a definition's scale subresource stands on: numbers of replicas, and a selector in a string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.patching.wording import plain
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kscen.objects.resources import Obj

MOST = (1 << 31) - 1
GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}


def scale_faults(scale: Mapping[str, Any], obj: Obj, *, status_alone: bool = False) -> Iterator[Cause]:
    if not status_alone:
        yield from _wrong_replicas(scale["specReplicasPath"], obj)
    yield from _wrong_replicas(scale["statusReplicasPath"], obj)
    if path := scale.get("labelSelectorPath"):
        _, why = _found(path, obj, str)
        if why:
            yield Cause.invalid(path, "", why)


def _wrong_replicas(path: str, obj: Obj) -> Iterator[Cause]:
    replicas, why = _found(path, obj, int)
    if why:
        yield Cause.invalid(path, 0, why)
    elif replicas is not None and replicas < 0:
        yield Cause.invalid(path, replicas, "should be a non-negative integer")
    elif replicas is not None and replicas > MOST:
        yield Cause.invalid(path, replicas, f"should be less than or equal to {MOST}")


def _found(path: str, obj: Obj, wanted: type) -> tuple[Any, str]:
    """The value at a path, or why there can be none."""
    value: Any = obj
    steps = path.removeprefix(".").split(".")
    for depth, step in enumerate(steps):
        if not isinstance(value, dict):
            where = "." + ".".join(steps[: depth + 1])
            return None, f"{where} accessor error: {plain(value)} is of the type {_go(value)}, expected map[string]interface{{}}"
        if step not in value:
            return None, ""
        value = value[step]
    if type(value) is not wanted:
        return None, f".{'.'.join(steps)} accessor error: {plain(value)} is of the type {_go(value)}, expected {GO_TYPES[wanted]}"
    return value, ""


def _go(value: Any) -> str:
    return GO_TYPES.get(type(value), "<nil>")
