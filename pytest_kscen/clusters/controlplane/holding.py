"""Programs of the control plane that stand still while a Scenario wants them to: they are stopped, and go on, as they are.

What stops in the middle of its work goes on in the middle of it; only a scheduling gate holds a pod at a loop's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.scenarios import SCENARIOS, may_work, on

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.controlplane.processes import Processes
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

PROGRAMS = ("kube-scheduler", "kube-controller-manager")


class Holding:
    """One control plane's programs, each by the name that Scenarios know it by."""

    def __init__(self, processes: Processes, clock: Clock) -> None:
        self._processes = processes
        self._clock = clock
        self.went_on: dict[str, float] = {}
        """When each was last told to go on."""
        self._scenarios: Informer | None = None
        self._stopped: set[str] = set()
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()

    async def follow(self, api: Api, clock: Clock) -> Never:
        """From now on Scenarios are obeyed; when nobody follows them any more, everybody goes on."""
        self._scenarios = scenarios = Informer(api, clock, SCENARIOS)
        scenarios.on_change(self._look_again)
        following = asyncio.get_running_loop().create_task(scenarios.run(), name="scenarios that hold programs")
        try:
            while True:
                self._changed.clear()
                await self.obey(api)
                await self._changed.wait()
        finally:
            following.cancel()
            for program in list(self._stopped):
                self._go_on(program)

    def _look_again(self, new: Obj | None, old: Obj | None) -> None:  # noqa: ARG002  # every change is one
        self._changed.set()

    async def obey(self, api: Api) -> None:
        """Hold, and let go, as the Scenarios say at this moment."""
        async with self._turn:  # what one has read must not be done after what another has read later
            scenarios = await self._live(api)
            for program in PROGRAMS:
                if may_work(scenarios, program):
                    self._go_on(program)
                else:
                    self._stop(program)

    async def _live(self, api: Api) -> list[Obj]:
        """The one that is on, as it is at this moment."""
        with contextlib.suppress(NotFound):
            if self._scenarios and (scenario := on(self._scenarios)):
                return [await api.get(SCENARIOS, scenario["metadata"]["name"])]
        return []

    def _stop(self, program: str) -> None:
        if program not in self._stopped:
            self._stopped.add(program)
            self._signal(program, signal.SIGSTOP)

    def _go_on(self, program: str) -> None:
        if program in self._stopped:
            self._stopped.discard(program)
            self.went_on[program] = self._clock.now()
            self._signal(program, signal.SIGCONT)

    def _signal(self, program: str, what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended, which others tell
            os.kill(self._processes.pid(program), what)
