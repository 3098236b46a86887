"""Heartbeats of all kubelets: those that joined at the same instant share one timer, in the background of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kscen.simulation.kubelet.timings import LEASE_EVERY

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.clock import Clock
    from pytest_kscen.simulation.brood import Brood


class Beating(Protocol):
    """Somebody with a heart."""

    async def beat(self) -> None: ...


class Heartbeats:
    """Groups of hearts by the phase in which they beat."""

    def __init__(self, clock: Clock, brood: Brood) -> None:
        self._clock = clock
        self._brood = brood
        self._groups: dict[float, dict[Beating, None]] = {}
        self._phases: dict[Beating, float] = {}
        self._tasks: dict[float, asyncio.Task[None]] = {}

    def join(self, heart: Beating) -> None:
        """Beat every ten seconds, the first time in ten seconds."""
        phase = self._phases[heart] = self._clock.now() % LEASE_EVERY
        group = self._groups.setdefault(phase, {})
        group[heart] = None
        if phase not in self._tasks:
            self._tasks[phase] = self._brood.start(self._beat(phase, group), f"heartbeats at {phase:g} s")

    def leave(self, heart: Beating) -> None:
        phase = self._phases.pop(heart, None)
        if phase is not None:
            self._groups[phase].pop(heart, None)

    async def _beat(self, phase: float, group: dict[Beating, None]) -> None:
        due = self._clock.now() + LEASE_EVERY
        while group:
            await self._clock.sleep(due - self._clock.now(), background=True)
            due += LEASE_EVERY
            for heart in list(group):
                if heart in group:
                    await heart.beat()
        del self._groups[phase], self._tasks[phase]
