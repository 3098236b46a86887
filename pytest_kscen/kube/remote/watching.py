"""A watch over a socket: opened when it is first read, split into lines of any length, ended from either side.

The server's time-out ends it quietly; a connection that breaks is a ConnectionError, after what had arrived whole.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Self

import aiohttp
import orjson

from pytest_kscen.kube.remote.connection import words_of
from pytest_kscen.kube.requests import Event

if TYPE_CHECKING:
    from pytest_kscen.kube.remote.connection import Connection


class RemoteWatch:
    """A `kube.requests.Watch`."""

    def __init__(self, connection: Connection, target: str, agent: str) -> None:
        self._connection = connection
        self._target = target
        self._agent = agent
        self._events: collections.deque[Event] = collections.deque()
        self._partial: list[bytes] = []
        self._opening: asyncio.Task[aiohttp.ClientResponse] | None = None
        self._response: aiohttp.ClientResponse | None = None
        self._open = True
        self._forget = connection.remember(self.close)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            try:
                self._take(await self._more())
            except BaseException:
                self.close()
                raise
        return self._events.popleft()

    def close(self) -> None:
        """End it at once, whoever reads."""
        self._open = False
        self._forget()
        if self._opening and not self._opening.done():
            self._opening.cancel()
        if self._response:
            if (connection := self._response.connection) and connection.transport:
                connection.transport.abort()  # TLS would wait for the other side to say good-bye
            self._response.close()

    async def _more(self) -> bytes:
        if not self._open:
            raise StopAsyncIteration
        if self._response is None:
            self._response = await self._begin()
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError) as error:
            if not self._open:
                raise StopAsyncIteration from None
            raise ConnectionError(f"the watch {self._target} broke off: {words_of(error)}") from error
        if chunk:
            return chunk
        if self._open and any(self._partial):
            raise ConnectionError(f"the watch {self._target} broke off within a line")
        raise StopAsyncIteration

    async def _begin(self) -> aiohttp.ClientResponse:
        self._opening = asyncio.ensure_future(self._connection.stream(self._target, agent=self._agent))
        try:
            return await self._opening
        except asyncio.CancelledError:
            reader = asyncio.current_task()
            if self._open or (reader and reader.cancelling()):
                raise
            raise StopAsyncIteration from None

    def _take(self, chunk: bytes) -> None:
        head, *rest = chunk.split(b"\n")
        self._partial.append(head)
        for piece in rest:
            line, self._partial = b"".join(self._partial), [piece]
            if line:
                event = orjson.loads(line)
                self._events.append(Event(event["type"], event["object"]))
