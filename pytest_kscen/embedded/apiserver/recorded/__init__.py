"""What a real Kubernetes API server serves, recorded as data.

Only the recording and its reading may enter here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson

# The recorded files, each read when something in it is first asked for.


DATA = Path(__file__).parent / "data"
PROTOBUF_NUMBERS = DATA.parent / "protobuf.json"


@cache
def _read_file(name: str) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((DATA / f"{name}.json").read_bytes())
    return content


def version() -> dict[str, str]:
    """What the recorded server says of itself at /version."""
    return _read_file("version")


def resources() -> dict[str, Any]:
    """The rows of discovery, by `group/version/plural`, in the server's order."""
    return _read_file("resources")


def definition_of(group: str, version: str, kind: str) -> str:
    """The name of a kind's definition; empty if it has none."""
    return str(_read_file("kinds").get(f"{group}/{version}/{kind}", ""))


def definition(name: str) -> dict[str, Any]:
    """One type's schema; its `$ref`s are names of definitions."""
    package, _, local = name.rpartition(".")
    schema: dict[str, Any] = _read_file(package)[local]
    return schema


def protobuf_fields(name: str) -> dict[str, str]:
    """By which number protobuf knows each field of a definition; `+Definition` stands for an
    embedded type's fields.
    """
    fields: dict[str, str] = _read_protobuf_numbers().get(name, {})
    return fields


@cache
def _read_protobuf_numbers() -> dict[str, Any]:
    numbers: dict[str, Any] = orjson.loads(PROTOBUF_NUMBERS.read_bytes())
    return numbers


__all__ = ["definition", "definition_of", "protobuf_fields", "resources", "version"]
