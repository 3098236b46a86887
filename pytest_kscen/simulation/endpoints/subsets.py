"""Endpoints, the older form: all addresses in one object, gathered by the ports that they serve. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.endpoints.backends import Backend, Port, is_headless, publishes_all
from pytest_kscen.simulation.endpoints.slices import HEADLESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.objects.resources import Obj

MANAGED_BY = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
MOST = 1000
TRUNCATED = {"endpoints.kubernetes.io/over-capacity": "truncated"}


def labels_of(service: Obj) -> dict[str, str]:
    own = service["metadata"].get("labels") or {}
    return {**own, **MANAGED_BY, **({HEADLESS: ""} if is_headless(service) else {})}


def subsets_of(service: Obj, backends: list[Backend]) -> list[Obj]:
    """Ports that lead to the same addresses share a subset; None stands for no port, if the Service has none."""
    by_port: dict[Port | None, list[Backend]] = {}
    portless = () if service["spec"].get("ports") else (None,)
    for backend in backends:
        if publishes_all(service) or not backend.is_terminating:
            for port in backend.ports or portless:
                by_port.setdefault(port, []).append(backend)
    by_backends: dict[tuple[str, ...], list[Port | None]] = {}
    for port in sorted(by_port, key=lambda port: port or ()):
        by_backends.setdefault(tuple(backend.uid for backend in by_port[port]), []).append(port)
    return [_subset(service, by_port[ports[0]], ports) for ports in by_backends.values()]


def addresses_of(subsets: Iterable[Obj]) -> list[Obj]:
    """All of them, ready or not, with the list that each is in."""
    lists = ("addresses", "notReadyAddresses")
    return [{**address, "in": name} for subset in subsets for name in lists for address in subset.get(name) or ()]


def limited(backends: list[Backend]) -> list[Backend]:
    """As many as one object may hold, the ready ones first."""
    return sorted(backends, key=lambda backend: not backend.is_ready)[:MOST] if len(backends) > MOST else backends


def _subset(service: Obj, backends: list[Backend], ports: list[Port | None]) -> Obj:
    ready = [backend for backend in backends if backend.is_ready or publishes_all(service)]
    unready = [_address(backend) for backend in backends if backend not in ready]
    return {
        **({"addresses": [_address(backend) for backend in ready]} if ready else {}),
        **({"notReadyAddresses": unready} if unready else {}),
        **({"ports": list(_printed(ports))} if ports[0] else {}),
    }


def _address(backend: Backend) -> Obj:
    node = backend.pod["spec"].get("nodeName")
    return {
        "ip": backend.address,
        **({"hostname": backend.hostname} if backend.hostname else {}),
        **({"nodeName": node} if node else {}),
        "targetRef": backend.target,
    }


def _printed(ports: list[Port | None]) -> Iterator[Obj]:
    for port in filter(None, ports):
        name, app = ({"name": port.name} if port.name else {}), ({"appProtocol": port.app} if port.app else {})
        yield {**name, "port": port.number, "protocol": port.protocol, **app}
