"""An extender as a configuration describes it: which questions it is asked, and what its answers mean."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.simulation.scheduler.extenders import wire
from pytest_kscen.simulation.scheduler.extenders.posting import Door
from pytest_kscen.simulation.scheduler.framework.extending import ExtenderError, Filtered, Victims

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.configuration.model import ExtenderConfiguration
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.snapshot import Snapshot


class HttpExtender:
    """A `framework.extending.Extender`. Its raw answers are recorded with the attempt."""

    def __init__(self, configuration: ExtenderConfiguration, snapshot: Snapshot) -> None:
        self.name = configuration.url
        self.weight = configuration.weight
        self.ignorable = configuration.ignorable
        self.filters = bool(configuration.filter)
        self.prioritizes = bool(configuration.prioritize)
        self.preempts = bool(configuration.preempt)
        self.binds = bool(configuration.bind)
        self._configuration = configuration
        self._by_name = configuration.node_cache_capable
        self._managed = frozenset(configuration.managed)
        self._snapshot = snapshot
        self._door = Door(configuration)

    def interested(self, pod: PodInfo) -> bool:
        """Whether the pod asks for something that this extender looks after."""
        if not self._managed:
            return True
        containers = [*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())]
        return any(not self._managed.isdisjoint(_resources(container)) for container in containers)

    async def filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Filtered:
        question = wire.about_nodes(pod.obj, nodes, by_name=self._by_name)
        answer = await self._ask(state, "filter", self._configuration.filter, question)
        by_name = {node.name: node for node in nodes}
        with self._reading():
            found = wire.nodes_in(answer, by_name=self._by_name)
            never = dict(wire.field(answer, "FailedAndUnresolvableNodes") or {})
            failed = {node: why for node, why in (wire.field(answer, "FailedNodes") or {}).items() if node not in never}
        for name in found:
            if name not in by_name:
                words = f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(words)
        return Filtered([by_name[name] for name in found], failed, never)

    async def prioritize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        question = wire.about_nodes(pod.obj, nodes, by_name=self._by_name)
        answer = await self._ask(state, "prioritize", self._configuration.prioritize, question)
        with self._reading():
            return wire.scores_in(answer)

    async def preempt(self, state: CycleState, pod: PodInfo, victims: dict[str, Victims]) -> dict[str, Victims]:
        question = wire.about_victims(pod.obj, victims, by_name=self._by_name)
        answer = await self._ask(state, "preempt", self._configuration.preempt, question)
        with self._reading():
            return {node: Victims(self._pods(node, uids), violations) for node, uids, violations in wire.victims_in(answer)}

    def _pods(self, name: str, uids: list[str]) -> list[PodInfo]:
        node = self._snapshot.get(name)
        if node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        for uid in uids:
            if uid not in node.pods:
                words = f"claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on that node"
                raise ExtenderError(f"extender: {self.name} {words}")
        return [node.pods[uid] for uid in uids]

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        await self._ask(state, "bind", self._configuration.bind, wire.about_binding(pod.obj, node))

    async def _ask(self, state: CycleState, what: str, verb: str, question: Obj) -> Any:
        answer = await self._door.post(verb, question)
        if state.attempt is not None:
            state.attempt.extenders.setdefault(what, {})[self.name] = answer
        if error := wire.field(answer, "Error"):
            raise ExtenderError(error)
        return answer

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExtenderError(f"the answer of the extender {self.name} is not what was asked for: {error!r}") from None


def _resources(container: Obj) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or ()), *(resources.get("limits") or ())}
