"""Packets between two machines are lost by chance: a rule of iptables on each, brought by one Job and taken away by another.

The Job that takes the rule away tells how many packets it has lost. What it has not taken away is swept.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.pairs import LATE, End, WorseLink, addresses_of, ends, is_off
from pytest_kscen.chaos.hands import put
from pytest_kscen.chaos.jobs import DAY, DEADLINE, completes, discard, job, log_of
from pytest_kscen.chaos.scripts import MARK, add_rule, dropped_packets, remove_rule
from pytest_kscen.chaos.sweeping import sweep
from pytest_kscen.objects.resources import JOBS

if TYPE_CHECKING:
    from pytest_kscen.chaos.hands import Hands
    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.objects.resources import Obj


@dataclass(frozen=True, slots=True)
class Losses(WorseLink):
    """This share of the packets, for this many seconds; without a time, until it is told to end."""

    loss: float
    seconds: float | None = None
    addresses: tuple[str, str] = ("", "")

    variant: ClassVar[str] = "losses"

    async def aim(self, hands: Hands) -> Losses:
        return dataclasses.replace(self, addresses=await addresses_of(hands, self.pair))

    async def inject(self, incident: Incident) -> None:
        actor, both = incident.hands.nested, list(ends(self.pair, self.addresses))
        for end in both:
            await incident.put(actor, JOBS, self.adding(incident, end), end.node)
        if self.seconds is not None:
            for end in both:
                await put(actor, JOBS, self.removing(incident, end, "del", self.seconds))
        for end in both:
            if not await completes(actor, end.job(incident, "add"), LATE):
                raise TimeoutError(f"the rule did not come to {end.node} within {LATE:g} s")

    async def heal(self, incident: Incident) -> None:
        for end in ends(self.pair, self.addresses):
            if end.node in incident.answers and end.node not in incident.parts_done:
                if await is_off(incident.hands, end.node):
                    incident.note("rule-gone-with-its-machine", node=end.node)
                else:
                    await self._take_away(incident, end)
                incident.parts_done.append(end.node)
        await discard(incident.hands.nested, incident.id)

    async def _take_away(self, incident: Incident, end: End) -> None:
        actor = incident.hands.nested
        lost = await self._removed(incident, end)
        if lost is None:
            await discard(actor, incident.id, f"-{end.side}")
            await sweep(actor, end.job(incident, "sweep"), end.node, MARK + end.job(incident, "add"), end.labels(incident))
        elif lost:
            incident.has_effect(f"{end.node} lost {lost} packets from {end.peer}")

    async def _removed(self, incident: Incident, end: End) -> int | None:
        """How many packets the rule has lost, once it is gone; None if nobody can tell."""
        actor, step = incident.hands.nested, "del"
        rest = 0.0 if self.seconds is None else incident.started_at + self.seconds - incident.journal.now
        if self.seconds is None or rest > LATE / 2:
            await discard(actor, incident.id, end.job(incident, "del"))
            step, rest = "end", 0.0
            await put(actor, JOBS, self.removing(incident, end, step, 0))
        if not await completes(actor, end.job(incident, step), max(0.0, rest) + DEADLINE + LATE):
            return None
        return dropped_packets(await log_of(actor, end.job(incident, step)))

    def adding(self, incident: Incident, end: End) -> Obj:
        """It is there as long as its rule may be, and tells whoever comes after us where that is."""
        name = end.job(incident, "add")
        return self._job(incident, end, name, add_rule(name, end.peer_address, self.loss), self.seconds or DAY)

    def removing(self, incident: Incident, end: End, step: str, after: float) -> Obj:
        script = remove_rule(end.job(incident, "add"), end.peer_address, self.loss, after)
        return self._job(incident, end, end.job(incident, step), script, after or LATE)

    def _job(self, incident: Incident, end: End, name: str, script: str, seconds: float) -> Obj:
        return job(name, end.node, script, seconds, end.labels(incident))


def valid_loss(loss: object) -> None:
    if isinstance(loss, bool) or not isinstance(loss, int | float) or not 0 <= loss <= 1:
        raise ValueError(f"loss={loss!r}: give the share of packets that get lost, from 0 to 1: 0.05 is 5 %")
