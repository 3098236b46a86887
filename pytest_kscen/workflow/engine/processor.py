"""Process the events of running workflows: one transition of a node after the other.

Called by the manager's workers. Owns the writer of statuses, and is what a transition acts through:
it sends events, creates children, and hands leftovers to the background. It decides no phase.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.workflow.engine.pending_writes import NodeStatusWriter, StatusRefused
from pytest_kscen.workflow.engine.transitions import OUTSIDE_EVENTS, Transition
from pytest_kscen.workflow.engine.trees import ROOT, not_over
from pytest_kscen.workflow.tables.machine import (
    DEADLINE_EVENTS,
    STARTING_EVENTS,
    EventType,
    NodeActionError,
    NodeEvent,
)

if TYPE_CHECKING:
    from pytest_kscen.workflow.engine.actors import ActorClients
    from pytest_kscen.workflow.engine.cleanup import LeftoverCleaner
    from pytest_kscen.workflow.engine.node_probes import ProbeCoordinator
    from pytest_kscen.workflow.engine.reporting import EventReporter
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.templates import Template
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.engine.triggers import OperableTrigger

MOST_NODES = 10_000
"""Limit of nodes per workflow: branches may lead back, and a loop has to end."""


class EventProcessor:
    """Processes the events of all workflows of one engine; shared by all workers.

    Events of one workflow never overlap, as the queue hands them out one at a time. An exception in
    a transition becomes a fault of its own node, so that no workflow affects another.
    """

    def __init__(
        self,
        repository: Repository,
        trigger: OperableTrigger,
        reporter: EventReporter,
        clients: ActorClients,
        probe_coordinator: ProbeCoordinator,
        *,
        cleaner: LeftoverCleaner,
    ) -> None:
        self.clients = clients
        self.reporter = reporter
        self.probe_coordinator = probe_coordinator
        self._cleaner = cleaner
        self._clock = clients.node_objects.clock
        self._repository = repository
        self._trigger = trigger
        self.status_writer = NodeStatusWriter(
            repository, trigger, reporter, self._clock, self._write
        )

    async def take(self, event: NodeEvent) -> None:
        """Process one event. Events of unknown workflows, of ended nodes and expired ones are
        dropped.
        """
        tree = self._repository.trees.get(event.workflow)
        if tree and event.event_type is EventType.RETRY_WRITES:
            await self.status_writer.retry_writes(tree)
            return
        node = tree.node(event.node) if tree else None
        if (
            tree is None
            or node is None
            or node.is_over
            or event.phase_count not in (-1, node.phase_count)
        ):
            return
        if event.about and event.about != node.object_name:
            return
        if event.event_type is EventType.VERDICT_CHANGED:
            await self._save_status(tree, node)
            return
        if event.event_type is EventType.POD_WAITS:
            node.waiting_reason = event.message
            self.reporter.report_wait(tree, node)
            await self._save_status(tree, node)
            return
        if self.probe_coordinator.awaits_last_probes(tree, node):
            if event.event_type not in OUTSIDE_EVENTS:
                node.retry_forbidden = (
                    node.retry_forbidden or event.event_type in DEADLINE_EVENTS
                )  # no time is left for another attempt
                return
            self.probe_coordinator.cancel_last_probes(tree, node)
        await Transition(self, tree, node, event).take()
        if not self._repository.is_current(
            tree
        ):  # deleted meanwhile; this event may have created an object
            self._cleaner.remove(tree, not_over([node]))

    async def _save_status(self, tree: Tree, node: TreeNode) -> None:
        with contextlib.suppress(StatusRefused):
            await self.status_writer.save(tree, node)

    async def _write(self, tree: Tree, node: TreeNode) -> None:
        node.probes = self.probe_coordinator.shown(tree, node)
        try:
            await self._repository.save(tree, node)
        except NotFound:  # deleted by a user; its objects are still to be deleted
            if node.name == ROOT:
                self.forget(tree)

    def forget(self, tree: Tree) -> None:
        """Forget a deleted workflow, and clean up what it has created; its name may be taken
        again.
        """
        if self._repository.is_current(tree):
            self._repository.forget(tree)
            self.status_writer.forget(tree)
            self.probe_coordinator.forget(tree)
            self._trigger.forget(tree.key)
            self._cleaner.remove(tree, not_over(tree.nodes.values()))

    def has_more(self, tree: Tree) -> bool:
        return self._trigger.waits(tree.key)

    def send(self, tree: Tree, event: NodeEvent, *, by: TreeNode) -> None:
        """Send an event. One that starts something new waits until the sender's status is
        written.
        """
        if not self._repository.is_current(tree):
            return
        if event.event_type in STARTING_EVENTS and self.status_writer.is_pending(tree, by):
            self.status_writer.hold(tree, by, event)
        else:
            self._trigger.notify(event)

    def send_later(
        self,
        tree: Tree,
        node: TreeNode,
        event_type: EventType,
        instant: float,
        *,
        expires: bool = True,
    ) -> None:
        if self._repository.is_current(tree):
            event = NodeEvent(
                tree.key,
                node.name,
                event_type,
                phase_count=node.phase_count if expires else -1,
            )
            self._trigger.notify_delay(event, instant - self.now())

    async def clear(self, tree: Tree, node: TreeNode) -> None:
        """Delete a node's object once; after a failure it is retried in the background, and the
        transition continues.
        """
        try:
            await self._cleaner.clear(tree, node)
        except Exception:  # noqa: BLE001  # retried in the background
            self.leave(tree, node)

    def leave(self, tree: Tree, node: TreeNode) -> None:
        self._cleaner.leave(tree, node)

    async def make(self, tree: Tree, parent: TreeNode, templates: list[Template]) -> None:
        """Create the next children; raise NodeActionError beyond `MOST_NODES`."""
        tree.node_count += len(templates)
        if tree.node_count > MOST_NODES:
            raise NodeActionError(
                f"the workflow would come to more than {MOST_NODES} nodes: check its branches "
                "for a loop that never ends"
            )
        made: list[TreeNode] = []
        try:
            for template in templates:
                # those created before a refusal are reported
                made.append(await self._repository.make(tree, parent, template))  # noqa: PERF401
        finally:
            if made:
                self.reporter.report_created(tree, parent, made)

    def now(self) -> float:
        return self._clock.now()
