"""Resources and host ports: what pods request, and how much of a node is in use.

Amounts are whole numbers: thousandths of a CPU, bytes, or pieces of anything else. Used by the
scheduler and by the kubelets' admission.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.quantities import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kscen.objects.resources import Obj


Amounts = dict[str, int]


@functools.lru_cache(maxsize=4096)
def parse_amount(resource: str, quantity: str | float) -> int:
    """Return a quantity in the resource's smallest unit, rounded up. Cached, as few quantities
    occur often.
    """
    found = parse(quantity)
    return found.milli if resource == "cpu" else found.value


def parse_amounts(quantities: Mapping[str, str] | None) -> Amounts:
    """Return a resource list as whole numbers; None counts as empty."""
    return {
        resource: parse_amount(resource, quantity)
        for resource, quantity in (quantities or {}).items()
    }


def sum_amounts(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def max_amounts(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """Return the larger amount of each resource that occurs in one of the two lists."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


DEFAULT_SCORED_REQUESTS = {
    "cpu": 100,
    "memory": 200 * 1024 * 1024,
}  # of a container without requests, in scoring


class HostPort(NamedTuple):
    """Port of the node itself that a pod requests. The address 0.0.0.0 stands for all addresses
    of the node.
    """

    protocol: str
    port: int
    address: str

    def clashes(self, other: HostPort) -> bool:
        # no socket is bound
        both = (self.address, other.address)
        same = self.address == other.address or "0.0.0.0" in both  # noqa: S104
        return same and self.port == other.port and self.protocol == other.protocol


@dataclass(frozen=True, slots=True)
class PodDemand:
    """Requests and host ports of one pod, computed once. `scored` contains default requests for
    containers without any, as scoring uses them.
    """

    requests: Amounts
    scored: Amounts
    ports: tuple[HostPort, ...]


def demand_of(pod: Obj) -> PodDemand:
    """Return the demand of a pod. Pods with equal demands share one object."""
    spec = pod["spec"]
    return _interned_demand(
        tuple(_requests(spec, {}).items()),
        tuple(_requests(spec, DEFAULT_SCORED_REQUESTS).items()),
        _ports(spec),
    )


@functools.lru_cache(maxsize=4096)
def _interned_demand(
    requests: tuple[tuple[str, int], ...],
    scored: tuple[tuple[str, int], ...],
    ports: tuple[HostPort, ...],
) -> PodDemand:
    return PodDemand(dict(requests), dict(scored), ports)


def is_sidecar(container: Obj) -> bool:
    """Return True if the init container is restartable, so that it runs beside the main
    containers.
    """
    return container.get("restartPolicy") == "Always"


def _requests(spec: Obj, assumed: Amounts) -> Amounts:
    """Return the requests of a pod. They are the sum over containers and sidecars, or the peak of
    the init containers if higher.

    Each init container runs with the sidecars that were started before it.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = sum_amounts(total, _container_requests(container, assumed))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        requested = _container_requests(container, assumed)
        if is_sidecar(container):
            sidecars = sum_amounts(sidecars, requested)
            total = sum_amounts(total, requested)
            peak = max_amounts(peak, sidecars)
        else:
            peak = max_amounts(peak, sum_amounts(sidecars, requested))
    total = {
        **max_amounts(total, peak),
        **parse_amounts((spec.get("resources") or {}).get("requests")),
    }
    return sum_amounts(total, parse_amounts(spec["overhead"])) if spec.get("overhead") else total


def _container_requests(container: Obj, assumed: Amounts) -> Amounts:
    return {**assumed, **parse_amounts((container.get("resources") or {}).get("requests"))}


def _ports(spec: Obj) -> tuple[HostPort, ...]:
    sidecars = [
        container for container in spec.get("initContainers") or () if is_sidecar(container)
    ]
    return tuple(
        HostPort(
            port.get("protocol", "TCP"),
            port["hostPort"],
            port.get("hostIP") or "0.0.0.0",  # noqa: S104
        )
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """Resource of which a node has too little for one more pod, with the numbers that messages
    contain.
    """

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


@dataclass(slots=True)
class NodeUsage:
    """Sum of the demands of the pods on one node. Host ports are kept with the number of their
    users.
    """

    used: Amounts = field(default_factory=dict)
    scored: Amounts = field(default_factory=dict)
    ports: dict[HostPort, int] = field(default_factory=dict)
    pods: int = 0

    def add(self, demand: PodDemand) -> None:
        self._count(demand, 1)

    def remove(self, demand: PodDemand) -> None:
        self._count(demand, -1)

    def _count(self, demand: PodDemand, sign: int) -> None:
        self.pods += sign
        for total, part in ((self.used, demand.requests), (self.scored, demand.scored)):
            for name, number in part.items():
                total[name] = total.get(name, 0) + sign * number
        for port in demand.ports:
            self.ports[port] = self.ports.get(port, 0) + sign
            if not self.ports[port]:
                del self.ports[port]

    def shortages(self, demand: PodDemand, allocatable: Amounts) -> Iterator[InsufficientResource]:
        """Yield the resources that are insufficient for one more pod, the number of pods first."""
        if self.pods + 1 > allocatable.get("pods", 0):
            yield InsufficientResource("pods", 1, self.pods, allocatable.get("pods", 0))
        for name, requested in demand.requests.items():
            used, capacity = self.used.get(name, 0), allocatable.get(name, 0)
            if requested and requested > capacity - used:
                yield InsufficientResource(name, requested, used, capacity)

    def ports_clash(self, demand: PodDemand) -> bool:
        return any(port.clashes(taken) for port in demand.ports for taken in self.ports)


def allocatable_of(node: Obj) -> Amounts:
    """Return the allocatable resources of a node as whole numbers; the capacity if it reports
    no allocatable ones.
    """
    status = node.get("status") or {}
    return parse_amounts(status.get("allocatable") or status.get("capacity"))
