"""One request to an extender: HTTP or HTTPS, in a thread, with a deadline on the wall clock. What goes wrong is told in Go's words.

Simulated time stands still until the answer is there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import ssl
import tempfile
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from pytest_kscen.simulation.scheduler.framework.extending import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.simulation.scheduler.configuration.model import ExtenderConfiguration

BOTH_WAYS = 2
HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "Go-http-client/1.1"}
TOO_LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
UNTRUSTED = {18, 19, 20, 21, 27}  # OpenSSL's numbers for chains that lead to nobody we trust


class Door:
    """Where an extender is, and how to get in."""

    def __init__(self, configuration: ExtenderConfiguration) -> None:
        self._url = configuration.url.rstrip("/")
        self._parts = urlsplit(self._url)
        self._timeout = configuration.timeout
        self._server_name: str = configuration.tls.get("serverName") or self._parts.hostname or ""
        try:
            self._context = _context(configuration) if self._parts.scheme == "https" else None
        except (OSError, ValueError) as error:
            raise ValueError(f"extenders: {self._url}: tlsConfig: {error}") from None

    async def post(self, verb: str, question: Any) -> Any:
        """The decoded answer; ExtenderError if there is none."""
        body = orjson.dumps(question)
        return await asyncio.get_running_loop().run_in_executor(None, self._posted, verb, body)

    def _posted(self, verb: str, body: bytes) -> Any:
        url = f"{self._url}/{verb}"
        call = _Call(self._parts.hostname or "", self._parts.port, self._timeout, self._context, self._server_name)
        try:
            status, answer = call.answered(f"{self._parts.path}/{verb}", body)
        except (OSError, http.client.HTTPException) as error:
            why = TOO_LATE if call.overdue or isinstance(error, TimeoutError) else _why(error, call.where)
            raise ExtenderError(f'Post "{url}": {why}') from None
        if status != http.client.OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise ExtenderError(f"the answer of the extender at {url} is no JSON: {error}") from None


class _Call:
    """A connection for one request, which is hung up when its time is over."""

    def __init__(self, host: str, port: int | None, timeout: float, context: ssl.SSLContext | None, server_name: str) -> None:
        self._connection = http.client.HTTPConnection(host, port or (443 if context else 80), timeout=timeout)
        self.where = f"{host}:{self._connection.port}"
        self._timeout = timeout
        self._context = context
        self._server_name = server_name
        self.overdue = False

    def answered(self, path: str, body: bytes) -> tuple[int, bytes]:
        deadline = threading.Timer(self._timeout, self._hang_up)
        deadline.daemon = True
        deadline.start()
        try:
            self._connection.connect()
            if self._context is not None:
                self._connection.sock = self._context.wrap_socket(self._connection.sock, server_hostname=self._server_name)
            self._connection.request("POST", path, body, HEADERS)
            response = self._connection.getresponse()
            return response.status, response.read()
        finally:
            deadline.cancel()
            self._connection.close()

    def _hang_up(self) -> None:
        self.overdue = True
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(BOTH_WAYS)


# --- whom to trust ---


def _context(configuration: ExtenderConfiguration) -> ssl.SSLContext:
    """As the configuration says; with enableHTTPS alone, everybody is trusted."""
    tls = configuration.tls
    authority = _file_or_data(tls, "ca")
    if tls.get("insecure") and authority:
        raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if tls.get("insecure") or (configuration.https and not authority):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _file_or_data(tls, "cert"), _file_or_data(tls, "key")
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _file_or_data(tls: Mapping[str, Any], what: str) -> bytes:
    if data := tls.get(f"{what}Data"):
        return base64.b64decode(data)
    if path := tls.get(f"{what}File"):
        with open(path, "rb") as file:  # noqa: PTH123  # read once, when the configuration is
            return file.read()
    return b""


def _why(error: Exception, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        words = "certificate signed by unknown authority" if error.verify_code in UNTRUSTED else error.verify_message
        return f"tls: failed to verify certificate: x509: {words}"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {where}: connect: connection refused"
    if isinstance(error, http.client.RemoteDisconnected | ssl.SSLEOFError | http.client.IncompleteRead):
        return "EOF"
    if type(error).__name__ == "gaierror":
        return f"dial tcp: lookup {where.rpartition(':')[0]}: no such host"
    return str(error)
