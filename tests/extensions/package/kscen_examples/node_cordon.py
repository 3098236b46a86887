"""Chaos profile node-cordon: random nodes take no new pods for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_kscen.chaos import (
    INCIDENT,
    NODE,
    NODES,
    PERIOD,
    ChaosOption,
    DurationRange,
    Fault,
    FaultImpossible,
    Profile,
    Reach,
    repeat_incidents,
    valid_times,
)

MARK = "examples.kscen.io/cordoned-by"
"""Annotation of a cordoned node: the run that has cordoned it."""


@dataclass(frozen=True, slots=True)
class Cordon(Fault):
    """One node takes no new pods until the incident ends."""

    node: str
    profile: ClassVar[str] = "node-cordon"
    variant: ClassVar[str] = "node-cordon"
    passes: ClassVar[bool] = False

    @property
    def targets(self):
        return {"nodes": [self.node]}

    @property
    def reach(self):
        return Reach((NODE,), (self.node,))

    async def aim(self, clients):
        return self

    async def inject(self, incident):
        api, run = incident.clients.nested.api, incident.clients.nested.labels["kscen.io/run"]
        with incident.answers.of(""):
            await api.patch(NODES, self.node, patch(True, run))
        incident.reaches(self.reach)
        incident.has_effect(f"{self.node} takes no new pods")

    async def heal(self, incident):
        await incident.clients.nested.api.patch(NODES, self.node, patch(None, None))


def patch(unschedulable, run):
    annotations = {MARK: run}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}}


@dataclass(frozen=True, slots=True)
class NodeCordon(Profile):
    """Cordons random nodes; ranges are seconds."""

    period: DurationRange = (60.0, 300.0)
    incident: DurationRange = (10.0, 60.0)

    name: ClassVar[str] = "node-cordon"
    targets: ClassVar[tuple[str, ...]] = ("nodes",)
    creates: ClassVar[tuple] = ()
    options: ClassVar[tuple[ChaosOption, ...]] = (
        ChaosOption.switch("--enable-chaos-node-cordon", "cordon random nodes for a while"),
        *PERIOD,
        *INCIDENT,
    )

    def __post_init__(self):
        valid_times(self)

    @property
    def soonest(self):
        return self.period[0]

    async def run(self, context, stop):
        await repeat_incidents(context, stop, self, "chaos-node-cordon", self.draw)

    async def draw(self, clients, seconds):
        nodes = (await clients.nested.api.list(NODES)).items
        free = [node["metadata"]["name"] for node in nodes if not node["spec"].get("unschedulable")]
        if not free:
            raise FaultImpossible("all nodes are cordoned already: add nodes to the cluster")
        return Cordon(clients.nested.chance.choice(free))

    @classmethod
    async def clear_leftovers(cls, context, *, own):
        api = context.actor("node-cordon-cleaner").api
        for node in (await api.list(NODES)).items:
            run = node["metadata"].get("annotations", {}).get(MARK)
            if run and (run == context.run_id) is own:
                await api.patch(NODES, node["metadata"]["name"], patch(None, None))
