"""Scenarios on a cluster: what plays them is brought there once, and plays for each test that comes.

One scenario is on at a time. One that is left without a doneOperation ends when the next one comes, or its test is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.journal import Relay
from pytest_kscen.kube.actor import Stage
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import BadRequest, Invalid, NotFound
from pytest_kscen.objects.scenarios import ON, OVER, SCENARIOS, phase_of
from pytest_kscen.runs.played import Played
from pytest_kscen.runs.preflight import PreflightRefused
from pytest_kscen.runs.stages import controlplane, embedded, given
from pytest_kscen.scenario.controller import ScenarioController
from pytest_kscen.scenario.definition import install
from pytest_kscen.scenario.files import ScenarioRefused, with_ids
from pytest_kscen.scenario.progress import Strategy
from pytest_kscen.scenario.troupe import Register
from pytest_kscen.scenario.writes import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.journal import Journal
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.terms import Terms

STAGES: dict[str, Callable[[Any, ScenarioController], str]] = {
    "embedded": embedded,
    "controlplane": controlplane,
    "kubeconfig": given,
}
GONE = 60.0  # seconds that an earlier Scenario of the same name has to go


@dataclass(eq=False)
class Theatre:
    """Where a cluster's scenarios are played."""

    cluster: Cluster
    controller: ScenarioController
    journals: Relay
    gate_url: str = ""
    """Where a controller in any language asks, its name behind it, whether it may go on."""
    played: list[Played] = field(default_factory=list)

    @classmethod
    def of(cls, cluster: Cluster, terms: Terms) -> Theatre:
        """The cluster's; whoever asks first opens it, on these terms."""
        if cluster.theatre is None:
            cluster.theatre = cls.open(cluster, terms)
        return cluster.theatre  # type: ignore[no-any-return]  # it was put there here

    @classmethod
    def open(cls, cluster: Cluster, terms: Terms) -> Theatre:
        """Bring definition, controller, gates and admission to the cluster."""
        _check(cluster, terms)
        runner, journals, chance = cluster.runner, Relay(), cluster.chance
        strategy = Strategy.of(terms.results)
        stage = Stage(cluster.api, runner.clock, chance, journals, chance.stream("scenarios").suffix(8))  # type: ignore[arg-type]  # actors only write
        controller = ScenarioController(stage.actor(NAME), Register(), strategy=strategy, patience=terms.patience)
        runner.call(install(cluster.api(NAME), runner.clock))
        gate_url = STAGES[cluster.backend](cluster, controller)
        runner.start(controller.run(), NAME)
        return cls(cluster, controller, journals, gate_url)

    def put_on(self, scenario: Obj, keep: Callable[[], Journal]) -> Played:
        """`keep` opens its journal, when nothing speaks against it any more."""
        name = scenario["metadata"]["name"]
        self._make_room(name)
        api, journal = self.cluster.api(NAME), None
        try:
            self.cluster.runner.call(api.create(SCENARIOS, scenario, field_validation="Strict", dry_run=True))
            self.journals.to = journal = keep()
            self.cluster.runner.call(api.create(SCENARIOS, scenario))
        except (Invalid, BadRequest) as error:
            why = with_ids(error.message, scenario["spec"].get("operations") or ())
            raise ScenarioRefused(f"the API server refuses the Scenario {name!r}: {why}") from None
        self.played.append(Played(self.cluster, journal, name))
        return self.played[-1]

    def _make_room(self, name: str) -> None:
        """An earlier one is over by then; of the same name, it goes."""
        if self.played and not self._is_past(self.played[-1]):
            self.played[-1].until_paused()
            self.end(self.played[-1], f"the scenario {name!r} was to be played, and nobody had said done")
        self.cluster.runner.call(self._remove_earlier(name))

    async def _remove_earlier(self, name: str) -> None:
        api = self.cluster.api(NAME)
        try:
            earlier = await api.get(SCENARIOS, name)
        except NotFound:
            return
        if phase_of(earlier) not in OVER:
            raise ScenarioRefused(
                f"there is a Scenario {name!r} on the cluster that is not over ({phase_of(earlier) or 'new'}): "
                "delete it, or play this one by another name, as in play(..., name='another')"
            )
        await api.delete(SCENARIOS, name)
        await wait_for(api, self.cluster.runner.clock, SCENARIOS, name, condition=lambda one: one is None, timeout=GONE)

    def end(self, played: Played, why: str) -> None:
        """If it is not over, it has failed; if it has not begun, it never was."""
        if self._is_past(played):
            return
        played.was_ended = True
        if phase_of(played.live) in ON:
            self.controller.give_up(why)
            played.until_ended()
        else:
            self.cluster.runner.call(self.cluster.api(NAME).delete(SCENARIOS, played.name))

    def _is_past(self, played: Played) -> bool:
        """It is over, or somebody has deleted it."""
        try:
            return played.is_over
        except NotFound:
            return True


def _check(cluster: Cluster, terms: Terms) -> None:
    if not cluster.owned and not terms.disposable:
        raise PreflightRefused(
            f"a scenario begins with deleting all that is on its cluster, and this {cluster.backend} cluster is not of our making: "
            f"say that it may be emptied with {terms.consent}"
        )
    if cluster.backend not in STAGES:
        raise PreflightRefused(f"scenarios are not played on {cluster.backend} clusters yet: there are {', '.join(STAGES)}")
