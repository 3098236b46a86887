"""Delete leftovers of nodes in the background, with retries: what a node could not delete in
time, or an ended workflow left.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, PARALLEL, SERIAL, STATUS_CHECK, SUSPEND, TASK
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.workflow.engine.actors import ACTORS
from pytest_kscen.workflow.engine.statuses import words_of
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.tables.machine import Act, Happening

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.workflow.engine.actors import Hands
    from pytest_kscen.workflow.engine.reporting import Voice
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.trees import Node, Tree

DELETED = "its workflow was deleted"
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 60.0
"""Seconds between two attempts; each pause is twice as long as the one before."""
REMOVALS = {
    SERIAL: None,
    PARALLEL: None,
    SUSPEND: None,
    TASK: Act.END_POD,
    STATUS_CHECK: Act.DELETE_CHECK,
}


class Remains:
    """One engine's."""

    def __init__(
        self,
        actor: Actor,
        repository: Repository,
        voice: Voice,
        hands: Hands,
        group: asyncio.TaskGroup,
    ) -> None:
        self._actor = actor
        self._repository = repository
        self._voice = voice
        self._hands = hands
        self._group = group

    def leave(self, tree: Tree, node: Node) -> None:
        """The node is over, what it has made is not: the last attempt has just been made."""
        if not node.has_left:
            node.has_left = True
            self._begin(tree, node, after=FIRST_PAUSE)

    def remove(self, tree: Tree, nodes: Iterable[Node], why: str = DELETED) -> None:
        """What these have left; those that are on have failed by that."""
        for node in nodes:
            self._begin(tree, node, why)

    async def clear(self, tree: Tree, node: Node) -> bool:
        """What a node has made is removed, whatever its table says; whether nobody has to see
        that it is gone.
        """
        act = _removal_of(node)
        happening = await ACTORS[act](self._hands, tree, node) if act else None
        return act is not Act.DELETE_CHAOS or happening is Happening.CLEANED

    def _begin(self, tree: Tree, node: Node, why: str = "", after: float = 0.0) -> None:
        self._group.create_task(
            self._insist(tree, node, why, after), name=f"remains of {node.name} of {tree.key}"
        )

    async def _insist(self, tree: Tree, node: Node, why: str, pause: float) -> None:
        while True:
            if pause:
                await self._actor.clock.sleep(pause)
            try:
                if await self._is_done(tree, node, why):
                    return
            except Exception as error:  # noqa: BLE001  # what one workflow leaves stops no other
                about = {"workflow": str(tree.key), "node": node.name, "resource": node.made}
                self._actor.log(logging.WARNING, "left", **about, why=words_of(error))
            pause = min(2 * pause, LONGEST_PAUSE) or FIRST_PAUSE

    async def _is_done(self, tree: Tree, node: Node, why: str) -> bool:
        """Whether nothing is left, and the API knows; of a node that has outlived its workflow
        the API sees to what goes.
        """
        if node.has_left:
            if not await self.clear(tree, node):
                return False
            if await self._is_written(tree, replace(node, has_left=False)):
                node.has_left = False
                self._voice.gone_at_last(tree, node, _removal_of(node))
            return True
        if node.is_over:
            await self._is_written(tree, node)
            return True
        await self.clear(tree, node)
        await self._is_written(tree, replace(node, phase=FAILED, message=why, children=[]))
        return True

    async def _is_written(self, tree: Tree, node: Node) -> bool:
        """Whether the node is still there."""
        try:
            await self._repository.save(tree, node)
        except NotFound:
            return False
        return True


def _removal_of(node: Node) -> Act | None:
    return None if node.name == ROOT else REMOVALS.get(node.template.type, Act.DELETE_CHAOS)
