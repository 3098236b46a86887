"""Fields that a body names twice: the last one counts, and the client is told."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 100
_ODD_KEY = re.compile(rb'"[ \t\r\n]+:|\\u')


class Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


def doubled_fields(body: bytes, parsed: Any) -> list[str]:
    """Each field that is there again, as `duplicate field "a.b"`."""
    if not _ODD_KEY.search(body) and body.count(b'":') == orjson.dumps(parsed).count(b'":'):
        return []
    written = json.loads(body, object_pairs_hook=Pairs)
    return [f'duplicate field "{path}"' for path in _doubles(written, "")][:MOST]


def _doubles(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Pairs):
        seen: dict[str, None] = {}
        for name, part in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield here
            seen[name] = None
            yield from _doubles(part, here)
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _doubles(part, f"{path}[{position}]")
