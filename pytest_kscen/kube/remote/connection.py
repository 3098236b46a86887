"""HTTPS connections to one cluster: pooled, limited and retried.

A request is repeated when the server answers 429 with Retry-After, and a read when its connection
broke. Credentials that were refused are read again once, for tokens that expire. A refusal is an
ApiError, a lost connection a ConnectionError.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket  # noqa: TID251  # the one module that opens sockets
import ssl
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson
import yarl

from pytest_kscen.kube.api import MAX_ANSWER_SIZE, HttpAnswer
from pytest_kscen.objects.errors import Unauthorized, error_of

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import HttpCall
    from pytest_kscen.objects.errors import ApiError


KEEPALIVE_OPTIONS = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 15,
    "TCP_KEEPCNT": 3,
}  # a lost peer is detected within a minute
MAX_CLOSE_STEPS = 1000  # turns of the loop; a few suffice


class Sockets:
    """Sockets of one connection or server, closed with it without waiting for their peers.

    The peer's TLS close-notify is not awaited, since the loop may be closed before it arrives.
    """

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in KEEPALIVE_OPTIONS.items():
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        self._made.add(made)
        return made

    def listen(self, host: str) -> socket.socket:
        """Listen at a free port of this host; accepted sockets are registered too."""
        listening = _Listening(socket.AF_INET, socket.SOCK_STREAM)
        listening.accepted = self._made
        listening.bind((host, 0))
        return listening

    async def end(self, turn: Callable[[], Awaitable[None]]) -> None:
        """Close all sockets. `turn` runs the loop once."""
        for one in self._open():
            with contextlib.suppress(OSError):  # it was never connected, or the peer has closed it
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(MAX_CLOSE_STEPS):
            if not self._open():
                return
            await turn()

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]


class _Listening(socket.socket):
    """Listening socket that remembers accepted ones: a server under TLS reports a client only
    after the handshake.
    """

    accepted: weakref.WeakSet[socket.socket]

    def accept(self) -> tuple[socket.socket, Any]:
        connected, address = super().accept()
        self.accepted.add(connected)
        return connected, address


T = TypeVar("T")

logger = logging.getLogger(__name__)

IN_FLIGHT = 64  # concurrent requests, watches not counted
ATTEMPTS = 5
FIRST_BACKOFF = 0.1
CONNECT_TIMEOUT, ANSWER_TIMEOUT = 10.0, 75.0  # a server gives a request 60 s
KEEP_IDLE = 30.0
JSON = "application/json"
ADMIN_GROUP = "system:masters"
READS = frozenset({"GET"})
FORBIDDEN_HEADERS = (
    "authorization",
    "impersonate-",
    "host",
)  # beginnings of header names that are not forwarded
FIRST_ERROR_STATUS = 400


class _RefusedError(Exception):
    """Refusal by the server, with the seconds after which it accepts the request again."""

    def __init__(self, error: ApiError, retry_after: float) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after


class Connection:
    """Connections to one cluster, shared by all clients of one event loop.

    `reload` reads the credentials again when they expire.
    """

    def __init__(
        self,
        access: Access,
        clock: Clock,
        reload: Callable[[], Access] | None = None,
        *,
        users: str = "",
    ) -> None:
        """Prepare the connections. With `users`, each actor impersonates a user of its own in
        system:masters, whose name begins with this text.
        """
        self.access = access
        self.users = users
        self._clock = clock
        self._reload = reload
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._streams: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._closed = False

    async def request(
        self,
        method: str,
        target: str,
        *,
        agent: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        attempts: int = ATTEMPTS,
    ) -> bytes:
        """Return the response's bytes. The target is a quoted path with its query."""
        headers = self._headers(agent, accept) | (
            {"Content-Type": content_type} if body is not None else {}
        )

        async def send() -> bytes:
            async with await self._send_once(method, target, headers, body) as response:
                return await response.read()

        async with self._slots:
            return await self._retry(method, target, send, attempts)

    async def forward(self, target: str, call: HttpCall, *, agent: str) -> HttpAnswer:
        """Send a request through the server's proxy once; every response is returned.

        Headers in FORBIDDEN_HEADERS are dropped: the target must not get credentials.
        """
        given = {
            name: value
            for name, value in call.headers
            if not name.lower().startswith(FORBIDDEN_HEADERS)
        }
        headers = self._headers(agent, "*/*") | given
        async with self._slots:
            try:
                async with await self._send(
                    call.method, target, headers, call.body or None
                ) as response:
                    return HttpAnswer(
                        response.status,
                        tuple(response.headers.items()),
                        await _read_limited(response),
                    )
            except (aiohttp.ClientError, TimeoutError) as error:
                raise ConnectionError(
                    f"{call.method} {self.access.server}{target}: {error_message(error)}"
                ) from error

    async def stream(self, target: str, *, agent: str) -> aiohttp.ClientResponse:
        """Return a response that is read as it arrives; the caller closes it."""
        headers = self._headers(agent, JSON)
        patience = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT)
        return await self._retry(
            "GET", target, lambda: self._send_once("GET", target, headers, timeout=patience)
        )

    def _headers(self, agent: str, accept: str) -> dict[str, str]:
        headers = {"User-Agent": agent, "Accept": accept}
        return (
            headers | {"Impersonate-User": f"{self.users}{agent}", "Impersonate-Group": ADMIN_GROUP}
            if self.users
            else headers
        )

    def register(self, close: Callable[[], None]) -> Callable[[], None]:
        """Register a function that `close` calls; returns a function that removes it again."""
        number = next(self._numbers)
        self._streams[number] = close

        def forget() -> None:
            self._streams.pop(number, None)

        return forget

    async def close(self) -> None:
        """Close every watch, then the connections."""
        self._closed = True
        for close in list(self._streams.values()):
            close()
        if self._session:
            await self._session.close()
            await self._sockets.end(lambda: self._clock.sleep(0))

    async def _retry(
        self, method: str, target: str, send: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS
    ) -> T:
        """Repeat the request until there is a response, or an error that another attempt would not
        change.
        """
        refreshed, attempt = False, 0
        while True:
            attempt += 1
            try:
                return await send()
            except _RefusedError as refused:
                if (
                    isinstance(refused.error, Unauthorized)
                    and not refreshed
                    and await self._refresh()
                ):
                    refreshed = True
                elif refused.retry_after and attempt < attempts:
                    await self._clock.sleep(refused.retry_after)
                else:
                    raise refused.error from None
            except (aiohttp.ClientError, TimeoutError) as error:
                if (
                    method not in READS
                    or attempt == attempts
                    # another attempt does not change a wrong address or certificate
                    or isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL)
                ):
                    raise ConnectionError(
                        f"{method} {self.access.server}{target}: {error_message(error)}"
                    ) from error
                await self._clock.sleep(FIRST_BACKOFF * 2 ** (attempt - 1))

    async def _send_once(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None = None,
        **options: Any,
    ) -> aiohttp.ClientResponse:
        response = await self._send(method, target, headers, body, **options)
        if response.status >= FIRST_ERROR_STATUS:
            retry_after = response.headers.get("Retry-After", "")
            raise _RefusedError(
                await _refusal_of(response), float(retry_after) if retry_after.isdecimal() else 0.0
            )
        for warning in response.headers.getall("Warning", ()):
            logger.warning("the API server warns: %s", warning)
        return response

    async def _send(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None = None,
        **options: Any,
    ) -> aiohttp.ClientResponse:
        if self._closed:
            raise ConnectionError(
                f"{method} {self.access.server}{target}: the connection is closed"
            )
        if self._session is None:
            self._session = _session(self._sockets)
        access = self.access
        return await self._session.request(
            method,
            yarl.URL(access.server + target, encoded=True),
            data=body,
            headers={**headers, "Authorization": access.authorization}
            if access.authorization
            else headers,
            ssl=access.tls or True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            allow_redirects=False,
            **options,
        )

    async def _refresh(self) -> bool:
        """Read the credentials again; return True if they have changed."""
        before = self.access.authorization
        if self._reload:
            self.access = await asyncio.to_thread(self._reload)
        return self.access.authorization != before


