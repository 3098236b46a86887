"""vm-reboter: restarts machines the hard way, one after the other, and does not wait for them to come back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.machines import PROFILE, Reboot
from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.incidents import PASSING, cause
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.recurring import ended, skipped
from pytest_kscen.objects.numbers import valid_range
from pytest_kscen.objects.virtualization import FINISHED, VIRTUAL_MACHINE_OPERATIONS, phase_of

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Stage

NAME = "chaos-vm-reboter"
PERIOD = (60.0, 300.0)
FLOOR = 300.0  # seconds: a machine that boots longer than that is not to be restarted all the time
INSTEAD = (300.0, 360.0)


@dataclass(frozen=True, slots=True)
class VmReboot:
    """How often, in seconds: from one to five minutes, and never below five; a period that was asked for is taken as it is."""

    period: tuple[float, float] | None = None

    profile: ClassVar[str] = PROFILE

    def __post_init__(self) -> None:
        if self.period is not None:
            valid_range("period", self.period)

    @property
    def soonest(self) -> float:
        return self.period[0] if self.period else FLOOR

    @property
    def is_hasty(self) -> bool:
        return self.period is not None and self.period[0] < FLOOR

    def needs_machines(self) -> int:
        return 1

    async def run(self, stage: Stage, stop: Signal) -> None:
        hands = Hands.of(stage, stage.one_more(NAME))
        if self.is_hasty:
            hands.nested.log(logging.WARNING, "restarts more often than every five minutes, as asked", period=self.period)
        async with Observer.of(stage).held(), asyncio.TaskGroup() as returns:
            while not await stop.within(self.pause(hands.nested.chance)):
                try:
                    incident = await self._reboot(stage, hands)
                except PASSING as error:
                    skipped(hands.nested, self.profile, error)
                else:
                    returns.create_task(ended(incident), name=f"return of {incident.id}")

    def pause(self, chance: Stream) -> float:
        drawn = chance.between(*(self.period or PERIOD))
        return chance.between(*INSTEAD) if self.period is None and drawn < FLOOR else drawn

    async def _reboot(self, stage: Stage, hands: Hands) -> Incident:
        machines = hands.nested.chance.shuffled(list(await hands.machines()))
        if not machines:
            raise Impossible(f"there is no virtual machine in the namespace {hands.namespace!r}")
        listing = await hands.in_parent.api.list(VIRTUAL_MACHINE_OPERATIONS, hands.namespace)
        unfinished = [
            each["metadata"]["name"]
            for each in listing.items
            if each["spec"].get("virtualMachineName") == machines[0] and phase_of(each) not in FINISHED
        ]
        if unfinished:
            raise Impossible(f"{machines[0]} has operations that are not finished: {', '.join(unfinished)}")
        return await cause(stage, Reboot(machines[0]), by=hands.nested.name)
