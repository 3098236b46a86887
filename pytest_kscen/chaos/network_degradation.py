"""Faults of network-degrade: packet losses, and a loaded link, between two machines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pytest_kscen.chaos.clients import (
    DEADLINE,
    LONGEST_JOB,
    MARK,
    NODE_A,
    NODE_B,
    ClusterClients,
    FaultImpossible,
    add_rule,
    delete_jobs,
    dropped_packets,
    job,
    load_link,
    log_of,
    pushed_bytes,
    remove_rule,
    replace_object,
    sweep_node,
    wait_for_job,
)
from pytest_kscen.chaos.incidents import draw_variant
from pytest_kscen.chaos.profiles import LATENCY, LOSSES, PAIR, NetworkDegrade
from pytest_kscen.chaos.troubles import LINK, VOLUME, ExplanatoryPower, Reach
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.objects.virtualization import STOPPED, phase_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.objects.resources import Obj


JOB_DELAY = 30.0  # seconds that a Job may take to start and to be seen to have ended


@dataclass(frozen=True, slots=True)
class DegradedLink:
    """Degradation of the network between two machines while packets still pass."""

    pair: tuple[str, str]

    profile: ClassVar[str] = NetworkDegrade.name
    passes: ClassVar[bool] = False

    @property
    def targets(self) -> dict[str, list[str]]:
        return {"nodes": list(self.pair), "vms": list(self.pair)}

    @property
    def reach(self) -> Reach:
        return Reach((LINK, VOLUME), self.pair[:1], self.pair[1:], power=ExplanatoryPower.DEGRADES)


class LinkEnd(NamedTuple):
    """End of the link: one machine of the pair."""

    side: str
    node: str
    peer: str
    peer_address: str

    def labels(self, incident: Incident) -> dict[str, str]:
        first, second = (self.node, self.peer) if self.side == "a" else (self.peer, self.node)
        return {NODE_A: first, NODE_B: second, **incident.labels}

    def job(self, incident: Incident, what: str) -> str:
        return f"chaos-{incident.id}-{what}-{self.side}"


def link_ends(pair: tuple[str, str], addresses: tuple[str, str]) -> Iterator[LinkEnd]:
    yield LinkEnd("a", pair[0], pair[1], addresses[1])
    yield LinkEnd("b", pair[1], pair[0], addresses[0])


async def addresses_of(clients: ClusterClients, pair: tuple[str, str]) -> tuple[str, str]:
    machines = await clients.must_run(pair)
    found = [str((machines[name].get("status") or {}).get("ipAddress") or "") for name in pair]
    for name, address in zip(pair, found, strict=True):
        if not address:
            raise FaultImpossible(
                f"the virtual machine {name} has no address yet (status.ipAddress)"
            )
    return found[0], found[1]


async def is_off(clients: ClusterClients, name: str) -> bool:
    """Return True if the machine is off, and its rules with it."""
    machine = (await clients.machines()).get(name)
    return machine is None or phase_of(machine) == STOPPED


@dataclass(frozen=True, slots=True)
class PacketLoss(DegradedLink):
    """Loss of a share of the packets, for `seconds`, or until it is undone if None."""

    loss: float
    seconds: float | None = None
    addresses: tuple[str, str] = ("", "")

    variant: ClassVar[str] = LOSSES

    async def aim(self, clients: ClusterClients) -> PacketLoss:
        return dataclasses.replace(self, addresses=await addresses_of(clients, self.pair))

    async def inject(self, incident: Incident) -> None:
        actor, both = incident.clients.nested, list(link_ends(self.pair, self.addresses))
        for end in both:
            await incident.put(actor, JOBS, self.add_job(incident, end), end.node)
        if self.seconds is not None:
            for end in both:
                await replace_object(
                    actor, JOBS, self.remove_job(incident, end, "del", self.seconds)
                )
        for end in both:
            if not await wait_for_job(actor, end.job(incident, "add"), JOB_DELAY):
                raise TimeoutError(
                    f"the rule was not installed on {end.node} within {JOB_DELAY:g} s"
                )

    async def heal(self, incident: Incident) -> None:
        for end in link_ends(self.pair, self.addresses):
            if end.node in incident.answers and end.node not in incident.parts_done:
                if await is_off(incident.clients, end.node):
                    incident.note("rule-gone-with-its-machine", node=end.node)
                else:
                    actor = incident.clients.nested
                    lost = await self._wait_for_removal(incident, end)
                    if lost is None:
                        await delete_jobs(actor, incident.id, f"-{end.side}")
                        await sweep_node(
                            actor,
                            end.job(incident, "sweep"),
                            end.node,
                            MARK + end.job(incident, "add"),
                            end.labels(incident),
                        )
                    elif lost:
                        incident.has_effect(f"{end.node} lost {lost} packets from {end.peer}")
                incident.parts_done.append(end.node)
        await delete_jobs(incident.clients.nested, incident.id)

    async def _wait_for_removal(self, incident: Incident, end: LinkEnd) -> int | None:
        """Wait for the rule's deletion and return its dropped packets; None if that is unknown."""
        actor, step = incident.clients.nested, "del"
        remaining = (
            0.0
            if self.seconds is None
            else incident.started_at + self.seconds - incident.journal.now
        )
        if self.seconds is None or remaining > JOB_DELAY / 2:
            await delete_jobs(actor, incident.id, end.job(incident, "del"))
            step, remaining = "end", 0.0
            await replace_object(actor, JOBS, self.remove_job(incident, end, step, 0))
        if not await wait_for_job(
            actor, end.job(incident, step), max(0.0, remaining) + DEADLINE + JOB_DELAY
        ):
            return None
        return dropped_packets(await log_of(actor, end.job(incident, step)))

    def add_job(self, incident: Incident, end: LinkEnd) -> Obj:
        """Return the Job that adds the rule. The Job exists at least as long as the rule."""
        name = end.job(incident, "add")
        return self._job(
            incident,
            end,
            name,
            add_rule(name, end.peer_address, self.loss),
            self.seconds or LONGEST_JOB,
        )

    def remove_job(self, incident: Incident, end: LinkEnd, step: str, after: float) -> Obj:
        script = remove_rule(end.job(incident, "add"), end.peer_address, self.loss, after)
        return self._job(incident, end, end.job(incident, step), script, after or JOB_DELAY)

    def _job(self, incident: Incident, end: LinkEnd, name: str, script: str, seconds: float) -> Obj:
        return job(name, end.node, script, seconds, end.labels(incident))


# bits per second: a tenth of the slowest link between storage nodes
MIN_LOAD = 100e6


@dataclass(frozen=True, slots=True)
class LinkLoad(DegradedLink):
    """Load on the link between two machines, for `seconds`, or until it is undone if None."""

    seconds: float | None = None
    addresses: tuple[str, str] = ("", "")

    variant: ClassVar[str] = LATENCY

    async def aim(self, clients: ClusterClients) -> LinkLoad:
        return dataclasses.replace(self, addresses=await addresses_of(clients, self.pair))

    async def inject(self, incident: Incident) -> None:
        for end in link_ends(self.pair, self.addresses):
            await incident.put(
                incident.clients.nested, JOBS, self.load_job(incident, end), end.node
            )

    async def heal(self, incident: Incident) -> None:
        actor = incident.clients.nested
        for end in link_ends(self.pair, self.addresses):
            name = end.job(incident, "load")
            if end.node in incident.parts_done or end.node not in incident.answers:
                continue
            remaining = incident.started_at + (self.seconds or LONGEST_JOB) - incident.journal.now
            if remaining <= JOB_DELAY / 2:
                await wait_for_job(actor, name, max(0.0, remaining) + DEADLINE + JOB_DELAY)
            # The mean rate of the whole time: a late start or an interruption lowers it.
            pushed = pushed_bytes(await log_of(actor, name)) or 0
            lasted = min(self.seconds or LONGEST_JOB, incident.journal.now - incident.started_at)
            rate = pushed * 8 / lasted if lasted else 0.0
            if rate >= MIN_LOAD:
                incident.has_effect(f"{end.node} pushed {rate / 1e6:.0f} Mbit/s to {end.peer}")
            else:
                incident.note(
                    "not-loaded", node=end.node, peer=end.peer, bits_per_second=round(rate)
                )
            incident.parts_done.append(end.node)
        await delete_jobs(actor, incident.id)

    def load_job(self, incident: Incident, end: LinkEnd) -> Obj:
        seconds = self.seconds or LONGEST_JOB
        script = load_link(end.peer_address, seconds)
        return job(end.job(incident, "load"), end.node, script, seconds, end.labels(incident))


async def draw_degradation(
    profile: NetworkDegrade, clients: ClusterClients, seconds: float
) -> PacketLoss | LinkLoad:
    """Draw the fault of the profile's next incident, which lasts for `seconds`."""
    chance = clients.nested.chance
    machines = chance.shuffled(list(await clients.machines()))
    if len(machines) < PAIR:
        raise FaultImpossible(
            f"{profile.name} needs {PAIR} virtual machines, and there are {len(machines)}"
        )
    pair = machines[0], machines[1]
    if draw_variant(chance, profile.variants, profile.weights) == LOSSES:
        return PacketLoss(pair, profile.loss, seconds)
    return LinkLoad(pair, seconds)
