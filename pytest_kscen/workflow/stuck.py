"""What nodes could not remove in time: it is tried for as long as it takes, also when the workflow has long failed.

A node's condition tells that something of it is left, so an engine that is started anew goes on with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.workflow.actors import delete_chaos
from pytest_kscen.workflow.events import Happening, Impossible
from pytest_kscen.workflow.turns import CLEANED_AGAIN

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.workflow.actors import Hands
    from pytest_kscen.workflow.repository import Repository
    from pytest_kscen.workflow.trees import Node, Tree
    from pytest_kscen.workflow.voice import Voice

LONGEST_PAUSE = 60.0
"""Seconds between two attempts; each pause is twice as long as the one before."""


class Stuck:
    """One engine's."""

    def __init__(self, actor: Actor, repository: Repository, voice: Voice, group: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._repository = repository
        self._voice = voice
        self._group = group

    def take(self, hands: Hands, tree: Tree, node: Node) -> None:
        self._group.create_task(self._remove(hands, tree, node), name=f"what {node.name} has left")

    async def _remove(self, hands: Hands, tree: Tree, node: Node) -> None:
        pause = CLEANED_AGAIN
        while True:
            await self._actor.clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                if await delete_chaos(hands, tree, node) is Happening.CLEANED:
                    await self._tell(tree, node)
                    return
            except (ApiError, OSError, Impossible) as error:
                self._actor.log(logging.WARNING, "left", workflow=str(tree.key), node=node.name, resource=node.made, why=str(error))

    async def _tell(self, tree: Tree, node: Node) -> None:
        node.has_left = False
        try:
            await self._repository.save(tree, node)
        except NotFound:  # neither is the node
            return
        self._voice.gone_at_last(tree, node)
