"""The network's life: filters join it, say when they have changed their mind, and whoever lives by it looks again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.simulation.kubelet.machines import Machine, Machines


@dataclass(frozen=True, slots=True)
class Flow:
    """Packets of one kind: from one machine to a port of another. Those of pods carry these pods' addresses."""

    source: str
    target: str
    protocol: str = "TCP"
    port: int = 0
    source_address: str = ""
    target_address: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of a flow's packets."""

    blocked: bool = False
    """All of them vanish, and nobody is told."""
    loss: float = 0.0
    """The share that vanishes by chance."""
    delay: float = 0.0
    """Seconds that each takes longer."""
    load: float = 0.0
    """The share of the link's capacity that others use."""

    def covers(self, other: Passage) -> bool:
        """Whether the packets are treated at least as badly."""
        return self.blocked or (
            not other.blocked and self.loss >= other.loss and self.delay >= other.delay and self.load >= other.load
        )

    def also(self, other: Passage) -> Passage:
        """Both one after the other."""
        return Passage(
            self.blocked or other.blocked,
            1 - (1 - self.loss) * (1 - other.loss),
            self.delay + other.delay,
            min(1.0, self.load + other.load),
        )


OUTSIDE = ""
"""In place of a machine's name: whoever is none of them, such as the API server."""
OPEN = Passage()
BLOCKED = Passage(blocked=True)
Filter = Callable[[Flow], Passage]


class Network:
    """All links between a cluster's machines."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._filters: list[Filter] = []
        self._listeners: list[Callable[[], None]] = []
        machines.on_change(self._machine_changed)

    def join(self, packet_filter: Filter) -> None:
        """From now on this filter has a say on every flow."""
        self._filters.append(packet_filter)
        self.changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Tell of every change that may be one for some flow."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """A filter has changed its mind."""
        for listener in self._listeners:
            listener()

    def passage(self, flow: Flow, *, apart_from: Filter | None = None) -> Passage:
        """What all filters make of it, or all but one."""
        machines = [name for name in (flow.source, flow.target) if name != OUTSIDE]
        if not all(name in self._machines and self._machines[name].powered for name in machines):
            return BLOCKED
        passage = OPEN
        for packet_filter in self._filters:
            if packet_filter != apart_from and (found := packet_filter(flow)) is not OPEN:
                passage = passage.also(found)
        return passage

    def _machine_changed(self, _: Machine) -> None:
        self.changed()
