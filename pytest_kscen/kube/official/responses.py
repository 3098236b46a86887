"""Responses as the synchronous client's users know them, urllib3's: one that is there, and one that comes piece by piece."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPResponse
from urllib3.exceptions import ReadTimeoutError

from pytest_kscen.kube.official.transport import next_chunk, phrase_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.official.transport import Chunks, HttpAnswer


def whole(answer: HttpAnswer, url: str) -> HTTPResponse:
    return HTTPResponse(
        BytesIO(answer.body),
        answer.headers,
        answer.status,
        reason=phrase_of(answer.status),
        preload_content=False,
        request_url=url,
    )


class Reader:
    """Draws the pieces out of a stream, letting cluster time pass for each if it must."""

    def __init__(self, chunks: Chunks, runner: Runner, limit: float | None) -> None:
        self.limit = limit
        self.closed = False
        self._chunks = chunks
        self._runner = runner

    def next(self) -> bytes | None:
        """The next piece; None at the end. A TimeoutError says that the client's own read time-out is over."""
        if self.closed:
            return None
        if self.limit is None:
            chunk = self._runner.ask(next_chunk(self._chunks))
        else:
            chunk = self._runner.call(asyncio.wait_for(next_chunk(self._chunks), self.limit))
        if chunk is None:
            self.close()
        return chunk

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._runner.ask(_close(self._chunks))


async def _close(chunks: Chunks) -> None:
    chunks.close()


class StreamedResponse(HTTPResponse):
    """Reads as far as it is asked to."""

    def __init__(self, answer: HttpAnswer, url: str, reader: Reader) -> None:
        self._reader = reader
        self._rest = b""
        phrase = phrase_of(answer.status)
        super().__init__(b"", answer.headers, answer.status, reason=phrase, request_url=url, preload_content=False)

    def stream(self, amt: int | None = None, decode_content: bool | None = None) -> Generator[bytes, None, None]:  # noqa: ARG002, FBT001  # urllib3's signature
        while piece := self._next():
            yield piece

    def read(self, amt: int | None = None, *_: Any, **__: Any) -> bytes:
        while amt is None or len(self._rest) < amt:
            piece = self._pull()
            if piece is None:
                break
            self._rest += piece
        amt = len(self._rest) if amt is None else amt
        found, self._rest = self._rest[:amt], self._rest[amt:]
        return found

    @property
    def data(self) -> bytes:
        return self.read()

    @property
    def closed(self) -> bool:
        return self._reader.closed and not self._rest

    def close(self) -> None:
        self._reader.close()

    def release_conn(self) -> None:
        self._reader.close()

    def _next(self) -> bytes | None:
        if self._rest:
            found, self._rest = self._rest, b""
            return found
        return self._pull()

    def _pull(self) -> bytes | None:
        try:
            return self._reader.next()
        except TimeoutError as error:
            self.close()
            message = f"Read timed out. (read timeout={self._reader.limit})"
            raise ReadTimeoutError(None, str(self.url), message) from error  # type: ignore[arg-type]  # there is no pool
