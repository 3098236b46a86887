"""Fields that a body names twice: what they say is put together as Go does it, and the client is told."""

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


def parsed_json(body: bytes) -> tuple[Any, list[str]]:
    """What a body says, and each field that is there again, as `duplicate field "a.b"`."""
    parsed = orjson.loads(body)
    if not _ODD_KEY.search(body) and body.count(b'":') == orjson.dumps(parsed).count(b'":'):
        return parsed, []
    written = json.loads(body, object_pairs_hook=Pairs)
    doubles = [f'duplicate field "{path}"' for path in _doubles(written, "")][:MOST]
    return (_merged(written) if doubles else parsed), doubles


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


def _merged(value: Any, into: Any = None) -> Any:
    """Objects of the same name become one; of all else the last counts."""
    if isinstance(value, Pairs):
        found = into if isinstance(into, dict) else {}
        for name, part in value:
            found[name] = _merged(part, found.get(name))
        return found
    return [_merged(part) for part in value] if isinstance(value, list) else value
