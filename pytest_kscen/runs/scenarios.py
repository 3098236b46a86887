"""Scenarios on a cluster: what plays them is brought there once, and a test holds each that it plays."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import yaml

from pytest_kscen.kube.actor import Stage
from pytest_kscen.kube.requests import JSON_PATCH
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.scenarios import OVER, PAUSED, SCENARIOS, phase_of
from pytest_kscen.runs.preflight import PreflightRefused
from pytest_kscen.runs.stages import controlplane, embedded
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.analysis.timeline import Timeline
from pytest_kscen.scenario.controller import ScenarioController
from pytest_kscen.scenario.definition import install
from pytest_kscen.scenario.troupe import Register

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.journal import Journal
    from pytest_kscen.objects.resources import Obj

STAGES: dict[str, Callable[[Any, ScenarioController], str]] = {"embedded": embedded, "controlplane": controlplane}
PATIENCE = 24 * 3600.0
NAME = "scenario-controller"


@dataclass(eq=False)
class Theatre:
    """Where a cluster's scenarios are played."""

    cluster: Cluster
    journal: Journal
    controller: ScenarioController
    gate_url: str = ""
    """Where a controller in any language asks, its name behind it, whether it may go on."""
    played: list[Played] = field(default_factory=list)

    @classmethod
    def open(cls, cluster: Cluster, journal: Journal) -> Theatre:
        """Bring definition, controller, gates and admission to the cluster."""
        if cluster.backend not in STAGES:
            raise PreflightRefused(f"scenarios are not played on {cluster.backend} clusters yet")
        runner = cluster.runner
        stage = Stage(cluster.api, runner.clock, cluster.chance, journal, cluster.chance.stream("scenarios").suffix(8))
        controller = ScenarioController(stage.actor(NAME), Register())
        runner.call(install(cluster.api(NAME), runner.clock))
        gate_url = STAGES[cluster.backend](cluster, controller)
        runner.start(controller.run(), NAME)
        return cls(cluster, journal, controller, gate_url)

    def put_on(self, scenario: Obj) -> Played:
        api = self.cluster.api(NAME)
        made = self.cluster.runner.call(api.create(SCENARIOS, scenario))
        played = Played(self, made["metadata"]["name"])
        self.played.append(played)
        return played


@dataclass(eq=False)
class Played:
    """One scenario, as a test holds it: it may be added to while it is on, and asked when it is over."""

    theatre: Theatre
    name: str

    @property
    def live(self) -> Obj:
        """The Scenario as the API has it."""
        return self.theatre.cluster.runner.call(self.theatre.cluster.api(NAME).get(SCENARIOS, self.name))

    @property
    def phase(self) -> str:
        return phase_of(self.live)

    @property
    def message(self) -> str:
        """Why it is in this phase."""
        return str((self.live.get("status") or {}).get("message") or "")

    @property
    def timeline(self) -> Timeline:
        return Timeline.of_journal(self.theatre.journal, self.name)

    @property
    def result(self) -> Result:
        return Result(self.timeline)

    # --- while it is on ---

    def create(self, obj: Obj, *, step: int, id: str = "") -> None:
        self._add(step, id, createOperation={"object": obj})

    def patch(
        self, api_version: str, kind: str, name: str, patch: Obj | str, *, step: int, namespace: str = "", id: str = ""
    ) -> None:
        text = patch if isinstance(patch, str) else yaml.safe_dump(patch)
        self._add(step, id, patchOperation={**_target(api_version, kind, name, namespace), "patch": text})

    def delete(self, api_version: str, kind: str, name: str, *, step: int, namespace: str = "", id: str = "") -> None:
        self._add(step, id, deleteOperation=_target(api_version, kind, name, namespace))

    def done(self, *, step: int, id: str = "") -> None:
        """The scenario has succeeded when this step is finished."""
        self._add(step, id, doneOperation={})

    def _add(self, step: int, id: str, **operation: Any) -> None:
        if self.phase in OVER:
            raise ValueError(f"the scenario {self.name!r} is {self.phase}: nothing can be added to it any more")
        entry = {"step": step, **({"id": id} if id else {}), **operation}
        patch = [{"op": "add", "path": "/spec/operations/-", "value": entry}]
        api = self.theatre.cluster.api(NAME)
        self.theatre.cluster.runner.call(api.patch(SCENARIOS, self.name, patch, patch_type=JSON_PATCH))

    def until_paused(self) -> None:
        """Until all that it was given so far is done, or it is over."""
        self._until(_rests)

    def until_over(self) -> None:
        self._until(lambda scenario: phase_of(scenario) in OVER)

    def _until(self, condition: Callable[[Obj], bool]) -> None:
        runner, api = self.theatre.cluster.runner, self.theatre.cluster.api(NAME)
        runner.call(
            wait_for(
                *(api, runner.clock, SCENARIOS, self.name),
                condition=lambda scenario: scenario is None or condition(scenario),
                timeout=PATIENCE,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.until_paused()


def _rests(scenario: Obj) -> bool:
    status = scenario.get("status") or {}
    is_paused = phase_of(scenario) == PAUSED and status.get("observedGeneration", 0) >= scenario["metadata"]["generation"]
    return is_paused or phase_of(scenario) in OVER


def scenario_of(source: Obj | pathlib.Path | str) -> Obj:
    """A Scenario from a file, or as it is."""
    if isinstance(source, dict):
        return source
    loaded: Obj = yaml.safe_load(pathlib.Path(source).read_text())
    return loaded


def _target(api_version: str, kind: str, name: str, namespace: str) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"typeMeta": {"apiVersion": api_version, "kind": kind}, "objectMeta": meta}
