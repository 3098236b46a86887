"""Recorded definitions put together again: what is shared is one object in all places."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

DATA = Path(__file__).parent / "data" / "chaos-mesh.json"
PART = "$part"


class Recorded:
    """What was recorded."""

    def __init__(self, content: Obj) -> None:
        self._parts: dict[str, Obj] = content["parts"]
        self._whole: dict[str, Any] = {}
        self.shipped: dict[str, Obj] = {kind: self._put_together(spec) for kind, spec in content["shipped"].items()}
        """The specs of the definitions that are shipped, by kind."""

    def part(self, name: str) -> Any:
        if name not in self._whole:
            self._whole[name] = self._put_together(self._parts[name])
        return self._whole[name]

    def _put_together(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._put_together(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if PART in value:
            return self.part(value[PART])
        return {key: self._put_together(inner) for key, inner in value.items()}


@functools.cache
def recorded() -> Recorded:
    return Recorded(orjson.loads(DATA.read_bytes()))


def schema_of(spec: Obj) -> Obj:
    """Of the only version that there is."""
    return spec["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]
