"""What losses and latency share: two machines, each with the other's address, and a Job on each for a stated time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pytest_kscen.chaos.blame import Power, Reach
from pytest_kscen.chaos.hands import NODE_A, NODE_B, Hands, Impossible
from pytest_kscen.chaos.troubles import LINK, VOLUME
from pytest_kscen.objects.virtualization import STOPPED, phase_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.chaos.incidents import Incident

PROFILE = "network-degrade"
LATE = 30.0  # seconds that a Job may take to start and to be seen to have ended


@dataclass(frozen=True, slots=True)
class WorseLink:
    """What is wrong between two machines while packets still pass."""

    pair: tuple[str, str]

    profile: ClassVar[str] = PROFILE
    passes: ClassVar[bool] = False

    @property
    def targets(self) -> dict[str, list[str]]:
        return {"nodes": list(self.pair), "vms": list(self.pair)}

    @property
    def reach(self) -> Reach:
        return Reach((LINK, VOLUME), self.pair[:1], self.pair[1:], power=Power.WORSENS)


class End(NamedTuple):
    """One machine of the pair."""

    side: str
    node: str
    peer: str
    peer_address: str

    def labels(self, incident: Incident) -> dict[str, str]:
        first, second = (self.node, self.peer) if self.side == "a" else (self.peer, self.node)
        return {NODE_A: first, NODE_B: second, **incident.labels}

    def job(self, incident: Incident, what: str) -> str:
        return f"chaos-{incident.id}-{what}-{self.side}"


def ends(pair: tuple[str, str], addresses: tuple[str, str]) -> Iterator[End]:
    yield End("a", pair[0], pair[1], addresses[1])
    yield End("b", pair[1], pair[0], addresses[0])


async def addresses_of(hands: Hands, pair: tuple[str, str]) -> tuple[str, str]:
    machines = await hands.must_run(pair)
    found = [str((machines[name].get("status") or {}).get("ipAddress") or "") for name in pair]
    for name, address in zip(pair, found, strict=True):
        if not address:
            raise Impossible(f"the virtual machine {name} has no address yet (status.ipAddress)")
    return found[0], found[1]


async def is_off(hands: Hands, name: str) -> bool:
    """A machine without power has forgotten its rules."""
    machine = (await hands.machines()).get(name)
    return machine is None or phase_of(machine) == STOPPED
