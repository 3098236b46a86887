"""Requests to URLs: through the API server's proxy inside the cluster, else directly.

A Service is `name.namespace`, optionally with `.svc` or `.svc.cluster.local`. A private address
may be that of a pod or a Service. Direct requests are real I/O: simulated time stands still until
the answer, and their timeout is wall time.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pytest_kscen.kube.api import MAX_ANSWER_SIZE, HttpAnswer, HttpCall
from pytest_kscen.objects.names import dns1123_label
from pytest_kscen.objects.resources import PODS, SERVICES

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Resource

PORTS = {"http": 80, "https": 443}
ADDRESS_FIELDS = ((PODS, "status.podIP"), (SERVICES, "spec.clusterIP"))
CLUSTER_SUFFIXES = (["svc"], ["svc", "cluster", "local"])
CHUNK = 64 * 1024
SHUT_RDWR = 2


class InCluster(NamedTuple):
    """Pod or Service that a URL addresses."""

    name: str
    namespace: str
    resource: Resource = SERVICES


def parts_of(url: str) -> SplitResult:
    """Split a URL; raises ValueError for one that cannot be requested."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is not a URL: write http://host/path or https://host/path")
    parts.port  # noqa: B018  # raises ValueError for a wrong port
    return parts


def service_of(host: str) -> InCluster | None:
    """Return the Service of a host name, or None if the name is not one of the cluster."""
    name, *rest = host.rstrip(".").split(".")
    if not rest or (rest[1:] and rest[1:] not in CLUSTER_SUFFIXES) or rest[0].isdecimal():
        return None
    return None if dns1123_label(name) or dns1123_label(rest[0]) else InCluster(name, rest[0])


async def send_request(api: Api, url: str, call: HttpCall, within: float) -> HttpAnswer:
    """Send the call to a URL and return the response of any status; raises OSError if there is
    none.

    The call's target is replaced by the URL's path and query.
    """
    parts = parts_of(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    call = HttpCall(call.method, target, call.headers, call.body)
    host = parts.hostname or ""
    found = service_of(host) or await _find_by_address(api, host)
    if found is None:
        return await asyncio.get_running_loop().run_in_executor(
            None, _send_directly, parts, call, within
        )
    port = parts.port or PORTS[parts.scheme]
    scheme = "https:" if parts.scheme == "https" else ""
    return await api.proxy(found.resource, f"{scheme}{found.name}:{port}", found.namespace, call)


async def _find_by_address(api: Api, host: str) -> InCluster | None:
    """Return the pod or Service with this address. Only private addresses are searched for, and no
    loopback or link-local ones.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not address.is_private or address.is_loopback or address.is_link_local:
        return None
    for resource, field in ADDRESS_FIELDS:
        for obj in (await api.list(resource, fields=f"{field}={host}")).items:
            return InCluster(obj["metadata"]["name"], obj["metadata"]["namespace"], resource)
    return None


def _send_directly(parts: SplitResult, call: HttpCall, within: float) -> HttpAnswer:
    """Send the request, for a thread pool. The connection is shut down after the timeout."""
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(
            host, port, timeout=within, context=ssl.create_default_context()
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=within)
    )
    overdue = threading.Event()

    def shut_down() -> None:
        overdue.set()
        with contextlib.suppress(OSError):
            if connection.sock is not None:
                connection.sock.shutdown(SHUT_RDWR)

    deadline = threading.Timer(within, shut_down)
    deadline.daemon = True
    deadline.start()
    try:
        connection.connect()
        if overdue.is_set():  # the timer found no socket to shut down
            raise TimeoutError
        connection.request(call.method, call.target, call.body or None, dict(call.headers))
        response = connection.getresponse()
        body = bytearray()
        while len(body) < MAX_ANSWER_SIZE and (chunk := response.read(CHUNK)):
            body += chunk
    except (OSError, http.client.HTTPException) as error:
        if overdue.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError(f"{parts.geturl()} did not answer within {within:g} s") from None
        raise ConnectionError(
            f"{parts.geturl()} does not answer: {error or type(error).__name__}"
        ) from None
    finally:
        deadline.cancel()
        connection.close()
    if overdue.is_set():  # the body may be incomplete
        raise TimeoutError(f"{parts.geturl()} did not answer within {within:g} s")
    return HttpAnswer(response.status, tuple(response.getheaders()), bytes(body))
