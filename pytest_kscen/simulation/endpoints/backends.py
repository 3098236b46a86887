"""The pods behind a Service: who counts, at which address and ports, and in what condition. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.workloads.podstate import is_finished, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

FAMILIES = {4: "IPv4", 6: "IPv6"}
ZONE = "topology.kubernetes.io/zone"


class Port(NamedTuple):
    """A port of a Service as one pod serves it."""

    name: str
    protocol: str
    number: int
    app: str


@dataclass(frozen=True, slots=True)
class Backend:
    """One pod behind a Service, at one address."""

    pod: Obj
    address: str
    ports: tuple[Port, ...]
    hostname: str

    @property
    def is_ready(self) -> bool:
        return is_ready(self.pod)

    @property
    def is_terminating(self) -> bool:
        return bool(self.pod["metadata"].get("deletionTimestamp"))

    @property
    def target(self) -> Obj:
        metadata = self.pod["metadata"]
        return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])


def families_of(service: Obj) -> list[str]:
    families: list[str] = service["spec"].get("ipFamilies") or ["IPv4"]
    return families


def is_headless(service: Obj) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def publishes_all(service: Obj) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def backends_of(service: Obj, pods: Iterable[Obj], family: str) -> list[Backend]:
    """In the order of their names."""
    found = []
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        address = None if is_finished(pod) else _address(pod, family)
        if address is None:
            continue
        ports = tuple(port for wanted in service["spec"].get("ports") or () if (port := _port(wanted, pod)))
        found.append(Backend(pod, address, ports, _hostname(service, pod)))
    return found


def _address(pod: Obj, family: str) -> str | None:
    status = pod.get("status") or {}
    addresses = [row["ip"] for row in status.get("podIPs") or ()] or list(filter(None, [status.get("podIP")]))
    return next((address for address in addresses if FAMILIES[ipaddress.ip_address(address).version] == family), None)


def _port(wanted: Obj, pod: Obj) -> Port | None:
    """A named target port is looked up in the pod's containers."""
    target, protocol = wanted.get("targetPort") or wanted["port"], wanted.get("protocol", "TCP")
    number = _named_port(pod, target, protocol) if isinstance(target, str) else target
    return Port(wanted.get("name", ""), protocol, number, wanted.get("appProtocol", "")) if number else None


def _named_port(pod: Obj, name: str, protocol: str) -> int | None:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _hostname(service: Obj, pod: Obj) -> str:
    spec = pod["spec"]
    return str(spec["hostname"]) if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"] else ""
