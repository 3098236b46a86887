"""One NetworkChaos as what decides on packets: between the ends that it has selected, and those at which it aims. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.simulation.chaos_mesh.targets import SELF
from pytest_kscen.simulation.network.network import Flow, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.targets import Target

Range: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Outside(NamedTuple):
    """Addresses that were given as such, and the only port that is meant, if there is one."""

    network: Range
    port: int = 0

    def has(self, address: str, port: int) -> bool:
        return bool(address) and ipaddress.ip_address(address) in self.network and self.port in {0, port}


class End(NamedTuple):
    """Where packets come from or go to: an address, or a machine's own, which has no address here."""

    machine: str
    address: str = ""

    @property
    def name(self) -> str:
        return self.address or self.machine

    @classmethod
    def of(cls, pod: Obj) -> End | None:
        """None as long as there is nothing to put a rule on."""
        status, spec = pod.get("status") or {}, pod["spec"]
        if status.get("phase") != "Running" or not status.get("podIP"):
            return None
        return cls(spec["nodeName"], "" if spec.get("hostNetwork") else status["podIP"])


@dataclass(slots=True)
class Rule:
    """What it does to packets."""

    direction: str
    passage: Passage
    has_target: bool
    outside: tuple[Outside, ...] = ()
    ends: dict[Target, End] = field(default_factory=dict)
    _selected: frozenset[str] = frozenset()
    _aimed_at: frozenset[str] = frozenset()

    def change(self, target: Target, end: End | None) -> None:
        self.ends.pop(target, None)
        if end:
            self.ends[target] = end
        self._selected = frozenset(each.name for other, each in self.ends.items() if other.key == SELF)
        self._aimed_at = frozenset(each.name for other, each in self.ends.items() if other.key != SELF)

    def hits(self, source: End, target: End, port: int) -> bool:
        return (self.direction != "from" and self._meets(source, target, port)) or (
            self.direction != "to" and self._meets(target, source, port)
        )

    def _meets(self, here: End, there: End, port: int) -> bool:
        if here.name not in self._selected:
            return False
        if not self.has_target and not self.outside:
            return True  # all packets are meant
        return there.name in self._aimed_at or any(each.has(there.address, port) for each in self.outside)

    def flows(self, target: Target) -> list[Flow]:
        """Those by which an effect at this end shows itself; none if there is nobody at the other end."""
        here = self.ends[target]
        return [flow for there, port in self._others(target) for flow in self._both_ways(target.key, here, there, port)]

    def all_flows(self) -> list[Flow]:
        """At whichever end."""
        return [flow for target in self.ends for flow in self.flows(target)]

    def _others(self, target: Target) -> Iterator[tuple[End, int]]:
        here = self.ends[target]
        for other, there in self.ends.items():
            if other.key != target.key and there != here:
                yield there, 0
        if target.key == SELF:
            for each in self.outside:
                yield End("", str(each.network.network_address)), each.port
            if not self.has_target and not self.outside:
                yield End("", ""), 0

    def _both_ways(self, key: str, here: End, there: End, port: int) -> Iterator[Flow]:
        source, target = (here, there) if key == SELF else (there, here)
        if self.direction != "from":
            yield flow_between(source, target, port)
        if self.direction != "to":
            yield flow_between(target, source, port)


def flow_between(source: End, target: End, port: int = 0) -> Flow:
    return Flow(source.machine, target.machine, port=port, source_address=source.address, target_address=target.address)
