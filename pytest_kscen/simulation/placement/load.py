"""What a node has promised to its pods, and what it still can."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.amounts import Amounts, amounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.placement.demand import Demand, HostPort


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which there is not enough."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


@dataclass(slots=True)
class Load:
    """The sum of the demands on one node."""

    used: Amounts = field(default_factory=dict)
    scored: Amounts = field(default_factory=dict)
    ports: dict[HostPort, int] = field(default_factory=dict)
    pods: int = 0

    def add(self, demand: Demand) -> None:
        self._count(demand, 1)

    def remove(self, demand: Demand) -> None:
        self._count(demand, -1)

    def _count(self, demand: Demand, sign: int) -> None:
        self.pods += sign
        for total, part in ((self.used, demand.requests), (self.scored, demand.scored)):
            for name, number in part.items():
                total[name] = total.get(name, 0) + sign * number
        for port in demand.ports:
            self.ports[port] = self.ports.get(port, 0) + sign
            if not self.ports[port]:
                del self.ports[port]

    def shortages(self, demand: Demand, allocatable: Amounts) -> Iterator[Shortage]:
        """What is lacking for one more pod."""
        if self.pods + 1 > allocatable.get("pods", 0):
            yield Shortage("pods", 1, self.pods, allocatable.get("pods", 0))
        for name, asked in demand.requests.items():
            used, capacity = self.used.get(name, 0), allocatable.get(name, 0)
            if asked and asked > capacity - used:
                yield Shortage(name, asked, used, capacity)

    def ports_clash(self, demand: Demand) -> bool:
        return any(port.clashes(taken) for port in demand.ports for taken in self.ports)


def allocatable_of(node: Obj) -> Amounts:
    """What a node has to give."""
    status = node.get("status") or {}
    return amounts(status.get("allocatable") or status.get("capacity"))
