"""Run the probes of nodes and workflows: before they start, while they run, before they end.

Called by `transitions`. A node with Start probes begins when these have passed; one with End probes
is over when these have run. Results come back as events; no phase is changed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, SUCCEED
from pytest_kscen.objects.resources import owner_reference
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.probes import ProbeRunner
from pytest_kscen.workflow.tables.machine import EventType, NodeEvent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.engine.triggers import OperableTrigger
    from pytest_kscen.workflow.probes import Probe, ProbeVerdict
    from pytest_kscen.workflow.tables.machine import WorkflowKey


@dataclass(slots=True, eq=False)
class NodeProbes:
    """Probes of one node in one of its attempts. A retry gets a new instance, so verdicts of a
    failed attempt do not count for the next one. The tasks are the engine's; `close` cancels them.
    """

    runner: ProbeRunner
    attempt: int
    has_begun: bool = False
    has_ended: bool = False
    awaited: NodeEvent | None = None
    """Event that is sent again when the End probes have run."""
    failure: str = ""
    """Message of the failed last probe, by which the node fails."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def close(self) -> None:
        self.runner.close()
        for task in self.tasks:
            task.cancel()


class ProbeCoordinator:
    """Starts, cancels and reports the probes of all workflows of one engine.

    Probes run in tasks of the engine's group, concurrently with the processing of events, and
    report by events of their node. Results survive a restart of the engine in `status.probes`.
    """

    def __init__(self, actor: Actor, trigger: OperableTrigger, group: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._trigger = trigger
        self._group = group
        self._of: dict[tuple[WorkflowKey, str], NodeProbes] = {}

    def defers_start(self, tree: Tree, node: TreeNode, event: NodeEvent) -> bool:
        """Start the node's Start probes; return True if the event has to wait for them.

        The same event is sent again when they have passed.
        """
        node_probes = self._probes_of(tree, node)
        if node_probes is None or node_probes.has_begun:
            return False
        is_resumed = event.event_type is EventType.RESUMED
        if is_resumed and node.phase == INIT:  # the table starts it by this event
            return False
        node_probes.has_begun = True
        if is_resumed:
            node_probes.runner.begin_continuous()
            node_probes.runner.chaos_is_on(_has_chaos(tree, node))
            return False

        async def run_first_probes() -> None:
            if why := _failure(await node_probes.runner.at_start()):
                self._trigger.notify(
                    NodeEvent(
                        event.workflow, event.node, EventType.FAULT, f"before it began, {why}"
                    )
                )
                return
            node_probes.runner.begin_continuous()
            self._trigger.notify(event)

        self._start(
            node_probes, run_first_probes, event, f"first probes of {node.name or tree.key}"
        )
        return True

    def defers_end(self, tree: Tree, node: TreeNode, event: NodeEvent) -> bool:
        """Start the node's End probes; return True if the end has to wait for them.

        A node that has not begun is not probed.
        """
        if node.phase == INIT:
            if known := self._of.get((tree.key, node.name)):
                known.close()
            return False
        node_probes = self._probes_of(tree, node)
        if node_probes is None or node_probes.has_ended:
            return False
        node_probes.has_ended, node_probes.awaited = True, event

        async def run_last_probes() -> None:
            node_probes.failure = _failure(await node_probes.runner.at_end())
            node_probes.awaited = None
            self._trigger.notify(event)

        self._start(node_probes, run_last_probes, event, f"last probes of {node.name or tree.key}")
        return True

    def awaits_last_probes(self, tree: Tree, node: TreeNode) -> bool:
        """Return True if the node ends when its End probes have run; no deadline changes that."""
        node_probes = self._of.get((tree.key, node.name))
        return node_probes is not None and node_probes.awaited is not None

    def cancel_last_probes(self, tree: Tree, node: TreeNode) -> None:
        """Cancel the End probes of a node, and end it without their results."""
        node_probes = self._of.get((tree.key, node.name))
        if node_probes and node_probes.awaited:
            node_probes.close()
            self._trigger.notify(node_probes.awaited)
            node_probes.awaited = None

    def result(self, tree: Tree, node: TreeNode, phase: str) -> tuple[str, str]:
        """Return the phase after the probes' verdicts, and a message if they have changed it."""
        node_probes = self._of.get((tree.key, node.name))
        if (
            node_probes
            and node_probes.failure
            and (phase == SUCCEED or node.ending is EventType.PARENT_DEADLINE)
        ):
            return FAILED, node_probes.failure
        return phase, ""

    def chaos_changed(self, tree: Tree, node: TreeNode) -> None:
        """Start or stop the OnChaos probes of the node and of all its ancestors."""
        above: TreeNode | None = node
        while above:
            if node_probes := self._of.get((tree.key, above.name)):
                node_probes.runner.chaos_is_on(_has_chaos(tree, above))
            above = None if above.parent is None else tree.node(above.parent)

    def shown(self, tree: Tree, node: TreeNode) -> list[Obj]:
        """Return the results for a node's status; the workflow's status has all nodes' results."""
        if node.name != ROOT:
            return self._results(tree, node)
        return [
            result for each in (node, *tree.nodes.values()) for result in self._results(tree, each)
        ]

    def forget(self, tree: Tree) -> None:
        """Cancel all probes of a workflow, before another one of its name may appear."""
        for each in (tree.root, *tree.nodes.values()):
            if node_probes := self._of.pop((tree.key, each.name), None):
                node_probes.close()

    def _results(self, tree: Tree, node: TreeNode) -> list[Obj]:
        node_probes = self._of.get((tree.key, node.name))
        named = {"node": node.name} if node.name else {}
        return (
            [{**result, **named} for result in node_probes.runner.results]
            if node_probes
            else _previous_results(node)
        )

    def _probes_of(self, tree: Tree, node: TreeNode) -> NodeProbes | None:
        """Return the probes of this attempt, created at the first call; None if the node has
        none.
        """
        probes = tree.definition.probes if node.name == ROOT else node.template.probes
        if not probes:
            return None
        known = self._of.get((tree.key, node.name))
        if known is None or known.attempt != node.attempt:
            previous = [] if known else _previous_results(node)
            key, name = tree.key, node.name
            subject = {
                "workflow": key.name,
                "namespace": key.namespace,
                **({"node": name} if name else {}),
            }

            def failed(probe: Probe, why: str) -> None:
                self._trigger.notify(
                    NodeEvent(
                        key, name, EventType.FAULT, f"the probe {probe.name!r} has failed: {why}"
                    )
                )

            def judged() -> None:
                self._trigger.notify(NodeEvent(key, name, EventType.VERDICT_CHANGED))

            owner, group = owner_reference(node.obj), self._group
            known = self._of[tree.key, node.name] = NodeProbes(
                ProbeRunner(
                    self._actor,
                    probes,
                    subject,
                    failed,
                    judged=judged,
                    group=group,
                    owner=owner,
                    before=previous,
                ),
                node.attempt,
            )
        return known

    def _start(
        self,
        node_probes: NodeProbes,
        ask: Callable[[], Awaitable[None]],
        event: NodeEvent,
        name: str,
    ) -> None:
        """Run probes in a task of the engine's group.

        An error becomes a fault of this node alone, and the end of its probes is not awaited.
        """

        async def run() -> None:
            try:
                await ask()
            except Exception as error:  # noqa: BLE001  # an error of one workflow affects no other
                node_probes.awaited = None
                self._trigger.notify(
                    NodeEvent(
                        event.workflow,
                        event.node,
                        EventType.FAULT,
                        f"its probes cannot be run: {error!r}",
                    )
                )

        task = self._group.create_task(run(), name=name)
        node_probes.tasks.add(task)
        task.add_done_callback(node_probes.tasks.discard)


def _failure(verdicts: list[ProbeVerdict]) -> str:
    """Return the message of the first verdict that fails its node, or an empty text."""
    for verdict in verdicts:
        if verdict.stops:
            return f"the probe {verdict.probe.name!r} has failed: {verdict.message}"
    return ""


def _previous_results(node: TreeNode) -> list[Obj]:
    """Return the results that a previous engine wrote for the node's own probes.

    A workflow's status has the results of all nodes; only the workflow's own are returned.
    """
    written = (node.obj.get("status") or {}).get("probes") or []
    return [result for result in written if result.get("node", ROOT) == node.name]


def _has_chaos(tree: Tree, node: TreeNode) -> bool:
    return any(each.template.is_chaos and each.phase == HOLDING for each in tree.below(node))
