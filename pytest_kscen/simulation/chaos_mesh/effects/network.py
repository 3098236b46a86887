"""NetworkChaos: rules at the selected pods' ends of the network, which it asks afterwards what becomes of the packets.

A pod is known by its address; one on the host's network is its machine. A rule goes with the network namespace that it is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait
from pytest_kscen.simulation.chaos_mesh.effects.packets import passage_of
from pytest_kscen.simulation.chaos_mesh.effects.rules import End, Rule
from pytest_kscen.simulation.network.network import OPEN, Flow, Passage

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.effects.names import Names
    from pytest_kscen.simulation.chaos_mesh.targets import Target
    from pytest_kscen.simulation.network.network import Network

DEVICES = ("", "eth0")


class NetworkEffect:
    """All NetworkChaos of a cluster, as one filter on its network."""

    def __init__(self, network: Network, names: Names) -> None:
        self._network = network
        self._names = names
        self._rules: dict[str, Rule] = {}
        self._decided: dict[Flow, Passage] = {}
        network.join(self.passage)

    def passage(self, flow: Flow) -> Passage:
        """The filter."""
        if not self._rules:
            return OPEN
        if flow not in self._decided:
            self._decided[flow] = self._decide(flow)
        return self._decided[flow]

    def _decide(self, flow: Flow) -> Passage:
        source, target = End(flow.source, flow.source_address), End(flow.target, flow.target_address)
        found = OPEN
        for rule in self._rules.values():
            if rule.hits(source, target, flow.port):
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
            try:
                self._rules[uid] = await self._rule(chaos["spec"])
            except ValueError as why:
                return Wait(str(why))
        rule = self._rules[uid]
        if rule.ends.get(target) != end:
            rule.change(target, end)
            self._changed()
        return None

    async def _rule(self, spec: Obj) -> Rule:
        for device in (spec.get("device") or "", (spec.get("targetDevice") or "") if spec.get("target") else ""):
            if device not in DEVICES:
                raise ValueError(f'Cannot find device "{device}"')
        outside = [await self._names.resolve(each) for each in spec.get("externalTargets") or ()]
        return Rule(spec.get("direction") or "to", passage_of(spec), bool(spec.get("target")), tuple(outside))

    def unseen(self, chaos: Obj, target: Target) -> str:
        rule = self._rules[chaos["metadata"]["uid"]]
        flows = rule.flows(target) or rule.all_flows()  # one that meets nobody but itself is as the others are
        if not flows:
            return "there is nobody at the other end"
        felt = all(self._network.passage(flow).covers(rule.passage) for flow in flows)
        return "" if felt else "its packets pass as before"

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # its rules go with it
        rule = self._rules.get(chaos["metadata"]["uid"])
        if rule and target in rule.ends:
            rule.change(target, None)
            if not rule.ends:
                del self._rules[chaos["metadata"]["uid"]]
            self._changed()
        return None

    def forget(self, chaos: Obj) -> None:
        if self._rules.pop(chaos["metadata"]["uid"], None):
            self._changed()

    def _changed(self) -> None:
        self._decided.clear()
        self._network.changed()
