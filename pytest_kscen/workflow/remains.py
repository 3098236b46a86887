"""What a workflow leaves that is no more: chaos, pods, checks and Schedules of nodes that were on.

A garbage collector removes most of it, but not what was orphaned, and none of it where there is no such collector.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.workflows import FAILED, PARALLEL, SERIAL, STATUS_CHECK, SUSPEND, TASK
from pytest_kscen.workflow.actors import ACTORS
from pytest_kscen.workflow.tables.machine import Act
from pytest_kscen.workflow.trees import ROOT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.workflow.actors import Hands
    from pytest_kscen.workflow.repository import Repository
    from pytest_kscen.workflow.trees import Node, Tree

DELETED = "its workflow was deleted"
AGAIN, TRIES = 10.0, 30
"""Seconds until what was refused is tried again, and how often."""
REMOVALS = {SERIAL: None, PARALLEL: None, SUSPEND: None, TASK: Act.END_POD, STATUS_CHECK: Act.DELETE_CHECK}


class Remains:
    """Of all workflows."""

    def __init__(self, actor: Actor, repository: Repository, hands: Hands, group: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._repository = repository
        self._hands = hands
        self._group = group

    def remove(self, tree: Tree, nodes: Iterable[Node], why: str = DELETED) -> None:
        """What these have made, if they were on: beside all else that goes on."""
        if left := [node for node in nodes if not node.is_over]:
            self._group.create_task(self._remove(tree, left, why), name=f"remains of {tree.key}")

    async def clear(self, tree: Tree, node: Node) -> bool:
        """Whether what it has made is gone, or on its way."""
        try:
            act = None if node.name == ROOT else REMOVALS.get(node.template.type, Act.DELETE_CHAOS)
            if act:
                await ACTORS[act](self._hands, tree, node)
        except Exception as error:  # noqa: BLE001  # what one workflow leaves stops no other
            self._refused(tree, node, "cannot be removed", error)
            return False
        return True

    async def _remove(self, tree: Tree, nodes: list[Node], why: str) -> None:
        for _ in range(TRIES):
            nodes = [node for node in nodes if not await self._is_done(tree, node, why)]
            if not nodes:
                return
            await self._actor.clock.sleep(AGAIN)

    async def _is_done(self, tree: Tree, node: Node, why: str) -> bool:
        """Whether nothing is left to be done for it; a node that has outlived its workflow is over by that."""
        if not await self.clear(tree, node):
            return False
        try:
            await self._repository.save(tree, replace(node, phase=FAILED, message=why, children=[]))
        except NotFound:
            return True
        except Exception as error:  # noqa: BLE001  # as above
            self._refused(tree, node, "refused", error)
            return False
        return True

    def _refused(self, tree: Tree, node: Node, what: str, error: Exception) -> None:
        self._actor.log(logging.WARNING, what, workflow=str(tree.key), node=node.name, error=str(error))
