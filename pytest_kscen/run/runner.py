"""Object of the fixture `scenario_runner`: runs the declared plan on one cluster and keeps the
outcomes.

The user's entry to runs, scenarios and workflows. The order of a run's phases is in `lifecycle`.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import TYPE_CHECKING

from pytest_kscen.journal import Journal
from pytest_kscen.judge.verdict import VALID
from pytest_kscen.objects.arguments import seconds_of
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.report.protocol import ReportedRun, ReportedTest
from pytest_kscen.run.context import Run
from pytest_kscen.run.guarantee_watch import GuaranteeWatch
from pytest_kscen.run.plan import PlanWarning, ScenarioSettings
from pytest_kscen.run.preflight import PreflightRefused

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from types import TracebackType

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.report.protocol import Report
    from pytest_kscen.run.plan import Plan
    from pytest_kscen.run.scenarios import ScenarioHandle, ScenarioPlayer
    from pytest_kscen.scenario.participants import ControllerRegister


SIMULATED = ("embedded", "controlplane")


def bring_storage(cluster: Cluster, generation: str) -> None:
    """Install the simulated storage on a simulated cluster, once, before its first run.

    A cluster given by a kubeconfig is tested with its own storage. Raises a
    PreflightRefused if the cluster has no nodes.
    """
    if cluster.backend not in SIMULATED:
        return
    from pytest_kscen.models.storage.model import STORAGE_MODELS

    runner = cluster.runner
    api = cluster.api("storage-installer")
    if generation not in STORAGE_MODELS:
        raise PreflightRefused(
            f"there is no storage model {generation!r} for the {cluster.backend} cluster: choose "
            f"one of {', '.join(STORAGE_MODELS)} with --kscen-volume-health, install a package "
            "with a model of this name, or test a real cluster with --kubeconfig"
        )
    model = STORAGE_MODELS[generation]
    if not runner.call(model.is_installed(api)):
        if not runner.call(api.list(NODES, limit=1)).items:
            raise PreflightRefused(
                "the cluster has no nodes for the storage: give 1 or more to "
                "@pytest.mark.cluster(nodes=...)"
            )
        site = cluster.site  # type: ignore[attr-defined]  # what simulated clusters have
        model.attach(site, site.informers, runner.clock, cluster.chance)
        runner.call(model.install(api, runner.clock))


HOUR = 3600.0
SCENARIO_DEFAULTS = ScenarioSettings()


class ScenarioRunner:
    """Runs and played scenarios of one test on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        *,
        default_duration: float | None = None,
        terms: ScenarioSettings = SCENARIO_DEFAULTS,
        parent: Callable[[], ParentCluster | None] = lambda: None,
        test: ReportedTest | None = None,
        reports: Sequence[Report] = (),
    ) -> None:
        """Take the plan of one test; nothing is done before the first run.

        `parent` opens the parent cluster when a run first needs it, or returns None. `reports`
        are notified of each run and each played scenario of `test`.
        """
        self.cluster = cluster
        self.plan = plan
        self.runs: list[Run] = []
        self._default_duration = default_duration
        self._parent = parent
        self._test = test or ReportedTest("", cluster.chance.seed, {}, "", "")
        self._reports = reports
        self._reported: list[ReportedRun] = []
        """Of each played scenario, in their order."""
        self._active: Run | None = None
        self._terms = terms
        self.played: list[ScenarioHandle] = []
        self.duration_unset = False
        """True if the duration of a run was left to the options."""

    def run(self, duration: str | float | timedelta | None = None) -> Outcome:
        """Play the plan for a duration of cluster time, then heal, judge and clean up.

        Without a duration, option or ini value it is an hour of simulated time; on the wall's clock
        it lasts until Ctrl-C.
        """
        if duration is not None:
            seconds: float | None = seconds_of(duration)
            if not seconds:
                raise ValueError(
                    f"duration={duration!r}: a run needs time: give more than zero, as in '90s' or "
                    "'1h30m'"
                )
        elif self._default_duration is not None:
            seconds = self._default_duration
        else:
            seconds = HOUR if self.cluster.backend == "embedded" else None
        self.duration_unset |= duration is None
        for warning in () if seconds is None else self.plan.explain_ineffective(seconds):
            warnings.warn(warning, PlanWarning, stacklevel=2)
        acts_on_machines = any(profile.needs_machines() for profile in self.plan.chaos)
        run = self._begin(
            seconds, needs_parent=acts_on_machines or self.cluster.may_have_chaos_in_parent
        )
        try:
            run.wait(seconds)
        finally:
            self._end(run)
        return run.outcome

    def play(
        self,
        scenario: Obj | pathlib.Path | str,
        *,
        name: str = "",
        scheduler: Obj | pathlib.Path | str | None = None,
    ) -> ScenarioHandle:
        """Play a Scenario, an object or its file, until it is over or has nothing left to do.

        `name` replaces its own name. `scheduler` is a KubeSchedulerConfiguration, or its file, that
        holds until the scenario is over.
        """
        from pytest_kscen.scenario.files import scenario_of

        played = self._start_scenario(scenario_of(scenario, name, scheduler))
        played.until_paused()
        return played

    def scenario(
        self,
        controllers: Sequence[str],
        name: str = "scenario",
        *,
        disabled: Sequence[str] = (),
        scheduler: Obj | pathlib.Path | str | None = None,
    ) -> ScenarioHandle:
        """Start a Scenario without operations, to which the test adds them.

        `controllers` are simulated. `disabled` names controllers that do nothing meanwhile; "*"
        stands for all others.
        """
        from pytest_kscen.scenario.files import scenario_of

        chosen = {"simulationControllers": {"enabled": [{"name": each} for each in controllers]}}
        if disabled:
            chosen["presimulationControllers"] = {"disabled": [{"name": each} for each in disabled]}
        spec = {"controllers": chosen, "operations": []}
        empty = {
            "apiVersion": SCENARIOS.api_version,
            "kind": SCENARIOS.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return self._start_scenario(scenario_of(empty, scheduler=scheduler))

    @property
    def controllers(self) -> ControllerRegister:
        """Register of controllers that scenarios wait for: `add` a waiter for one of your own."""
        return self.scenario_player.controller.register

    def _start_scenario(self, scenario: Obj) -> ScenarioHandle:
        reported = ReportedRun(self._test, reports=self._reports)
        with contextlib.ExitStack() as undo:

            def open_journal() -> Journal:
                reported.prepare()
                journal = Journal(self.cluster.runner.clock)
                watch = GuaranteeWatch(self.cluster, journal)
                undo.callback(watch.stop)
                reported.start(journal, watch.changes)
                self.cluster.runner.call(self._start_watch(watch))
                watches.append(watch)
                return journal

            watches: list[GuaranteeWatch] = []
            played = self.scenario_player.start_scenario(scenario, open_journal)
            undo.pop_all()
        played.watch = watches[0]
        self.played.append(played)
        self._reported.append(reported)
        return played

    async def _start_watch(self, watch: GuaranteeWatch) -> None:
        watch.start(self.plan.guarantees)

    @property
    def scenario_player(self) -> ScenarioPlayer:
        """Player of the cluster's scenarios, opened at its first use."""
        self._check_caller()
        from pytest_kscen.run.scenarios import ScenarioPlayer

        return ScenarioPlayer.of(self.cluster, self._terms)

    def __enter__(self) -> Run:
        return self._begin(None, needs_parent=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._active:
            self._end(self._active)

    def finish_scenarios(self) -> None:
        """End the scenarios that the test left before they were done, which fail; report all."""
        from pytest_kscen.run.scenarios import PlayedResult

        for played in self.played:
            self.scenario_player.end(played, "the test ended before its operation `done`")
            played.stop_watch()
        for played, reported in zip(self.played, self._reported, strict=True):
            reported.finish(PlayedResult.of(played, self._test.seed))

    def explain_unseen_failure(self) -> str:
        """Explain the first failed run, workflow or scenario whose result the test did not read.

        Empty if there is none. The fixture fails the test with this text.
        """
        for run in self.runs:
            if run.is_over and not run.outcome.was_read and run.outcome.judged != VALID:
                return (
                    "the run was not valid, and the test did not read its "
                    f"verdict:\n{run.outcome.explain()}"
                )
        for run in self.runs:
            for workflow in run.workflows.unseen_failures:
                return (
                    f"the workflow {workflow.name!r} has failed, and the test did not read "
                    f"its phase:\n{workflow.message}"
                )
        for played in self.played:
            if played.has_unread_failure:
                return (
                    f"the scenario {played.name!r} has failed, and the test did not read "
                    f"its phase:\n{played.message}"
                )
            if why := played.explain_unseen_guarantee():
                return f"the scenario {played.name!r} does not keep a guarantee: {why}"
        return ""

    def close(self) -> None:
        """Close all journals, and give Ctrl-C its former meaning if a run was stopped."""
        for journal in [
            *(run.journal for run in self.runs),
            *(played.journal for played in self.played),
        ]:
            journal.close()

    def _begin(self, duration: float | None, *, needs_parent: bool) -> Run:
        self._check_caller()
        for warning in self.plan.profile_warnings:
            warnings.warn(warning, PlanWarning, stacklevel=3)
        reported = ReportedRun(self._test, reports=self._reports)
        reported.prepare()
        bring_storage(self.cluster, self.plan.health)
        parent = self._parent() if needs_parent else None
        run = Run(self.cluster, self.plan, parent, reported)
        self.runs.append(run)
        run.begin(duration)
        self._active = run
        return run

    def _check_caller(self) -> None:
        if self._active:
            raise RuntimeError(
                "a run is on: act on what `with scenario_runner as run` gave, or leave "
                "its block before another run"
            )
        if asyncio._get_running_loop():  # noqa: SLF001  # the only way to ask without an exception
            raise RuntimeError(
                "scenario_runner runs the cluster's event loop, which cannot be done from inside "
                "it: make the test a plain `def`, and start what acts beside the run with "
                "cluster.runner.start(coroutine, name)"
            )

    def _end(self, run: Run) -> None:
        self._active = None
        with run.signal_handlers:
            try:
                run.end()
            finally:
                run.report()
