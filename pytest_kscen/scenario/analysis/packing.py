"""The results of an attempt, kept small: what plugins said of thousands of nodes is packed until somebody asks for it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 32  # nodes


class Packed(Mapping[str, Any]):
    """Reads as the results themselves."""

    __slots__ = ("_parts",)

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._parts = {name: _packed(value) for name, value in results.items()}

    def __getitem__(self, name: str) -> Any:
        value = self._parts[name]
        return orjson.loads(zlib.decompress(value)) if isinstance(value, bytes) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _packed(value: Any) -> Any:
    return zlib.compress(orjson.dumps(value), 1) if isinstance(value, dict) and len(value) > LARGE else value
