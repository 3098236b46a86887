"""HTTPS call of one webhook, in a thread, with a deadline on the wall clock.

Failures are reported with Go's messages. Called by dispatch; must not read cluster state.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from pytest_kscen.embedded.apiserver.admission.webhooks.review import CallError

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.admission.webhooks.configuration import WebhookAddress

RESPONSE_LIMIT = 256 * 1024 * 1024  # bytes of an answer that are read
CHUNK = 1024 * 1024
SHUT_RDWR = 2
HEADERS = {
    "User-Agent": "kube-apiserver-admission",
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
}
# by OpenSSL's error code; the placeholder is the name that the certificate has to be for
CERTIFICATE_ERRORS = {
    **dict.fromkeys((18, 19, 20, 21, 27), "certificate signed by unknown authority"),
    **dict.fromkeys((9, 10), "certificate has expired or is not yet valid"),
    62: "certificate is not valid for any names, but wanted to match {}",
    64: "cannot validate certificate for {} because it doesn't contain any IP SANs",
}
CODE_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to respond with a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request"
    ),
}
STRUCT = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string '
    r'"json:\"kind,omitempty\"" }'
)
JSON_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


def call(address: WebhookAddress, review: bytes, seconds: int) -> dict[str, Any]:
    """Post an AdmissionReview and return the decoded answer; blocks, so call it in a thread.

    `seconds` is the wall-clock limit. Raises CallError with client-go's message.
    """
    url = f"{address.url}?timeout={seconds}s"
    code, kind, body = _post(address, url, review, seconds)
    if code // 100 != 2:  # noqa: PLR2004  # success
        raise CallError(_status_message(code, kind, body))
    if not body:
        raise CallError(f"0-length response with status code: {code} and content type: {kind}")
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        answer = body.decode(errors="replace").strip()
        if answer[:1] in set('{["'):
            raise CallError(f"couldn't get version/kind; json parse error: {error.msg}") from None
    if isinstance(answer, dict):
        return answer
    found = JSON_NAMES.get(type(answer), "null")
    raise CallError(
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} "
        f"into Go value of type {STRUCT}"
    )


def _post(address: WebhookAddress, url: str, review: bytes, seconds: int) -> tuple[int, str, bytes]:
    connection = _WebhookConnection(address, seconds)
    deadline = threading.Timer(seconds, connection.hang_up)
    deadline.daemon = True
    deadline.start()
    try:
        parts = urlsplit(url)
        connection.request("POST", f"{parts.path or '/'}?{parts.query}", review, HEADERS)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), _read(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = connection.overdue or isinstance(error, TimeoutError)
        why = "context deadline exceeded" if late else _network_error(error, address)
        raise CallError(f'Post "{url}": {why}') from None
    finally:
        deadline.cancel()
        connection.close()


class _WebhookConnection(http.client.HTTPConnection):
    """TLS connection whose certificate may be for another name than the host it connects to."""

    default_port = 443

    def __init__(self, address: WebhookAddress, seconds: int) -> None:
        super().__init__(address.host, address.port, timeout=seconds)
        self._address = address
        self.overdue = False

    def connect(self) -> None:
        super().connect()
        self.sock = _context(self._address.ca_bundle).wrap_socket(
            self.sock, server_hostname=self._address.server_name
        )

    def hang_up(self) -> None:
        """Shut the socket down from another thread when the deadline has passed."""
        self.overdue = True
        with contextlib.suppress(OSError):
            if self.sock is not None:
                self.sock.shutdown(SHUT_RDWR)


@lru_cache(maxsize=64)
def _context(ca_bundle: bytes) -> ssl.SSLContext:
    """Return the TLS context for a CA bundle.

    A bundle replaces this machine's trusted authorities; an empty one leaves them in place.
    """
    return ssl.create_default_context(cadata=ca_bundle.decode() or None)


def _read(response: http.client.HTTPResponse) -> bytes:
    chunks, length = [], 0
    while chunk := response.read(CHUNK):
        chunks.append(chunk)
        length += len(chunk)
        if length > RESPONSE_LIMIT:
            raise ValueError(f"the response is larger than {RESPONSE_LIMIT} bytes")
    return b"".join(chunks)


def _network_error(error: Exception, address: WebhookAddress) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        known = CERTIFICATE_ERRORS.get(error.verify_code, "").format(address.server_name)
        return f"tls: failed to verify certificate: x509: {known or error.verify_message}"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {address.host}:{address.port}: connect: connection refused"
    if isinstance(
        error, http.client.RemoteDisconnected | ssl.SSLEOFError | http.client.IncompleteRead
    ):
        return "EOF"
    if isinstance(error, ConnectionResetError):
        return f"read tcp {address.host}:{address.port}: read: connection reset by peer"
    if type(error).__name__ == "gaierror":
        return f"dial tcp: lookup {address.host}: no such host"
    return str(error)


def _status_message(code: int, kind: str, body: bytes) -> str:
    """Return client-go's text of an error answer: the Status' message, or a text for the code."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return str(status.get("message") or "unknown")
    if code in CODE_MESSAGES:
        return CODE_MESSAGES[code]
    text = body.decode(errors="replace").strip() if kind.startswith("text/") else ""
    return (
        f"an error on the server ({orjson.dumps(text or 'unknown').decode()}) has prevented "
        "the request from succeeding"
    )
