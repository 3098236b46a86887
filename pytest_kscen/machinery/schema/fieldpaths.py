"""Paths in a definition that point to a field of its schema: `.spec.replicas`, and `.labels['a.b']` in rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.machinery.schema.leaves import NOTHING

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
NOWHERE = "does not refer to a valid field"
CUT_OFF = "unexpected end of JSON path"


class BadPath(ValueError):
    """The text says why."""


def schema_at(path: str, schema: Obj, *, by_key: bool = True) -> tuple[str, Obj]:
    """The path as Kubernetes writes it, and the schema that it leads to."""
    tokens, written = TOKEN.findall(path)[::-1], ""
    while tokens:
        opening = tokens.pop()
        if opening == "[" and not by_key:
            raise BadPath("array notation is not allowed")
        if opening not in {"[", "."}:
            raise BadPath(f"expected [ or . but got: {opening}")
        if not tokens:
            raise BadPath(CUT_OFF)
        name = tokens.pop() if opening == "." else _key(tokens)
        step, schema = _step(name, schema)
        written += step
    return written.removeprefix("."), schema


def _key(tokens: list[str]) -> str:
    quoted = tokens.pop()
    if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":  # noqa: PLR2004 - the two quotes
        raise BadPath(f"expected single quoted string but got {quoted}")
    if not tokens:
        raise BadPath(CUT_OFF)
    if (closing := tokens.pop()) != "]":
        raise BadPath(f"expected ] but got {closing}")
    return quoted[1:-1].replace(r"\'", "'").replace(r"\\", "\\")


def _step(name: str, schema: Obj) -> tuple[str, Obj]:
    properties = schema.get("properties") or NOTHING
    if name in properties:
        return f".{name}", properties[name]
    more = schema.get("additionalProperties")
    if properties or not isinstance(more, dict):
        raise BadPath(NOWHERE)
    return f"[{name}]", more
