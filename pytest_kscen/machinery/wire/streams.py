"""Bodies that come piece by piece: a watch's events, one JSON document a line, and a log that is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import orjson

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Texts, Watch
    from pytest_kscen.machinery.wire.shaping import Shaper


class WatchStream:
    """The frames of one watch."""

    def __init__(self, watch: Watch, shaper: Shaper) -> None:
        self._watch = watch
        self._shaper = shaper

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        event = await self._watch.__anext__()
        frame = {"type": event.type, "object": self._shaper.event(event)}
        return orjson.dumps(frame, option=orjson.OPT_APPEND_NEWLINE)

    def close(self) -> None:
        self._watch.close()


class TextStream:
    """The pieces of a text."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return (await self._texts.__anext__()).encode()

    def close(self) -> None:
        self._texts.close()
