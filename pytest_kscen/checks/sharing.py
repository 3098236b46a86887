"""What a journal tells of many is in memory once: the names of nodes and volumes, words for effects.

What was told long ago is forgotten here, for it hardly comes again. Nobody can change what is shared.
"""

from __future__ import annotations

from functools import lru_cache

REMEMBERED = 1024


@lru_cache(maxsize=REMEMBERED)
def shared(text: str) -> str:
    return text


@lru_cache(maxsize=REMEMBERED)
def shared_names(*names: str) -> tuple[str, ...]:
    return tuple(map(shared, names))
