"""Delete leftovers of nodes in the background, with retries.

Leftovers are objects that a node could not delete in time, or that an ended or deleted workflow
left behind. Called by `transitions` and by the manager when the engine starts; every retry runs in
a task of its own, so no workflow waits for it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, PARALLEL, SERIAL, STATUS_CHECK, SUSPEND, TASK
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.workflow.engine.actors import ACTORS
from pytest_kscen.workflow.engine.statuses import error_text
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.tables.machine import EventType, NodeAction

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.workflow.engine.actors import ActorClients
    from pytest_kscen.workflow.engine.reporting import EventReporter
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode

WORKFLOW_DELETED = "its workflow was deleted"
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 60.0
"""Seconds between two attempts; each pause is twice as long as the one before."""
REMOVALS = {
    SERIAL: None,
    PARALLEL: None,
    SUSPEND: None,
    TASK: NodeAction.DELETE_POD,
    STATUS_CHECK: NodeAction.DELETE_CHECK,
}


class LeftoverCleaner:
    """Deletes the leftovers of all workflows of one engine, in tasks of the engine's task group.

    Each task retries until its object is gone, with growing pauses of at most `LONGEST_PAUSE`. Once
    it is gone, the node's condition `ChaosLeft` becomes False.
    """

    def __init__(
        self,
        actor: Actor,
        repository: Repository,
        reporter: EventReporter,
        clients: ActorClients,
        group: asyncio.TaskGroup,
    ) -> None:
        self._actor = actor
        self._repository = repository
        self._reporter = reporter
        self._clients = clients
        self._group = group

    def leave(self, tree: Tree, node: TreeNode) -> None:
        """Continue a deletion that has just failed, beginning after a pause. Repeated calls do
        nothing.
        """
        if not node.has_leftovers:
            node.has_leftovers = True
            self._begin(tree, node, after=FIRST_PAUSE)

    def remove(self, tree: Tree, nodes: Iterable[TreeNode], why: str = WORKFLOW_DELETED) -> None:
        """Delete the objects of these nodes now. Nodes that are not over are then Failed with this
        message.
        """
        for node in nodes:
            self._begin(tree, node, why)

    async def clear(self, tree: Tree, node: TreeNode) -> bool:
        """Delete a node's object once; return whether its end need not be awaited any more.

        Chaos counts as deleted when the API no longer has it; other objects when the deletion is
        accepted.
        """
        act = _removal_of(node)
        event_type = await ACTORS[act](self._clients, tree, node) if act else None
        return act is not NodeAction.DELETE_CHAOS or event_type is EventType.CLEANED

    def _begin(self, tree: Tree, node: TreeNode, why: str = "", after: float = 0.0) -> None:
        self._group.create_task(
            self._insist(tree, node, why, after), name=f"cleanup of {node.name} of {tree.key}"
        )

    async def _insist(self, tree: Tree, node: TreeNode, why: str, pause: float) -> None:
        while True:
            if pause:
                await self._actor.clock.sleep(pause)
            try:
                if await self._is_done(tree, node, why):
                    return
            except Exception as error:  # noqa: BLE001  # an error of one workflow affects no other
                about = {"workflow": str(tree.key), "node": node.name, "resource": node.object_name}
                self._actor.log(logging.WARNING, "leftover", **about, why=error_text(error))
            pause = min(2 * pause, LONGEST_PAUSE) or FIRST_PAUSE

    async def _is_done(self, tree: Tree, node: TreeNode, why: str) -> bool:
        """Make one attempt; return whether the object is gone and the node's status is written.

        The status of a node that was deleted with its workflow is not written: the API has dropped
        it.
        """
        if node.has_leftovers:
            if not await self.clear(tree, node):
                return False
            if await self._is_written(tree, replace(node, has_leftovers=False)):
                node.has_leftovers = False
                self._reporter.report_late_deletion(tree, node, _removal_of(node))
            return True
        if node.is_over:
            await self._is_written(tree, node)
            return True
        await self.clear(tree, node)
        await self._is_written(tree, replace(node, phase=FAILED, message=why, children=[]))
        return True

    async def _is_written(self, tree: Tree, node: TreeNode) -> bool:
        """Save the node's status; return False if the node is gone from the API."""
        try:
            await self._repository.save(tree, node)
        except NotFound:
            return False
        return True


def _removal_of(node: TreeNode) -> NodeAction | None:
    return None if node.name == ROOT else REMOVALS.get(node.template.type, NodeAction.DELETE_CHAOS)
