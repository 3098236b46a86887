"""Write node statuses; keep refused statuses and retry until the API server accepts them.

Called by `transitions` for every status. While a status is pending, the workflow's message names
it, and events that would start something new are held back. After `WRITE_TIMEOUT` the workflow has
failed; retries continue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.workflow.engine.statuses import error_text
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.tables.machine import EventType, NodeEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.workflow.engine.reporting import EventReporter
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.engine.triggers import OperableTrigger
    from pytest_kscen.workflow.tables.machine import WorkflowKey

    Write = Callable[[Tree, TreeNode], Awaitable[None]]

WRITE_TIMEOUT = 300.0
"""Seconds of refusals after which a workflow has failed."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds between retries; each pause is twice as long as the previous one."""
FAST_REFUSAL = 1.0
"""Seconds within which a refusal counts as fast; slower ones stop further writes until the
retry.
"""


class StatusRefused(Exception):
    """Report that a status was refused or not sent, and is pending now."""


@dataclass(slots=True)
class PendingWrite:
    """Unwritten status of one node, with the reason of the last refusal."""

    node: TreeNode
    why: str
    held: list[NodeEvent] = field(default_factory=list)
    """Events held back until it is written."""

    @property
    def subject(self) -> str:
        return self.node.name or "the workflow"


@dataclass(slots=True)
class PendingWrites:
    """Pending statuses of one workflow, with the time of the next retry."""

    since: float
    next: float
    """Time of the next retry, in seconds since the epoch."""
    pause: float = FIRST_PAUSE
    writes: dict[str, PendingWrite] = field(default_factory=dict)
    slow: dict[bool, str] = field(default_factory=dict)
    """Reasons of slow refusals, by True for the workflow's own status and False for nodes: such
    statuses are not written before the next retry.
    """
    annotations_refused: bool = False
    """Annotations of refused statuses are refused as well, and no longer sent."""
    gave_up: bool = False


