"""A stream's way from the cluster's loop to the port's: a bounded heap of pieces that two threads share.

The cluster's side puts pieces in and waits when its reader is behind; the port's side takes all that is there at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.wire import Stream

FULL = 256 * 1024  # bytes on the way, beyond which the stream waits for its reader


class Pipe:
    """Made on the port's side."""

    def __init__(self) -> None:
        self._reader_loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = False
        self._arrived: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    # --- the cluster's side ---

    async def pump(self, stream: Stream) -> None:
        """Carry the whole stream over; whatever ends it, it is closed."""
        try:
            async for piece in stream:
                await self._put(piece)
        finally:
            stream.close()
            self._end()

    async def _put(self, piece: bytes) -> None:
        with self._lock:
            self._pieces.append(piece)
            self._size += len(piece)
            first = len(self._pieces) == 1
            full = self._size > FULL
            if full:
                self._room = asyncio.get_running_loop().create_future()
        if first:
            self._tell_reader()
        if full and self._room:
            await self._room

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        self._tell_reader()

    def _tell_reader(self) -> None:
        with contextlib.suppress(RuntimeError):  # the port has closed its loop
            self._reader_loop.call_soon_threadsafe(self._notice)

    # --- the port's side ---

    async def take(self) -> bytes | None:
        """All that is there, waiting for the first of it; None at the end."""
        while True:
            with self._lock:
                pieces, self._pieces, self._size = self._pieces, [], 0
                room, self._room = self._room, None
                ended = self._ended
                self._arrived = None if pieces or ended else self._reader_loop.create_future()
            if room:
                room.get_loop().call_soon_threadsafe(_resume, room)
            if pieces:
                return b"".join(pieces)
            if self._arrived is None:
                return None
            await self._arrived

    def cut(self) -> None:
        """End here, whatever may still come."""
        with self._lock:
            self._ended = True
        self._notice()

    def _notice(self) -> None:
        if self._arrived and not self._arrived.done():
            self._arrived.set_result(None)


def _resume(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)
