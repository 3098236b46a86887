"""Values formatted as Go prints them, for messages that quote values."""

from __future__ import annotations

import json
from typing import Any

import orjson


def as_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def plain(value: Any) -> str:
    """Format a value as Go's %v does: maps sorted by key and without quotes, as Kubernetes'
    messages show objects.
    """
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case dict():
            return "map[" + " ".join(f"{name}:{plain(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(plain, value)) + "]"
        case _:
            return str(value)


def syntax(value: Any) -> str:
    """Format a value as Go's %#v does, with Go's types, as Kubernetes' messages show values of the
    wrong type.
    """
    match value:
        case dict():
            inside = ", ".join(f"{syntax(name)}:{_boxed(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inside}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(_boxed, value)) + "}"
        case str():
            return orjson.dumps(value).decode()
        case _:
            return plain(value)


def _boxed(value: Any) -> str:
    return "interface {}(nil)" if value is None else syntax(value)


TYPE_NAMES = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
}


def type_name(value: Any) -> str:
    return TYPE_NAMES.get(type(value), "map[string]interface {}")


JSON_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    type(None): "null",
}


def json_name(value: Any) -> str:
    """Return the name that Go's JSON decoder uses for a value of the wrong type."""
    return JSON_NAMES.get(type(value), "value")
