"""Asynchronous official client inside the cluster's running loop; it awaits the server directly."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTResponse
from multidict import CIMultiDict, CIMultiDictProxy

from pytest_kscen.kube.official.transport import call_of, forget, new_host, next_chunk, phrase_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kscen.kube.official.transport import Transport, TransportAnswer


OTHER_LOOP = (
    "this client belongs to the cluster's own loop and was used in "
    "another: make the test function async,"
    " or run the coroutine with cluster.runner.call(...)"
)


class InProcessAioClient(ApiClient):
    """Official asynchronous client with a transport in place of its network session."""

    def __init__(
        self, transport: Transport, loop: asyncio.AbstractEventLoop | None
    ) -> None:  # without super(), which would load the machine's certificates
        self.configuration = Configuration(host=new_host())
        # only these methods are called
        rest = AioRest(transport, self.configuration.host, loop)
        self.rest_client = rest  # type: ignore[assignment]
        self.default_headers: dict[str, str] = {}
        self.cookie = None
        self.user_agent = "OpenAPI-Generator/python"
        self.client_side_validation = self.configuration.client_side_validation


class AioRest:
    """Object that the client uses as its session."""

    def __init__(
        self, transport: Transport, host: str, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._transport = transport
        self._host = host
        self._loop = loop

    async def request(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,  # noqa: ARG002  # Kubernetes has no forms
        _request_timeout: Any = None,
    ) -> Any:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError(OTHER_LOOP)
        method = method.upper()
        answer = await self._transport.call(*call_of(method, url, headers, body))
        return RESTResponse(AioResponse(answer, method, url, _request_timeout))

    async def close(self) -> None:
        forget(self._host)


class AioResponse:
    """Subset of `aiohttp.ClientResponse` that the client and its users read."""

    def __init__(self, answer: TransportAnswer, method: str, url: str, timeout: Any) -> None:
        self.method = method
        self.url = url
        self.status = answer.status
        self.reason = phrase_of(answer.status)
        self.headers = CIMultiDictProxy(CIMultiDict(answer.headers))
        self.content = Content(answer, timeout)

    @property
    def ok(self) -> bool:
        return self.status < 400  # noqa: PLR2004  # HTTP's first error

    @property
    def content_type(self) -> str:
        return str(self.headers.get("Content-Type", "")).partition(";")[0]

    @property
    def closed(self) -> bool:
        return self.content.at_eof()

    async def read(self) -> bytes:
        return await self.content.read()

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        return (await self.read()).decode(encoding or "utf-8", errors)

    async def json(self, **_: Any) -> Any:
        return json.loads(await self.read())

    def release(self) -> None:
        self.content.close()

    close = release

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.content.close()  # ends a watch that its reader left with `break`


class Content:
    """Subset of `aiohttp.StreamReader`."""

    def __init__(self, answer: TransportAnswer, timeout: Any) -> None:
        self._chunks = answer.stream
        self._buffer = answer.body
        self._timeout = timeout[1] if isinstance(timeout, tuple) else timeout

    def at_eof(self) -> bool:
        return self._chunks is None and not self._buffer

    def close(self) -> None:
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            chunks.close()

    async def read(self, n: int = -1) -> bytes:
        while n < 0 or not self._buffer:
            if not await self._fill():
                break
        return self._take(len(self._buffer) if n < 0 else n)

    async def readany(self) -> bytes:
        return await self.read(2**20)

    async def readline(self) -> bytes:
        while b"\n" not in self._buffer:
            if not await self._fill():
                return self._take(len(self._buffer))
        return self._take(self._buffer.index(b"\n") + 1)

    async def iter_any(self) -> AsyncIterator[bytes]:
        while piece := await self.readany():
            yield piece

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        while piece := await self.read(n):
            yield piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if line := await self.readline():
            return line
        raise StopAsyncIteration

    async def _fill(self) -> bool:
        if self._chunks is None:
            return False
        try:
            chunk = next_chunk(self._chunks)
            piece = await (
                chunk if self._timeout is None else asyncio.wait_for(chunk, self._timeout)
            )
        except TimeoutError:
            self.close()
            raise
        if piece is None:
            self.close()
            return False
        self._buffer += piece
        return True

    def _take(self, count: int) -> bytes:
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found
