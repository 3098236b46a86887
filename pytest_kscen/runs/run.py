"""A run's life: actors start, time passes, counters freeze, chaos ends and is undone, liveness is judged, volumes go.

Safety is judged while faults are on; what is left when they are over has to become ready again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import Signal
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RUN_LABEL, Stage
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.megatest.checker import is_ready
from pytest_kscen.megatest.multivolume import multivolume
from pytest_kscen.megatest.season import Season
from pytest_kscen.objects.durations import seconds_of
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.runs.outcome import Outcome, judge

if TYPE_CHECKING:
    from datetime import timedelta

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.plan import Plan

HEALING = 300.0  # seconds of cluster time within which what is left must be ready again


@dataclass(slots=True)
class Run:
    """One run of one plan on one cluster."""

    cluster: Cluster
    plan: Plan
    stage: Stage
    journal: Journal
    outcome: Outcome | None = None

    @classmethod
    def on(cls, cluster: Cluster, plan: Plan) -> Run:
        journal = Journal(cluster.runner.clock)
        run_id = cluster.chance.stream("run").suffix(8)
        stage = Stage(cluster.api, cluster.runner.clock, cluster.chance, journal, run_id)
        return cls(cluster, plan, stage, journal)

    def play(self, duration: str | float | timedelta) -> Outcome:
        self.cluster.runner.call(self._play(seconds_of(duration)))
        self.outcome = judge(
            self.journal,
            declared=[profile.profile for profile in self.plan.chaos],
            seed=self.cluster.chance.seed,
            replayable=self.cluster.replayable,
        )
        return self.outcome

    async def _play(self, duration: float) -> None:
        director = self.stage.actor("run")
        director.note("run-started", seed=self.cluster.chance.seed, duration=duration)
        season, calm = Season(), Signal()
        async with asyncio.TaskGroup() as actors:
            if self.plan.churn:
                actors.create_task(multivolume(self.stage, self.plan.churn, season), name="multivolume")
            chaos = [actors.create_task(profile.run(self.stage, calm), name=profile.profile) for profile in self.plan.chaos]
            await director.clock.sleep(duration)
            season.frozen.give()
            director.note("frozen")
            calm.give()
            if chaos:
                await asyncio.wait(chaos)
            director.note("healed")
            if self.plan.churn:
                director.note("liveness", late=await self._late())
            else:
                director.note("liveness", late=[])
            season.over.give()
        director.note("leftovers", objects=await self._leftovers())
        director.note("run-ended")

    async def _late(self) -> list[str]:
        """The volumes that are not ready although everything was healed and they had their time."""
        listing = await self.stage.api_for("run").list(REPLICATED_VOLUMES, labels=f"{RUN_LABEL}={self.stage.run_id}")
        staying = [one["metadata"]["name"] for one in listing.items if not one["metadata"].get("deletionTimestamp")]
        async with asyncio.TaskGroup() as waiting:
            healed = [waiting.create_task(self._heals(name), name=f"healing of {name}") for name in staying]
        return [name for name, heals in zip(staying, healed, strict=True) if not heals.result()]

    async def _heals(self, name: str) -> bool:
        api, clock = self.stage.api_for("run"), self.stage.clock
        try:
            await wait_for(api, clock, REPLICATED_VOLUMES, name, condition=_is_ready_or_gone, timeout=HEALING)
        except TimeoutError:
            return False
        return True

    async def _leftovers(self) -> list[str]:
        if not self.plan.churn:
            return []
        listing = await self.stage.api_for("run").list(REPLICATED_VOLUMES, labels=f"{RUN_LABEL}={self.stage.run_id}")
        return [f"{REPLICATED_VOLUMES.plural}/{volume['metadata']['name']}" for volume in listing.items]


def _is_ready_or_gone(volume: Obj | None) -> bool:
    return volume is None or is_ready(volume)
