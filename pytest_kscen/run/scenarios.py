"""Scenarios of a cluster: the player with its controller, and the handle that a test holds.

`ScenarioRunner` opens one player per cluster at the first scenario.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import yaml

from pytest_kscen.journal import JournalSwitch
from pytest_kscen.judge.guarantees.checks import Guarantees
from pytest_kscen.judge.verdict import VALID
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.api import JSON_PATCH
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import BadRequest, Invalid, NotFound
from pytest_kscen.objects.scenarios import FAILED, ON, OVER, PAUSED, SCENARIOS, phase_of
from pytest_kscen.report.protocol import LARGEST_JOURNAL
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.run.scenario_setup import controlplane, embedded, given
from pytest_kscen.scenario.analysis import performance
from pytest_kscen.scenario.analysis.performance import ScenarioSummary
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.cluster_setup import install
from pytest_kscen.scenario.controller import ScenarioController
from pytest_kscen.scenario.files import ScenarioRefused, with_ids
from pytest_kscen.scenario.participants import ControllerRegister
from pytest_kscen.scenario.progress import ResultsStrategy
from pytest_kscen.scenario.writes import NAME

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from types import TracebackType

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.journal import Journal
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.run.guarantee_watch import GuaranteeWatch
    from pytest_kscen.run.plan import ScenarioSettings
    from pytest_kscen.scenario.analysis.timeline import Timeline


PATIENCE = 24 * 3600.0
IDLE_TIME = 10.0  # seconds of cluster time after which a Paused Scenario does not continue


@dataclass(eq=False)
class ScenarioHandle:
    """Handle of a played scenario for tests; it also works after the object is deleted."""

    cluster: Cluster
    journal: Journal
    name: str
    watch: GuaranteeWatch | None = field(default=None, repr=False)
    """Guarantees of the test's markers, which are checked while the scenario is played."""
    was_ended: bool = False
    """True if the test ended, or the next scenario began, before it was done."""
    _was_read: bool = field(default=False, repr=False)
    _guarantees_were_read: bool = field(default=False, repr=False)
    _added: list[Obj] = field(default_factory=list, repr=False)
    _last: Obj | None = field(default=None, repr=False)
    """Last object of a Scenario that is over."""
    _result: tuple[int, Result] | None = field(default=None, repr=False)
    """Result, with the length of the journal that it was computed from."""

    @property
    def live(self) -> Obj:
        """Current Scenario object, or the last one if it is over."""
        self._write_added()
        return self._seen()

    def _seen(self) -> Obj:
        if self._last is None:
            live = self.cluster.runner.call(self.cluster.api(NAME).get(SCENARIOS, self.name))
            self._last = live if phase_of(live) in OVER else None
            return live
        return self._last

    @property
    def phase(self) -> str:
        self._was_read = True
        return phase_of(self.live)

    @property
    def is_over(self) -> bool:
        return phase_of(self.live) in OVER

    @property
    def has_unread_failure(self) -> bool:
        """True if it failed by itself and the test did not read its phase."""
        return not self._was_read and not self.was_ended and phase_of(self.live) == FAILED

    @property
    def message(self) -> str:
        """Reason of the phase."""
        return str((self.live.get("status") or {}).get("message") or "")

    @property
    def guarantees(self) -> Guarantees:
        """Results of the test's guarantees so far; final once the test has ended."""
        self._guarantees_were_read = True
        return self.watched_guarantees()

    def watched_guarantees(self) -> Guarantees:
        """Return the results for a report, which does not look at them for the test."""
        return self.watch.results() if self.watch else Guarantees()

    def explain_unseen_guarantee(self) -> str:
        """Return why a guarantee is not valid, unless the test has read `guarantees`."""
        unmet = [one for one in self.watched_guarantees() if one.verdict != VALID]
        if self._guarantees_were_read or not unmet:
            return ""
        return "; ".join(f"{one.name!r} is {one.verdict}: {one.why}" for one in unmet)

    def stop_watch(self) -> None:
        if self.watch:
            self.watch.stop()

    @property
    def timeline(self) -> Timeline:
        return self.result.timeline

    @property
    def result(self) -> Result:
        """Result so far; the same object is returned until the journal grows."""
        if self._result is None or self._result[0] != self.journal.entries:
            self._result = self.journal.entries, Result.of_journal(self.journal, self.name)
        return self._result[1]

    # --- while it is active ---

    def create(self, obj: Obj, *, step: int, id: str = "") -> None:
        """Create an object in a step.

        `obj` may be a model of the official client that has apiVersion and kind.
        """
        self._add(step, id, createOperation={"object": _plain(obj)})

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        patch: Obj | str,
        *,
        step: int,
        namespace: str = "",
        id: str = "",
    ) -> None:
        text = patch if isinstance(patch, str) else yaml.safe_dump(patch)
        self._add(
            step, id, patchOperation={**_target(api_version, kind, name, namespace), "patch": text}
        )

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        *,
        step: int,
        namespace: str = "",
        id: str = "",
    ) -> None:
        self._add(step, id, deleteOperation=_target(api_version, kind, name, namespace))

    def done(self, *, step: int, id: str = "") -> None:
        """End the scenario as succeeded when this step is finished."""
        self._add(step, id, doneOperation={})

    def _add(self, step: int, id: str, **operation: Any) -> None:
        """Keep an operation until the test waits or reads the Scenario; all kept operations are
        written together.

        Operations of a step that has begun are refused, so one write per operation would come too
        late. A dry run checks each one at once.
        """
        if phase_of(seen := self._seen()) in OVER:
            message = (seen.get("status") or {}).get("message")
            why = f" ({message})" if message else ""
            what = f"operation {id!r}" if id else f"an operation of step {step}"
            raise ScenarioRefused(
                f"the scenario {self.name!r} is {phase_of(seen)}{why}: {what} cannot be added"
            )
        entry = {"step": step, **({"id": id} if id else {}), **operation}
        try:
            self._write([*self._added, entry], dry_run=True)
        except (Invalid, BadRequest) as error:
            why = with_ids(
                error.message, [*seen["spec"].get("operations", ()), *self._added, entry]
            )
            raise ScenarioRefused(
                f"the scenario {self.name!r} cannot have this operation: {why}"
            ) from None
        self._added.append(entry)

    def _write_added(self) -> None:
        if added := self._added:
            self._added = []
            self._write(added)

    def _write(self, operations: list[Obj], **options: Any) -> None:
        patch = [{"op": "add", "path": "/spec/operations/-", "value": each} for each in operations]
        api = self.cluster.api(NAME)
        write = api.patch(
            SCENARIOS, self.name, patch, patch_type=JSON_PATCH, field_validation="Strict", **options
        )
        self.cluster.runner.call(write)

    def until_paused(self) -> None:
        """Wait until all operations so far are done, or the scenario is over."""
        self._until(_is_paused_or_over)

    def until_over(self) -> None:
        """Wait until the scenario is over.

        Raise ScenarioRefused if it stays Paused.
        """
        while not self.is_over:
            self._until(_is_paused_or_over)
            if phase_of(self.live) in OVER:
                return
            try:  # others may add operations to it
                self._until(
                    lambda scenario: not _is_paused_or_over(scenario) or phase_of(scenario) in OVER,
                    IDLE_TIME,
                )
            except TimeoutError:
                raise ScenarioRefused(
                    f"the scenario {self.name!r} is {self.phase}: {self.message}. Add "
                    "done(step=...), or wait with until_paused()"
                ) from None

    def until_ended(self) -> None:
        """Wait until the scenario is over, after its controller was requested to fail it."""
        self._until(lambda scenario: phase_of(scenario) in OVER)

    def _until(self, condition: Callable[[Obj], bool], timeout: float = PATIENCE) -> None:
        self._write_added()
        runner, api = self.cluster.runner, self.cluster.api(NAME)
        if self._last is not None:
            return
        runner.call(
            wait_for(
                *(api, runner.clock, SCENARIOS, self.name),
                condition=lambda scenario: scenario is None or condition(scenario),
                timeout=timeout,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.until_paused()


@dataclass(frozen=True, slots=True)
class PlayedResult:
    """Result of a played scenario, as reports receive it (`report.protocol.ReportedResult`)."""

    performance: ScenarioSummary
    journal: Journal

    @classmethod
    def of(cls, played: ScenarioHandle, seed: str) -> PlayedResult:
        facts = ScenarioSummary.of(
            played.journal,
            played.name,
            seed,
            was_ended=played.was_ended,
            guarantees=played.watched_guarantees(),
        )
        return cls(facts, played.journal)

    def brief(self) -> list[str]:
        return performance.summary(self.performance)

    summary = brief

    def properties(self) -> list[tuple[str, object]]:
        return performance.properties(self.performance)

    def as_json(self) -> bytes:
        return performance.as_json(self.performance)

    def write_stories(self, folder: pathlib.Path) -> None:
        """Write nothing: stories are of a run's volumes."""

    def attach(self, title: str) -> None:  # noqa: ARG002  # its step is named after the scenario
        performance.attach(self.performance, self.journal, LARGEST_JOURNAL)


def _plain(obj: Any) -> Any:
    """Convert a model of the official client to JSON; return anything else as it is."""
    if not hasattr(obj, "openapi_types"):
        return obj
    from kubernetes.client import ApiClient

    return ApiClient().sanitize_for_serialization(obj)  # type: ignore[no-untyped-call]


def _is_paused_or_over(scenario: Obj) -> bool:
    status = scenario.get("status") or {}
    is_paused = (
        phase_of(scenario) == PAUSED
        and status.get("observedGeneration", 0) >= scenario["metadata"]["generation"]
    )
    return is_paused or phase_of(scenario) in OVER


def _target(api_version: str, kind: str, name: str, namespace: str) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"typeMeta": {"apiVersion": api_version, "kind": kind}, "objectMeta": meta}


SETUPS: dict[str, Callable[[Any, ScenarioController], str]] = {
    "embedded": embedded,
    "controlplane": controlplane,
    "kubeconfig": given,
}
DELETION_TIMEOUT = 60.0  # seconds for the deletion of an earlier Scenario of the same name


@dataclass(eq=False)
class ScenarioPlayer:
    """Player of one cluster's scenarios: controller, gates, admission, and the open journal."""

    cluster: Cluster
    controller: ScenarioController
    journals: JournalSwitch
    gate_url: str = ""
    """Address at which a controller in any language requests its turn; its name is appended."""
    played: list[ScenarioHandle] = field(default_factory=list)

    @classmethod
    def of(cls, cluster: Cluster, terms: ScenarioSettings) -> ScenarioPlayer:
        """Return the cluster's player; the first call opens it, with these settings."""
        if cluster.scenario_player is None:
            cluster.scenario_player = cls.open(cluster, terms)
        return cluster.scenario_player  # type: ignore[no-any-return]  # it was put there here

    @classmethod
    def open(cls, cluster: Cluster, terms: ScenarioSettings) -> ScenarioPlayer:
        """Install definition, controller, gates and admission on the cluster.

        Raises a PreflightRefused if the cluster may not be emptied, or scenarios are not supported
        there.
        """
        if not cluster.owned and not terms.disposable:
            raise PreflightRefused(
                "a scenario begins with deleting all objects of its cluster, and this "
                f"{cluster.backend} cluster was not created by this session: "
                f"allow it with {terms.consent}"
            )
        if cluster.backend not in SETUPS:
            raise PreflightRefused(
                f"scenarios are not played on {cluster.backend} clusters yet: there are "
                f"{', '.join(SETUPS)}"
            )
        runner, journals, chance = cluster.runner, JournalSwitch(), cluster.chance
        strategy = ResultsStrategy.of(terms.results)
        context = RunContext(
            cluster.api,
            runner.clock,
            chance,
            journals,  # type: ignore[arg-type]  # actors only write
            chance.stream("scenarios").suffix(8),
        )
        controller = ScenarioController(
            context.actor(NAME), ControllerRegister(), strategy=strategy, patience=terms.patience
        )
        runner.call(install(cluster.api(NAME), runner.clock))
        gate_url = SETUPS[cluster.backend](cluster, controller)
        runner.start(controller.run(), NAME)
        return cls(cluster, controller, journals, gate_url)

    def start_scenario(self, scenario: Obj, keep: Callable[[], Journal]) -> ScenarioHandle:
        """Create a Scenario; `keep` opens its journal after a successful dry run.

        An earlier scenario that is not over fails; an earlier object of the same name is deleted.
        """
        name = scenario["metadata"]["name"]
        if self.played and not self._is_past(self.played[-1]):
            self.played[-1].until_paused()
            self.end(self.played[-1], f"the scenario {name!r} began before its operation `done`")
        self.cluster.runner.call(self._remove_earlier(name))
        api, journal = self.cluster.api(NAME), None
        try:
            self.cluster.runner.call(
                api.create(SCENARIOS, scenario, field_validation="Strict", dry_run=True)
            )
            self.journals.to = journal = keep()
            self.cluster.runner.call(api.create(SCENARIOS, scenario))
        except (Invalid, BadRequest) as error:
            why = with_ids(error.message, scenario["spec"].get("operations") or ())
            raise ScenarioRefused(f"the API server refuses the Scenario {name!r}: {why}") from None
        self.played.append(ScenarioHandle(self.cluster, journal, name))
        return self.played[-1]

    async def _remove_earlier(self, name: str) -> None:
        api = self.cluster.api(NAME)
        try:
            earlier = await api.get(SCENARIOS, name)
        except NotFound:
            return
        if phase_of(earlier) not in OVER:
            raise ScenarioRefused(
                f"there is a Scenario {name!r} on the cluster that is not over "
                f"({phase_of(earlier) or 'new'}): "
                "delete it, or play this one by another name, as in play(..., name='another')"
            )
        await api.delete(SCENARIOS, name)
        await wait_for(
            api,
            self.cluster.runner.clock,
            SCENARIOS,
            name,
            condition=lambda one: one is None,
            timeout=DELETION_TIMEOUT,
        )

    def end(self, played: ScenarioHandle, why: str) -> None:
        """Fail a scenario that is not over; delete one that has not begun."""
        if self._is_past(played):
            return
        played.was_ended = True
        if phase_of(played.live) in ON:
            self.controller.give_up(why)
            played.until_ended()
        else:
            self.cluster.runner.call(self.cluster.api(NAME).delete(SCENARIOS, played.name))

    def _is_past(self, played: ScenarioHandle) -> bool:
        """Return True if the scenario is over or was deleted."""
        try:
            return played.is_over
        except NotFound:
            return True
