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
def _read_file(name: str) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((DATA / f"{name}.json").read_bytes())
    return content


def version() -> dict[str, str]:
    """Return the recorded answer of `/version`."""
    return _read_file("version")


def resources() -> dict[str, Any]:
    """Return the rows of discovery by `group/version/plural`, in the order of the server."""
    return _read_file("resources")


def definition_of(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition; empty if it has none."""
    return str(_read_file("kinds").get(f"{group}/{version}/{kind}", ""))


def definition(name: str) -> dict[str, Any]:
    """Return the schema of a type. Each `$ref` in it is the name of another definition."""
    package, _, local = name.rpartition(".")
    schema: dict[str, Any] = _read_file(package)[local]
    return schema


def protobuf_fields(name: str) -> dict[str, str]:
    """Return the fields of a definition by protobuf number. `+Definition` stands for the fields of
    an embedded type.
    """
    fields: dict[str, str] = _read_protobuf_numbers().get(name, {})
    return fields


@cache
def _read_protobuf_numbers() -> dict[str, Any]:
    numbers: dict[str, Any] = orjson.loads(PROTOBUF_NUMBERS.read_bytes())
    return numbers


__all__ = ["definition", "definition_of", "protobuf_fields", "resources", "version"]
