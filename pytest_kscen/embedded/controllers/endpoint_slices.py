"""Compute the EndpointSlices of a Service: at most 100 endpoints each, with few writes.

Pure functions, called by `endpoints.EndpointSlices`, which writes the result. An endpoint stays in
the slice in which it is.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.controllers.ownership import reference_to
from pytest_kscen.embedded.controllers.pod_state import is_finished, is_ready
from pytest_kscen.objects.resources import ENDPOINT_SLICES, SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.objects.resources import Obj


FAMILIES = {4: "IPv4", 6: "IPv6"}
ZONE = "topology.kubernetes.io/zone"


class EndpointPort(NamedTuple):
    """Port of a Service as one pod serves it. The number may come from a named container port,
    so pods of one Service can differ.
    """

    name: str
    protocol: str
    number: int
    app: str


@dataclass(frozen=True, slots=True)
class ServiceBackend:
    """Pod behind a Service at one address, with the ports that it serves for that Service.

    `hostname` is empty unless the pod's subdomain is the Service, which gives it a DNS name of its
    own.
    """

    pod: Obj
    address: str
    ports: tuple[EndpointPort, ...]
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
        return {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }

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


def backends_of(service: Obj, pods: Iterable[Obj], family: str) -> list[ServiceBackend]:
    """Return the backends of a Service in one IP family, ordered by pod name.

    Finished pods and pods without an address of the family are left out. `pods` are the pods that
    the Service selects.
    """
    found = []
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        if is_finished(pod):
            continue
        status, spec = pod.get("status") or {}, pod["spec"]
        addresses = [row["ip"] for row in status.get("podIPs") or ()] or list(
            filter(None, [status.get("podIP")])
        )
        fitting = (ip for ip in addresses if FAMILIES[ipaddress.ip_address(ip).version] == family)
        address = next(fitting, None)
        if address is None:
            continue
        ports = tuple(
            port for wanted in service["spec"].get("ports") or () if (port := _port(wanted, pod))
        )
        found.append(
            ServiceBackend(
                pod,
                address,
                ports,
                str(spec["hostname"])
                if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
                else "",
            )
        )
    return found


def _port(wanted: Obj, pod: Obj) -> EndpointPort | None:
    """Return the port that a pod serves for a Service port, or None.

    A named target port is looked up in the pod's containers, by name and protocol.
    """
    target, protocol = wanted.get("targetPort") or wanted["port"], wanted.get("protocol", "TCP")
    if isinstance(target, str):
        numbers = (
            int(port["containerPort"])
            for container in pod["spec"].get("containers") or ()
            for port in container.get("ports") or ()
            if port.get("name") == target and port.get("protocol", "TCP") == protocol
        )
        number = next(numbers, None)
    else:
        number = target
    return (
        EndpointPort(wanted.get("name", ""), protocol, number, wanted.get("appProtocol", ""))
        if number
        else None
    )


MAX_ENDPOINTS = 100
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"


@dataclass(slots=True)
class SliceChanges:
    """Writes that bring the slices of one Service and one IP family up to date. They are to be
    applied in this order: create, update, delete.
    """

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SliceTarget:
    """Service in one IP family for which slices are computed. `zones` maps each node with one
    of its backends to its zone.
    """

    service: Obj
    family: str
    zones: Mapping[str, str] = field(default_factory=dict)


def slice_changes(
    wanted: SliceTarget, backends: list[ServiceBackend], existing: list[Obj]
) -> SliceChanges:
    """Return the writes that turn the existing slices into the wanted ones.

    A Service without backends keeps one empty slice. A slice that would be deleted is reused for
    one that would be created, so that most changes are updates.
    """
    groups: dict[tuple[EndpointPort, ...], dict[str, Obj]] = {}
    for backend in backends:
        node = backend.pod["spec"].get("nodeName")
        ready = publishes_all(wanted.service) or (backend.is_ready and not backend.is_terminating)
        endpoint: dict[str, Any] = {
            "addresses": [backend.address],
            "conditions": {
                "ready": ready,
                "serving": backend.is_ready,
                "terminating": backend.is_terminating,
            },
            "targetRef": backend.target,
            **({"hostname": backend.hostname} if backend.hostname else {}),
            **({"nodeName": node} if node else {}),
            **({"zone": wanted.zones[node]} if node in wanted.zones else {}),
        }
        groups.setdefault(backend.ports, {})[backend.uid] = endpoint
    groups = groups or {(): {}}
    found, unmatched = (
        SliceChanges(),
        sorted(existing, key=lambda one: str(one["metadata"]["name"])),
    )
    for ports, endpoints in groups.items():
        port_objects = [
            {
                "name": port.name,
                "protocol": port.protocol,
                "port": port.number,
                **({"appProtocol": port.app} if port.app else {}),
            }
            for port in ports
        ]
        matching = [one for one in unmatched if (one.get("ports") or []) == port_objects]
        unmatched = [one for one in unmatched if one not in matching]
        _fill(found, wanted, port_objects, endpoints, matching)
    found.delete += unmatched
    # Reuse slices: one update instead of a deletion and a creation.
    while found.create and found.delete:
        new, old = found.create.pop(0), found.delete.pop(0)
        metadata = {**old["metadata"], "labels": new["metadata"]["labels"]}
        found.update.append(
            {**old, "metadata": metadata, "endpoints": new["endpoints"], "ports": new["ports"]}
        )
    return found


def _fill(
    found: SliceChanges,
    wanted: SliceTarget,
    ports: list[Obj],
    endpoints: dict[str, Obj],
    slices: list[Obj],
) -> None:
    """Distribute the endpoints of one set of ports over the slices that have these ports.

    Endpoints stay where they are, new ones fill free places, and the rest goes to new slices.
    Appends the writes to `found`.
    """
    waiting = dict(endpoints)
    parts: list[tuple[Obj | None, list[Obj]]] = []
    for one in slices:
        uids = [
            (endpoint.get("targetRef") or {}).get("uid") for endpoint in one.get("endpoints") or ()
        ]
        parts.append((one, [waiting.pop(uid) for uid in uids if uid in waiting]))
    for _, kept in parts:
        while waiting and len(kept) < MAX_ENDPOINTS:
            kept.append(waiting.pop(next(iter(waiting))))
    rest = list(waiting.values())
    parts += [
        (None, rest[start : start + MAX_ENDPOINTS]) for start in range(0, len(rest), MAX_ENDPOINTS)
    ]
    if not parts:
        parts = [(None, [])]
    service, labels = wanted.service, labels_of(wanted.service)
    for place, (existing, kept) in enumerate(parts):
        if existing is None:
            metadata = service["metadata"]
            found.create.append(
                {
                    "apiVersion": ENDPOINT_SLICES.api_version,
                    "kind": ENDPOINT_SLICES.kind,
                    "metadata": {
                        "generateName": f"{metadata['name']}-",
                        "namespace": metadata["namespace"],
                        "labels": labels,
                        "ownerReferences": [reference_to(service, SERVICES)],
                    },
                    "addressType": wanted.family,
                    "endpoints": kept or None,
                    "ports": ports or None,
                }
            )
        elif not kept and (endpoints or place):
            found.delete.append(existing)
        else:
            renewed = {**existing, "metadata": {**existing["metadata"], "labels": labels}}
            if (existing.get("endpoints") or []) != kept or (existing.get("ports") or []) != ports:
                renewed |= {"endpoints": kept or None, "ports": ports or None}
            if renewed != existing:
                found.update.append(renewed)


def labels_of(service: Obj) -> dict[str, str]:
    own = service["metadata"].get("labels") or {}
    headless = {HEADLESS: ""} if is_headless(service) else {}
    return {**own, MANAGED_BY: MANAGER, SERVICE_NAME: service["metadata"]["name"], **headless}


def zone_of(node: Obj) -> str:
    return (node["metadata"].get("labels") or {}).get(ZONE) or ""
