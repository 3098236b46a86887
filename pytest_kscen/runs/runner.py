"""What a test holds as `scenario_runner`: it plays the declared plan and keeps what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.kube.actor import Parent
    from pytest_kscen.runs.outcome import Outcome
    from pytest_kscen.runs.plan import Plan

HOUR = 3600.0


class ScenarioRunner:
    """One test's runs on one cluster."""

    def __init__(
        self, cluster: Cluster, plan: Plan, *, default_duration: float | None = None, parent: Callable[[], Parent] | None = None
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.runs: list[Run] = []
        self._default_duration = default_duration or HOUR
        self._open_parent = parent

    def run(self, duration: str | float | timedelta | None = None) -> Outcome:
        """Play the plan for this long in cluster time, then heal, judge and clean up."""
        self._bring_storage()
        run = Run.on(self.cluster, self.plan)
        self.runs.append(run)
        return run.play(self._default_duration if duration is None else duration)

    def overlooked(self) -> str:
        """The explanation of a run that was not valid and whose verdict nobody asked for; empty if there is none."""
        for run in self.runs:
            if run.outcome and not run.outcome.looked_at and run.outcome.verdict != "valid":
                return run.outcome.explain()
        return ""

    def close(self) -> None:
        for run in self.runs:
            run.journal.close()

    def _bring_storage(self) -> None:
        """Simulated machines come with a simulated storage; on a cluster that was handed to us the real one is tested."""
        if self.cluster.backend not in {"embedded", "controlplane"}:
            return
        from pytest_kscen.simulation.storage import install, is_installed, volume_controller

        clock, runner = self.cluster.runner.clock, self.cluster.runner
        api = self.cluster.api("storage-installer")
        if not runner.call(is_installed(api)):
            runner.call(install(api, clock))
            runner.start(volume_controller(self.cluster.api("replicated-volume-controller"), clock), "replicated-volumes")
