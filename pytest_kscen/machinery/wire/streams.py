"""Bodies that come piece by piece: a watch's events, one JSON document a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.requests import Event, Watch


class WatchStream:
    """The frames of one watch."""

    def __init__(self, watch: Watch, shape: Callable[[Event], Any] | None) -> None:
        self._watch = watch
        self._shape = shape

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        event = await self._watch.__anext__()
        obj = self._shape(event) if self._shape and event.type != "ERROR" else event.object
        return orjson.dumps({"type": event.type, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)

    def close(self) -> None:
        self._watch.close()
