"""Data classes as Kubernetes sees them: read from JSON, written as JSON, and described by a structural schema.

A field says its JSON name, and what it is for; its type says the rest.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

T = TypeVar("T")
Reader = typing.Callable[[Any], Any]

ANYTHING: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
AN_OBJECT: Obj = {**ANYTHING, "x-kubernetes-embedded-resource": True}
A_NAME: Obj = {"type": "string", "minLength": 1}
PLAIN: dict[Any, Obj] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int32"},
    bool: {"type": "boolean"},
}


def part(
    json: str,
    about: str = "",
    *,
    schema: Obj | None = None,
    required: bool = False,
    keys: Sequence[str] = (),
    whole: bool = False,
    **field: Any,
) -> Any:
    """A field. `schema` stands in place of what its type says.

    A list's elements are told apart by `keys`; of what is `whole` nobody owns a part.
    """
    merging: Obj = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]} if keys else {}
    merging |= {"x-kubernetes-map-type": "atomic"} if whole else {}
    told = {"json": json, "about": about, "schema": schema, "required": required, "merging": merging}
    return dataclasses.field(metadata=told, **field)


def schema_of(model: type) -> Obj:
    """The structural schema of a data class."""
    properties = {field.metadata["json"]: _described(field, hint) for field, hint in _parts(model)}
    required = [field.metadata["json"] for field, _ in _parts(model) if field.metadata["required"]]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _described(field: dataclasses.Field[Any], hint: Any) -> Obj:
    about = {"description": field.metadata["about"]} if field.metadata["about"] else {}
    return {**(field.metadata["schema"] or _schema(hint)), **about, **field.metadata["merging"]}


def _schema(hint: Any) -> Obj:
    hint = _without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])} if arguments[1] is not Any else ANYTHING
    return schema_of(hint) if dataclasses.is_dataclass(hint) else PLAIN[hint]  # type: ignore[arg-type]  # a class it is


def read(model: type[T], obj: Obj | None) -> T:
    """What the API has let in: its types are right."""
    obj = obj or {}
    values = {}
    for name, json, reader in _readers(model):  # type: ignore[arg-type]  # a class can be hashed
        value = obj.get(json)
        if value is not None:
            values[name] = reader(value) if reader else value
    return model(**values)


@functools.cache
def _readers(model: type) -> list[tuple[str, str, Reader | None]]:
    return [(field.name, field.metadata["json"], _reader(hint)) for field, hint in _parts(model)]


def _reader(hint: Any) -> Reader | None:
    """What makes a value of it; nothing does if it stays as it is."""
    hint = _without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    inner = _reader(arguments[-1 if origin is dict else 0]) if origin in (list, tuple, dict) else None
    if dataclasses.is_dataclass(hint):
        return functools.partial(read, hint)  # type: ignore[arg-type]  # a class it is
    if inner is None:
        return origin if origin in (list, tuple) else None
    if origin is dict:
        return lambda value: {key: inner(each) for key, each in value.items()}
    return lambda value: origin(inner(each) for each in value)


def written(model: Any) -> Any:
    """JSON again, without what is not set."""
    if dataclasses.is_dataclass(model):
        parts = {field.metadata["json"]: getattr(model, field.name) for field in dataclasses.fields(model)}
        return {name: written(value) for name, value in parts.items() if value is not None}
    if isinstance(model, list | tuple):
        return [written(each) for each in model]
    if isinstance(model, dict):
        return {key: written(value) for key, value in model.items()}
    return model


@functools.cache
def _parts(model: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(model)
    return [(field, hints[field.name]) for field in dataclasses.fields(model)]


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint
