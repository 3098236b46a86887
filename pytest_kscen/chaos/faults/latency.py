"""The link between two machines is loaded until packets have to wait: iperf3 on each pushes what it can to the other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.pairs import LATE, End, WorseLink, addresses_of, ends
from pytest_kscen.chaos.jobs import DAY, DEADLINE, completes, discard, job, log_of
from pytest_kscen.chaos.scripts import load_link, pushed_bytes
from pytest_kscen.objects.resources import JOBS

if TYPE_CHECKING:
    from pytest_kscen.chaos.hands import Hands
    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.objects.resources import Obj

LOADED = 100e6  # bits per second, a tenth of the slowest link that storage is replicated over: less is no load


@dataclass(frozen=True, slots=True)
class Latency(WorseLink):
    """For this many seconds; without a time, until it is told to end."""

    seconds: float | None = None
    addresses: tuple[str, str] = ("", "")

    variant: ClassVar[str] = "latency"

    async def aim(self, hands: Hands) -> Latency:
        return dataclasses.replace(self, addresses=await addresses_of(hands, self.pair))

    async def inject(self, incident: Incident) -> None:
        for end in ends(self.pair, self.addresses):
            await incident.put(incident.hands.nested, JOBS, self.loading(incident, end), end.node)

    async def heal(self, incident: Incident) -> None:
        actor = incident.hands.nested
        for end in ends(self.pair, self.addresses):
            name = end.job(incident, "load")
            if end.node in incident.parts_done or end.node not in incident.answers:
                continue
            rest = incident.started_at + (self.seconds or DAY) - incident.journal.now
            if rest <= LATE / 2:
                await completes(actor, name, max(0.0, rest) + DEADLINE + LATE)
            self._judge(incident, end, pushed_bytes(await log_of(actor, name)) or 0)
            incident.parts_done.append(end.node)
        await discard(actor, incident.id)

    def _judge(self, incident: Incident, end: End, pushed: int) -> None:
        """By the mean of all its time, so that what came late or with interruptions has to make up for it."""
        lasted = min(self.seconds or DAY, incident.journal.now - incident.started_at)
        rate = pushed * 8 / lasted if lasted else 0.0
        if rate >= LOADED:
            incident.has_effect(f"{end.node} pushed {rate / 1e6:.0f} Mbit/s to {end.peer}")
        else:
            incident.note("not-loaded", node=end.node, peer=end.peer, bits_per_second=round(rate))

    def loading(self, incident: Incident, end: End) -> Obj:
        seconds = self.seconds or DAY
        script = load_link(end.peer_address, seconds)
        return job(end.job(incident, "load"), end.node, script, seconds, end.labels(incident))