class NodeStatusWriter:
    """Writer of the statuses of one engine's nodes; refused writes are retried.

    A refused status is also stored in an annotation, so that a restarted engine does not repeat
    actions. Retries are events of the workflow's root.
    """

    def __init__(
        self,
        repository: Repository,
        trigger: OperableTrigger,
        reporter: EventReporter,
        clock: Clock,
        write: Write,
    ) -> None:
        self._repository = repository
        self._trigger = trigger
        self._reporter = reporter
        self._clock = clock
        self._write = write
        self._pending: dict[WorkflowKey, PendingWrites] = {}

    async def save(self, tree: Tree, node: TreeNode) -> None:
        """Write the node's status; raise StatusRefused if it is refused, or if writes are suspended
        after slow refusals.
        """
        pending = self._pending.get(tree.key)
        why = pending.slow.get(node.name == ROOT) if pending else None
        if why is None:
            why = await self._try_write(tree, node)
        if why is not None:
            await self._add(tree, node, why)
            raise StatusRefused(why)
        if pending and not pending.writes:
            await self._close(tree)

    def is_pending(self, tree: Tree, node: TreeNode) -> bool:
        pending = self._pending.get(tree.key)
        return pending is not None and node.name in pending.writes

    def hold(self, tree: Tree, node: TreeNode, event: NodeEvent) -> None:
        """Hold an event until the node's status is written; fail the node if `WRITE_TIMEOUT` is
        over.
        """
        pending = self._pending[tree.key]
        if pending.gave_up:
            self._send_fault(pending.writes[node.name], event)
        else:
            pending.writes[node.name].held.append(event)

    def resume(self, tree: Tree, node: TreeNode) -> None:
        """Take over a status that a previous engine could only note in an annotation."""
        self._pending_of(tree).writes[node.name] = PendingWrite(
            node, "refused while the previous engine was running"
        )

    def forget(self, tree: Tree) -> None:
        self._pending.pop(tree.key, None)

    async def retry_writes(self, tree: Tree) -> None:
        """Write all pending statuses of a workflow again, if their retry is due.

        After `WRITE_TIMEOUT` seconds of refusals the workflow fails once; retries continue.
        """
        pending = self._pending.get(tree.key)
        if pending is None or pending.next > self._clock.now():
            return
        pending.slow.clear()
        was_refused = False
        for write in list(pending.writes.values()):
            if write.node.name == ROOT or False not in pending.slow:
                why = await self._try_write(tree, write.node)
                write.why = why or write.why
                was_refused = was_refused or why is not None
        if self._pending.get(tree.key) is not pending:  # it was deleted meanwhile
            return
        if not pending.writes:
            await self._close(tree)
            return
        pending.pause = min(2 * pending.pause, LONGEST_PAUSE) if was_refused else FIRST_PAUSE
        if not pending.gave_up and self._clock.now() >= pending.since + WRITE_TIMEOUT:
            # The workflow fails, and held events become faults of their nodes.
            pending.gave_up = True
            first = next(iter(pending.writes.values()))
            self._trigger.notify(
                NodeEvent(tree.key, ROOT, EventType.FAULT, _timeout_message(first))
            )
            for write in pending.writes.values():
                events, write.held = write.held, []
                for event in events:
                    self._send_fault(write, event)
        self._schedule_retry(tree, pending)
        await self._report(tree, pending)

    async def _try_write(self, tree: Tree, node: TreeNode) -> str | None:
        """Write a status; return the reason if it is refused, None if it is written.

        A written status releases its held events, in their order.
        """
        began = self._clock.now()
        try:
            await self._write(tree, node)
        except (ApiError, OSError) as error:
            if self._clock.now() - began > FAST_REFUSAL:
                self._pending_of(tree).slow[node.name == ROOT] = error_text(error)
            return error_text(error)
        if (pending := self._pending.get(tree.key)) and (
            write := pending.writes.pop(node.name, None)
        ):
            for event in write.held:
                self._trigger.notify(event)
            await self._annotate(tree, pending, node, is_written=True)
        return None

    async def _add(self, tree: Tree, node: TreeNode, why: str) -> None:
        pending = self._pending_of(tree)
        if node.name not in pending.writes:
            self._reporter.report_refused_status(tree, node, why)
            pending.writes[node.name] = PendingWrite(node, why)
        await self._annotate(tree, pending, node)
        await self._report(tree, pending)

    async def _annotate(
        self, tree: Tree, pending: PendingWrites, node: TreeNode, *, is_written: bool = False
    ) -> None:
        """Note a refused status in an annotation, for an engine that is started later.

        Once annotations of this workflow are refused as well, none are sent any more.
        """
        if pending.annotations_refused or (is_written and not node.noted_at):
            return
        try:
            await self._repository.note(tree, node, is_written=is_written)
        except NotFound:
            return
        except (ApiError, OSError):
            pending.annotations_refused = True

    async def _report(self, tree: Tree, pending: PendingWrites) -> None:
        write = next(iter(pending.writes.values()))
        hindrance = f"the status of {write.subject} cannot be written: {write.why}"
        if hindrance != tree.root.waiting_reason:
            tree.root.waiting_reason = hindrance
            self._reporter.report_hindrance(tree, hindrance)
            await self._write_message(tree)

    async def _close(self, tree: Tree) -> None:
        """Drop the empty record, and write the workflow's message once more, without the
        hindrance.
        """
        del self._pending[tree.key]
        tree.root.waiting_reason = ""
        self._reporter.report_hindrance(tree, "")
        await self._write_message(tree)

    async def _write_message(self, tree: Tree) -> None:
        pending = self._pending.get(tree.key)
        if pending and (ROOT in pending.writes or True in pending.slow):
            return
        if (why := await self._try_write(tree, tree.root)) is not None:
            await self._add(tree, tree.root, why)

    def _pending_of(self, tree: Tree) -> PendingWrites:
        if tree.key not in self._pending:
            now = self._clock.now()
            self._pending[tree.key] = PendingWrites(now, now)
            self._schedule_retry(tree, self._pending[tree.key])
        return self._pending[tree.key]

    def _schedule_retry(self, tree: Tree, pending: PendingWrites) -> None:
        now, latest = self._clock.now(), pending.since + WRITE_TIMEOUT
        pending.next = (
            now + pending.pause if pending.gave_up else min(now + pending.pause, max(latest, now))
        )
        self._trigger.notify_delay(
            NodeEvent(tree.key, ROOT, EventType.RETRY_WRITES), pending.next - now
        )

    def _send_fault(self, write: PendingWrite, event: NodeEvent) -> None:
        """Send a fault in place of a held event, so that the node ends and starts nothing new."""
        tree = self._repository.trees.get(event.workflow)
        if tree and (node := tree.node(event.node)):
            node.retry_forbidden = True
        self._trigger.notify(
            NodeEvent(event.workflow, event.node, EventType.FAULT, _timeout_message(write))
        )


def _timeout_message(write: PendingWrite) -> str:
    return (
        f"the status of {write.subject} could not be written within {WRITE_TIMEOUT:g} s: "
        f"{write.why}"
    )
