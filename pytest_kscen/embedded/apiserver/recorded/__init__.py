"""Discovery, OpenAPI definitions and protobuf numbers of a real Kubernetes API server, recorded as
data.

Used by schemas, patching, wire formats and OpenAPI. Only data and functions that read it may be
here; `recording` writes it.

`data/` holds one file per Go package, `resources.json` discovery, and `kinds.json` the definitions
of kinds. Files are read on first use.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson

DATA = Path(__file__).parent / "data"
PROTOBUF_NUMBERS = DATA.parent / "protobuf.json"


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((DATA.parent / name).read_bytes())
    return content


def version() -> dict[str, str]:
    """Return the recorded answer of `/version`."""
    return _read("data/version.json")


def resources() -> dict[str, Any]:
    """Return the rows of discovery by `group/version/plural`, in the order of the server."""
    return _read("data/resources.json")


def definition_of(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition; empty if it has none."""
    return str(_read("data/kinds.json").get(f"{group}/{version}/{kind}", ""))


def definition(name: str) -> dict[str, Any]:
    """Return the schema of a type. Each `$ref` in it is the name of another definition."""
    package, _, local = name.rpartition(".")
    schema: dict[str, Any] = _read(f"data/{package}.json")[local]
    return schema


def protobuf_fields(name: str) -> dict[str, str]:
    """Return the fields of a definition by protobuf number. `+Definition` stands for the fields of
    an embedded type.
    """
    fields: dict[str, str] = _read(PROTOBUF_NUMBERS.name).get(name, {})
    return fields


__all__ = ["definition", "definition_of", "protobuf_fields", "resources", "version"]
