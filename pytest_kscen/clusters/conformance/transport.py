"""The two roads to a server: in this process, or over HTTPS as any stranger would come."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import orjson

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Generator, Mapping

    from pytest_kscen.clock import Runner
    from pytest_kscen.clusters.embedded import EmbeddedCluster

SOCKET_TIMEOUT = 30.0  # seconds of silence; the slowest answer, a contested eviction, takes ten
THREADS = 16  # that may use one road over HTTPS


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A watch's lines. `next` on a stream that has ended raises StopIteration."""

    def __next__(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """A road."""

    def call(self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> Raw: ...

    def stream(self, path: str, query: Mapping[str, Any]) -> Stream:
        """Open a watch; a refusal is an AssertionError that shows the answer."""

    def wait(self, seconds: float) -> None:
        """Let cluster time pass."""


class InProcess:
    """The embedded cluster's wire, without a socket."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._wire = cluster.wire
        self._runner = cluster.runner

    def call(self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> Raw:
        lowered = {name.lower(): value for name, value in headers.items()}
        answer = self._runner.ask(self._wire.call(method, path, urlencode(query), lowered, body))
        if answer.stream is None:
            return Raw(answer.status, answer.headers, answer.body)
        return Raw(answer.status, answer.headers, self._runner.call(_drained(answer.stream)))

    def stream(self, path: str, query: Mapping[str, Any]) -> Stream:
        answer = self._runner.ask(self._wire.call("GET", path, urlencode(query), {}, b""))
        assert answer.stream, answer.body
        return _Lines(self._runner, answer.stream)

    def wait(self, seconds: float) -> None:
        self._runner.advance(seconds)


async def _drained(stream: Any) -> bytes:
    return b"".join([chunk async for chunk in stream])


class _Lines:
    def __init__(self, runner: Runner, stream: Any) -> None:
        self._runner = runner
        self._stream = stream
        self._buffered: list[bytes] = []

    def __next__(self) -> dict[str, Any]:
        while not self._buffered:
            try:
                chunk = self._runner.ask(self._stream.__anext__())
            except StopAsyncIteration:
                raise StopIteration from None
            self._buffered = [line for line in chunk.split(b"\n") if line]
        return orjson.loads(self._buffered.pop(0))  # type: ignore[no-any-return]

    def close(self) -> None:
        self._stream.close()


class OverHttps:
    """Any server, by a kubeconfig; `wait` is how its time passes, if not by itself."""

    def __init__(self, kubeconfig: pathlib.Path, wait: Callable[[float], None] | None = None) -> None:
        import urllib3

        from pytest_kscen.kube.remote import access_of, configuration_of

        access = access_of(configuration_of(kubeconfig))
        self._url = access.server
        self._headers = {"Authorization": access.authorization}
        self._pool = urllib3.PoolManager(ssl_context=access.tls, retries=False, timeout=SOCKET_TIMEOUT, maxsize=THREADS)
        self.wait = wait or _wait

    def call(self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> Raw:
        url = f"{self._url}{path}{'?' if query else ''}{urlencode(query)}"
        answer = self._pool.request(method, url, headers={**self._headers, **headers}, body=body or None)
        return Raw(answer.status, dict(answer.headers), answer.data)

    def stream(self, path: str, query: Mapping[str, Any]) -> Stream:
        url = f"{self._url}{path}?{urlencode(query)}"
        answer = self._pool.request("GET", url, headers=self._headers, preload_content=False)
        assert answer.status == 200, answer.data  # noqa: PLR2004
        return _HttpLines(answer)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class _HttpLines:
    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._lines = _lines_of(answer)

    def __next__(self) -> dict[str, Any]:
        return orjson.loads(next(self._lines))  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the reading as well: left to the garbage collector, it would give its connection back while the pool is locked."""
        self._lines.close()
        self._answer.close()


def _lines_of(answer: Any) -> Generator[bytes, None, None]:
    rest = b""
    for chunk in answer.stream(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)
