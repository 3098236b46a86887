"""NetworkChaos: rules at the selected pods' ends of the network, which it asks afterwards what becomes of the packets.

A pod is known by its address; one on the host's network is its machine. Rules stand where the targets stand: as in a pod's own
network namespace, they go with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait
from pytest_kscen.simulation.chaos_mesh.targets import SELF
from pytest_kscen.simulation.network.network import BLOCKED, OPEN, Flow, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.targets import Target
    from pytest_kscen.simulation.network.network import Network


@dataclass(frozen=True, slots=True)
class End:
    """Where a pod's packets come from and go to."""

    machine: str
    address: str = ""
    """Empty if it is the machine's own."""

    @property
    def name(self) -> str:
        return self.address or self.machine

    @classmethod
    def of(cls, pod: Obj) -> End | None:
        """None as long as there is nothing to put a rule on."""
        status, spec = pod.get("status") or {}, pod["spec"]
        if status.get("phase") != "Running" or not status.get("podIP"):
            return None
        return cls(spec["nodeName"], "" if spec.get("hostNetwork") else status["podIP"])


@dataclass(slots=True)
class Rule:
    """What one NetworkChaos does to packets between those that it has selected and its target."""

    direction: str
    passage: Passage
    is_aimed: bool
    """Whether there is a target; without one all packets are meant."""
    ends: dict[Target, End] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()

    def change(self, target: Target, end: End | None) -> None:
        self.ends.pop(target, None)
        if end:
            self.ends[target] = end
        self.sources = frozenset(each.name for other, each in self.ends.items() if other.key == SELF)
        self.targets = frozenset(each.name for other, each in self.ends.items() if other.key != SELF)

    def hits(self, source: str, target: str) -> bool:
        return (self.direction != "from" and self._meets(source, target)) or (
            self.direction != "to" and self._meets(target, source)
        )

    def _meets(self, selected: str, other: str) -> bool:
        return selected in self.sources and (other in self.targets or not self.is_aimed)

    def flows(self, target: Target) -> Iterator[Flow]:
        """Those by which an effect at this end shows itself."""
        here = self.ends[target]
        for other, there in self.ends.items():
            if other.key != target.key and there != here:
                source, peer = (here, there) if target.key == SELF else (there, here)
                if self.direction != "from":
                    yield flow_between(source, peer)
                if self.direction != "to":
                    yield flow_between(peer, source)


def flow_between(source: End, target: End) -> Flow:
    return Flow(source.machine, target.machine, source_address=source.address, target_address=target.address)


class NetworkEffect:
    """All NetworkChaos of a cluster, as one filter on its network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._rules: dict[str, Rule] = {}
        network.join(self.passage)

    def passage(self, flow: Flow) -> Passage:
        """The filter."""
        if not self._rules:
            return OPEN
        source, target = flow.source_address or flow.source, flow.target_address or flow.target
        found = OPEN
        for rule in self._rules.values():
            if rule.hits(source, target):
                found = rule.passage if found is OPEN else found.also(rule.passage)
        return found

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        if pod is None:
            return GONE
        end = End.of(pod)
        if end is None:
            return Wait(f"pod {target.id} does not run")
        uid = chaos["metadata"]["uid"]
        if uid not in self._rules:
            spec = chaos["spec"]
            self._rules[uid] = Rule(spec.get("direction") or "to", passage_of(spec), bool(spec.get("target")))
        rule = self._rules[uid]
        if rule.ends.get(target) != end:
            rule.change(target, end)
            self._network.changed()
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:
        rule = self._rules[chaos["metadata"]["uid"]]
        flows = list(rule.flows(target))
        if rule.is_aimed and not flows:
            return "" if len(rule.ends) > 1 else "there is nobody at the other end yet"
        return "" if all(self._is_felt(rule.passage, flow) for flow in flows) else "its packets pass as before"

    def _is_felt(self, wanted: Passage, flow: Flow) -> bool:
        return self._network.passage(flow).covers(wanted)

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # its rules go with it
        rule = self._rules.get(chaos["metadata"]["uid"])
        if rule and target in rule.ends:
            rule.change(target, None)
            if not rule.ends:
                del self._rules[chaos["metadata"]["uid"]]
            self._network.changed()
        return None

    def forget(self, chaos: Obj) -> None:
        if self._rules.pop(chaos["metadata"]["uid"], None):
            self._network.changed()


def passage_of(spec: Obj) -> Passage:
    """What becomes of the packets."""
    if spec["action"] == "partition":
        return BLOCKED
    raise NotImplementedError(spec["action"])
