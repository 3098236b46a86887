"""Asking a URL. One in the cluster is asked through the API server's proxy, which every cluster
has; any other directly.

A Service is `name.namespace`, with `.svc` and `.svc.cluster.local` after it if one likes; a private
address may be that of a pod or of a Service. Direct questions are real input and output: simulated
time stands still until there is an answer, and their time-out is the wall's."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pytest_kscen.kube.api import LARGEST_ANSWER, HttpAnswer, HttpCall
from pytest_kscen.objects.names import dns1123_label
from pytest_kscen.objects.resources import PODS, SERVICES

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Resource

PORTS = {"http": 80, "https": 443}
ADDRESSES = ((PODS, "status.podIP"), (SERVICES, "spec.clusterIP"))
WITHIN = (["svc"], ["svc", "cluster", "local"])
CHUNK = 64 * 1024
BOTH_WAYS = 2


class InCluster(NamedTuple):
    """Whom a URL names."""

    name: str
    namespace: str
    resource: Resource = SERVICES


def parts_of(url: str) -> SplitResult:
    """Refuses what is no URL that can be asked (ValueError)."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is no URL to ask: write http://host/path or https://host/path")
    parts.port  # noqa: B018  # a wrong one is refused when it is looked at
    return parts


def service_of(host: str) -> InCluster | None:
    """The Service that a host's name means, if it is one in the cluster."""
    name, *rest = host.rstrip(".").split(".")
    if not rest or (rest[1:] and rest[1:] not in WITHIN) or rest[0].isdecimal():
        return None
    return None if dns1123_label(name) or dns1123_label(rest[0]) else InCluster(name, rest[0])


async def ask(api: Api, url: str, call: HttpCall, within: float) -> HttpAnswer:
    """Whatever the answer's status is, it is one; that there is none is an OSError.

    The call's target comes from the URL.
    """
    parts = parts_of(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    call = HttpCall(call.method, target, call.headers, call.body)
    host = parts.hostname or ""
    found = service_of(host) or await _at_address(api, host)
    if found is None:
        return await asyncio.get_running_loop().run_in_executor(None, _asked, parts, call, within)
    port = parts.port or PORTS[parts.scheme]
    scheme = "https:" if parts.scheme == "https" else ""
    return await api.proxy(found.resource, f"{scheme}{found.name}:{port}", found.namespace, call)


async def _at_address(api: Api, host: str) -> InCluster | None:
    """The pod or the Service with this address; nobody asks for public ones, and for what is on
    this machine.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not address.is_private or address.is_loopback or address.is_link_local:
        return None
    for resource, field in ADDRESSES:
        for obj in (await api.list(resource, fields=f"{field}={host}")).items:
            return InCluster(obj["metadata"]["name"], obj["metadata"]["namespace"], resource)
    return None


def _asked(parts: SplitResult, call: HttpCall, within: float) -> HttpAnswer:
    """In a thread; the connection is cut when the time is over, whatever it waits for."""
    connection = _connection(parts, within)
    overdue = threading.Event()

    def hang_up() -> None:
        overdue.set()
        with contextlib.suppress(OSError):
            if connection.sock is not None:
                connection.sock.shutdown(BOTH_WAYS)

    deadline = threading.Timer(within, hang_up)
    deadline.daemon = True
    deadline.start()
    try:
        connection.connect()
        if overdue.is_set():  # there was nothing to hang up yet
            raise TimeoutError
        connection.request(call.method, call.target, call.body or None, dict(call.headers))
        response = connection.getresponse()
        body = _read(response)
    except (OSError, http.client.HTTPException) as error:
        if overdue.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError(f"{parts.geturl()} did not answer within {within:g} s") from None
        raise ConnectionError(
            f"{parts.geturl()} does not answer: {error or type(error).__name__}"
        ) from None
    finally:
        deadline.cancel()
        connection.close()
    if overdue.is_set():  # what was read may have been cut short
        raise TimeoutError(f"{parts.geturl()} did not answer within {within:g} s")
    return HttpAnswer(response.status, tuple(response.getheaders()), body)


def _connection(parts: SplitResult, within: float) -> http.client.HTTPConnection:
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=within, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, port, timeout=within)


def _read(response: http.client.HTTPResponse) -> bytes:
    chunks, length = [], 0
    while length < LARGEST_ANSWER and (chunk := response.read(CHUNK)):
        chunks.append(chunk)
        length += len(chunk)
    return b"".join(chunks)
