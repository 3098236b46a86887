"""Synchronous official client: calls are answered without moving time; a watch runs the loop until
its next event.

The client belongs to the thread that made it. A call from another thread would move time during a
call of the test, so it is refused. Some helpers (SharedInformer) catch the refusal, so the next
call raises it again.
"""

from __future__ import annotations

import asyncio
import threading
from io import BytesIO
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.client.rest import RESTResponse
from urllib3 import HTTPResponse
from urllib3.exceptions import ReadTimeoutError

from pytest_kscen.kube.official.transport import (
    STREAMED,
    call_of,
    forget,
    new_host,
    next_chunk,
    phrase_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Never

    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.official.transport import Chunks, Transport, TransportAnswer


def whole(answer: TransportAnswer, url: str) -> HTTPResponse:
    return HTTPResponse(
        BytesIO(answer.body),
        answer.headers,
        answer.status,
        reason=phrase_of(answer.status),
        preload_content=False,
        request_url=url,
    )


class Reader:
    """Reader of a stream's pieces. Cluster time passes while it waits for the next piece."""

    def __init__(self, chunks: Chunks, runner: Runner, limit: float | None) -> None:
        self.limit = limit
        self.closed = False
        self._chunks = chunks
        self._runner = runner

    def next(self) -> bytes | None:
        """Return the next piece, None at the end; raises TimeoutError after the client's read
        timeout.
        """
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
    """Response of urllib3 that is read piece by piece."""

    def __init__(self, answer: TransportAnswer, url: str, reader: Reader) -> None:
        self._reader = reader
        self._rest = b""
        phrase = phrase_of(answer.status)
        super().__init__(
            b"",
            answer.headers,
            answer.status,
            reason=phrase,
            request_url=url,
            preload_content=False,
        )

    def stream(
        self,
        amt: int | None = None,  # noqa: ARG002  # urllib3's signature
        decode_content: bool | None = None,  # noqa: ARG002, FBT001  # urllib3's signature
    ) -> Generator[bytes, None, None]:
        while piece := self._rest or self._pull():
            self._rest = b""
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

    def _pull(self) -> bytes | None:
        try:
            return self._reader.next()
        except TimeoutError as error:
            self.close()
            message = f"Read timed out. (read timeout={self._reader.limit})"
            # there is no pool
            raise ReadTimeoutError(
                None,  # type: ignore[arg-type]
                str(self.url),
                message,
            ) from error


ASYNC_REQ = (
    "async_req=True sends the request from another thread, and the in-process client works in "
    "the test's thread only: call it without async_req, or use kubernetes.aio"
)
OTHER_THREAD = (
    "the in-process client was used in the thread {name!r}, but it belongs to the test's "
    "own thread (a SharedInformer, too, runs"
    " in a thread of its own): there, make a client from the cluster's kubeconfig, with"
    " kubernetes.config.new_client_from_config(str(cluster.kubeconfig)), or use kubernetes.aio"
)
IN_LOOP = (
    "a synchronous watch would block the running event loop: watch with kubernetes.aio, or "
    "outside the loop"
)


class InProcessClient(ApiClient):
    """Official synchronous client with a transport in place of its connection pool. `async_req` and
    streaming calls, which would not use the transport, are refused.
    """

    def __init__(self, transport: Transport, runner: Runner) -> None:
        super().__init__(Configuration(host=new_host()))
        # only these methods are called
        rest = SyncRest(transport, runner, self.configuration.host)
        self.rest_client = rest  # type: ignore[assignment]

    def _get_pool(self) -> Never:
        raise RuntimeError(ASYNC_REQ)

    @property
    def call_api(self) -> Any:
        return super().call_api

    @call_api.setter
    def call_api(self, _: Any) -> None:  # what kubernetes.stream does
        raise ApiException(status=501, reason=STREAMED)


class SyncRest:
    """Object that the client uses as its connection pool."""

    def __init__(self, transport: Transport, runner: Runner, host: str) -> None:
        self._transport = transport
        self._runner = runner
        self._host = host
        self._owner = threading.get_ident()
        self._refused: str | None = None

    def request(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,  # noqa: ARG002  # Kubernetes has no forms
        _request_timeout: Any = None,
    ) -> Any:
        if threading.get_ident() != self._owner:
            self._refused = OTHER_THREAD.format(name=threading.current_thread().name)
            raise RuntimeError(self._refused)
        self._raise_refusal()
        answer = self._runner.ask(
            self._transport.call(*call_of(method.upper(), url, headers, body))
        )
        if answer.stream:
            stream = answer.stream
            if _inside_a_loop():
                stream.close()
                raise RuntimeError(IN_LOOP)
            limit = _request_timeout[1] if isinstance(_request_timeout, tuple) else _request_timeout
            return RESTResponse(StreamedResponse(answer, url, Reader(stream, self._runner, limit)))
        return RESTResponse(whole(answer, url))

    def close(self) -> None:
        forget(self._host)
        self._raise_refusal()

    def _raise_refusal(self) -> None:
        refused, self._refused = self._refused, None
        if refused:
            raise RuntimeError(refused)


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