def _session(sockets: Sockets) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEP_IDLE, socket_factory=sockets.make
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT, sock_read=ANSWER_TIMEOUT),
        trust_env=False,
        read_bufsize=2**18,
    )
    # aiohttp would repeat a PUT or a DELETE that may have been done
    session._retry_connection = False  # noqa: SLF001
    return session


async def _read_limited(response: aiohttp.ClientResponse) -> bytes:
    """Return the first MAX_ANSWER_SIZE bytes of a response's body."""
    body = bytearray()
    while len(body) < MAX_ANSWER_SIZE and (
        chunk := await response.content.read(MAX_ANSWER_SIZE - len(body))
    ):
        body += chunk
    return bytes(body)


def error_message(error: Exception) -> str:
    """Return the cause of an error as text, without the library's object representations."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if words := getattr(cause, "verify_message", None):
        return f"its certificate is not trusted: {words}"
    number = getattr(cause, "errno", None)
    if isinstance(cause, OSError) and number and number > 0:
        return os.strerror(number).lower()
    return str(getattr(cause, "strerror", None) or cause) or type(cause).__name__


async def _refusal_of(response: aiohttp.ClientResponse) -> ApiError:
    async with response:
        body = await response.read()
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body.decode(errors="replace").strip() or response.reason or ""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": text,
            "code": response.status,
        }
    return error_of(status)


@dataclass(frozen=True, slots=True)
class Access:
    """Server address and the credentials for it, as the official client reads a kubeconfig."""

    server: str
    authorization: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


def configuration_of(path: pathlib.Path | str, context: str = "") -> Any:
    """Return the official client's Configuration of a context; the file's current context by
    default.
    """
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(  # type: ignore[no-untyped-call]
        str(path), context or None, configuration, persist_config=False
    )
    configuration.disable_strict_ssl_verification = (
        True  # as in Go: certificates of many clusters do not pass the strict checks
    )
    if _is_loopback(configuration.host):
        configuration.proxy = None
    return configuration


def access_of(configuration: Any) -> Access:
    from kubernetes.client.rest import should_bypass_proxies

    uses_proxy = configuration.proxy and not should_bypass_proxies(
        configuration.host, configuration.no_proxy or ""
    )
    return Access(
        server=configuration.host,
        authorization=configuration.api_key.get("BearerToken", ""),
        tls=_tls_of(configuration) if configuration.host.startswith("https") else None,
        server_name=configuration.tls_server_name,
        proxy=str(configuration.proxy) if uses_proxy else None,
    )


def _tls_of(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
