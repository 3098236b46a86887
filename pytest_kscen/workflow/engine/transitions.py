"""Transition of one node by one event: carry out the cell that its state table has for it.

Called by `processor`, one event per workflow at a time. The status is written before any
action on the cluster and before any notification, so that an interrupted engine can resume from the
API; repeating an action changes nothing. A phase that the node's own next event ends at once is
written together with that event's result.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, OVER, TASK
from pytest_kscen.workflow.container_output import missing_command_message
from pytest_kscen.workflow.engine.actors import (
    ACTORS,
    CREATING_ACTIONS,
    DELETING_ACTIONS,
    SAVE_BEFORE,
)
from pytest_kscen.workflow.engine.cleanup import FIRST_PAUSE
from pytest_kscen.workflow.engine.pending_writes import StatusRefused
from pytest_kscen.workflow.engine.statuses import error_text
from pytest_kscen.workflow.engine.templates import may_retry
from pytest_kscen.workflow.engine.trees import ROOT, deadline_message, not_over
from pytest_kscen.workflow.tables import WORKFLOW, state_machine_of
from pytest_kscen.workflow.tables.machine import (
    DEADLINE_EVENTS,
    PASSED_TO_CHILDREN,
    Delay,
    Enter,
    EventType,
    Finish,
    NodeAction,
    NodeEvent,
    Notify,
    NotifyAfter,
    Recipient,
)

if TYPE_CHECKING:
    from pytest_kscen.workflow.engine.processor import EventProcessor
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.tables.machine import Step

INJECTED_WITHIN, CLEANED_WITHIN = 60.0, 300.0
"""Seconds within which chaos must be in effect, and be gone."""
DELAY_SECONDS = {
    Delay.INJECTION: INJECTED_WITHIN,
    Delay.CLEANING: CLEANED_WITHIN,
    Delay.LENGTH: None,
}
"""Length of each delay in seconds; None is the deadline of the template, or no limit without
one.
"""
OUTSIDE_EVENTS = (EventType.ABORTED, EventType.FAILED_ELSEWHERE)
"""Events that end a node without a fault of its own, and also cancel its last probes."""
START_EVENTS = (EventType.CREATED, EventType.RESUMED)


class Transition:
    """Transition of one node by one event.

    The cell's steps collect notifications, which are sent after the node's status is written. If
    the write is refused, everything that would start something new is dropped or held back instead.
    """

    def __init__(
        self, processor: EventProcessor, tree: Tree, node: TreeNode, event: NodeEvent
    ) -> None:
        self._processor = processor
        self._tree = tree
        self._node = node
        self._event = event
        self._is_unsaved, node.is_unsaved = node.is_unsaved, False
        self._following: list[EventType] = []
        self._notifications: list[tuple[TreeNode, EventType, str]] = []
        self._delayed: list[tuple[EventType, float, bool]] = []

    async def take(self) -> None:
        """Carry out the cell, save the status, and send what follows. An error affects this node
        alone.
        """
        step: Step | None = None
        try:
            for step in self._steps():
                await self._step(step)
        except StatusRefused:
            # The action is not begun before the status is written, so its time limit is not set
            # either.
            self._node.until.pop(Delay.INJECTION, None)
            self._delayed = [
                delayed for delayed in self._delayed if delayed[0] is not EventType.NOT_INJECTED
            ]
            self._notifications = [(self._node, EventType.RESUMED, "")]
        except Exception as error:  # noqa: BLE001  # an error of one workflow affects no other
            await self._handle_error(step, error_text(error))
        if (
            self._notifications == [(self._node, EventType.PICK, "")]
            and not self._following
            and not self._processor.has_more(self._tree)
        ):
            self._node.is_unsaved = self._is_unsaved
        else:
            await self._save_finally()
        for event_type in self._following:  # before events of its deadline
            self._processor.send(
                self._tree, NodeEvent(self._tree.key, self._node.name, event_type), by=self._node
            )
        for event_type, instant, expires in self._delayed:
            self._processor.send_later(self._tree, self._node, event_type, instant, expires=expires)
        for node, event_type, message in self._notifications:
            phase_count = node.phase_count if event_type is EventType.RESUMED else -1
            self._processor.send(
                self._tree,
                NodeEvent(self._tree.key, node.name, event_type, message, phase_count),
                by=self._node,
            )

    def _steps(self) -> tuple[Step, ...]:
        """Return the steps of the first alternative whose guard holds; none while Start probes
        run.
        """
        tree, node, event = self._tree, self._node, self._event
        for alternative in (
            WORKFLOW if node.name == ROOT else state_machine_of(node.template.type)
        ).cell(event.event_type, node.phase):
            if tree.holds(alternative.guard, node):
                must_wait = (
                    event.event_type in START_EVENTS
                    and self._processor.probe_coordinator.defers_start(tree, node, event)
                )
                return () if must_wait else alternative.steps
        return ()

    async def _handle_error(self, step: Step | None, why: str) -> None:
        """Turn a failed step into an event: a refused deletion is retried, another failure is a
        fault.

        A fault whose own handling fails twice ends the node as it is, after everything below it is
        over and its object is deleted if possible.
        """
        tree, node = self._tree, self._node
        node.last_error = why
        if isinstance(step, NodeAction):
            self._processor.reporter.report_failed_action(step, node, why)
        if step in DELETING_ACTIONS or step is NodeAction.CONFIRM_DELETED:
            self._notifications = [(node, EventType.DELETE_REFUSED, why)]
            return
        if self._event.event_type is EventType.FAULT and node.fault_unhandled:
            node.message = node.message or why
            if running := [
                each
                for each in tree.nodes.values()
                if each.parent == node.name and not each.is_over
            ]:
                self._notifications = [
                    (each, EventType.FAILED_ELSEWHERE, node.message) for each in running
                ]
                return
            await self._processor.clear(tree, node)
            self._end(FAILED)
            return
        node.fault_unhandled = self._event.event_type is EventType.FAULT
        self._notifications = [(node, EventType.FAULT, why)]

    async def _step(self, step: Step) -> None:
        match step:
            case Enter(phase):
                self._enter(phase)
            case Finish(result):
                self._finish(self._tree.result(result, self._node))
            case Notify(Recipient.SELF, EventType() as event_type):
                self._notifications.append((self._node, event_type, ""))
            case Notify(_, event_type):
                passed = event_type or PASSED_TO_CHILDREN[self._node.ending or EventType.FAULT]
                self._notifications += [
                    (child, passed, self._node.message)
                    for child in not_over(self._tree.children(self._node))
                ]
            case NotifyAfter(event_type, delay):
                self._notify_after(event_type, delay)
            case NodeAction():
                await self._act(step)

    def _enter(self, phase: str) -> None:
        if phase != self._node.phase:
            self._node.phase_count += 1
        if self._node.phase == INIT and self._node.attempt > 1 and phase not in OVER:
            self._node.clear_last_attempt()
        self._node.phase = phase
        self._node.was_injected = self._node.was_injected or phase == HOLDING
        self._is_unsaved = True
        self._processor.reporter.report_phase(self._tree, self._node)
        if self._node.template.is_chaos:
            self._processor.probe_coordinator.chaos_changed(self._tree, self._node)

    def _finish(self, phase: str) -> None:
        node, probe_coordinator = self._node, self._processor.probe_coordinator
        if probe_coordinator.defers_end(self._tree, node, self._event):
            return
        phase, failure = probe_coordinator.result(self._tree, node, phase)
        if failure and node.ending is EventType.PARENT_DEADLINE:  # a failure is more severe
            node.record_cause(EventType.FAULT, failure)
        if phase == FAILED:
            child_message = self._child_message() if node.ending in DEADLINE_EVENTS else ""
            node.message = (
                failure
                or child_message
                or node.message
                or self._event.message
                or self._child_message()
            )
            if may_retry(self._tree, node):
                self._enter(INIT)
                node.prepare_retry()
                node.until[Delay.BACK_OFF] = (
                    self._processor.now() + node.template.retry.delay_before(node.attempt)
                )
                self._notify_after(EventType.CREATED, Delay.BACK_OFF)
                return
        else:
            node.message = node.message or missing_command_message(node.context)
        self._end(phase)

    def _end(self, phase: str) -> None:
        node = self._node
        node.ended = self._processor.now()
        node.probes = self._processor.probe_coordinator.shown(self._tree, node)
        self._enter(phase)
        self._processor.reporter.report_end(self._tree, node)
        parent = None if node.parent is None else self._tree.node(node.parent)
        if parent:
            event_type = (
                EventType.CHILD_FAILED if self._tree.has_failed(node) else EventType.CHILD_SUCCEED
            )
            self._notifications.append((parent, event_type, _with_name(node)))

    def _child_message(self) -> str:
        failed = [
            child for child in self._tree.children(self._node) if self._tree.has_failed(child)
        ]
        return _with_name(failed[0]) if failed else ""

    def _notify_after(self, event_type: EventType, delay: Delay) -> None:
        node, now = self._node, self._processor.now()
        if delay is Delay.DEADLINE:
            # It covers all attempts, and begins after the Start probes.
            seconds = node.template.deadline
            if seconds is None:
                return
            is_probed = node.phase == INIT and any(
                probe.runs_at_start for probe in node.template.probes
            )
            if is_probed and self._event.event_type is EventType.CREATED:
                node.until.setdefault(Delay.DEADLINE, now + seconds)
            instant = node.until.get(Delay.DEADLINE, None if is_probed else node.started + seconds)
            if instant is not None:
                self._delayed.append((event_type, instant, False))
            return
        if delay is Delay.RETRY:
            if node.until.get(delay, now) > now:  # set up already
                return
            node.until[delay] = now + FIRST_PAUSE
        elif delay in DELAY_SECONDS and delay not in node.until:
            seconds = DELAY_SECONDS[delay] or node.template.deadline
            if seconds is None:
                return
            node.until[delay] = now + seconds
            self._is_unsaved = True
        self._delayed.append((event_type, node.until.get(delay, now), True))

    async def _act(self, act: NodeAction) -> None:
        node = self._node
        self._is_unsaved = self._is_unsaved or act not in (
            NodeAction.CHECK_CHILDREN,
            NodeAction.MAKE_CHILDREN,
        )
        match act:
            case NodeAction.RECORD_CAUSE:
                node.record_cause(self._event.event_type, self._cause_message())
            case NodeAction.MAKE_CHILDREN:
                await self._processor.make(self._tree, node, self._tree.next_below(node))
            case NodeAction.MAKE_EXIT:
                node.message = (
                    node.message or self._event.message
                )  # the cause if its entry has failed
                await self._processor.make(
                    self._tree, node, [self._tree.template(self._tree.definition.exit)]
                )
            case NodeAction.CHECK_CHILDREN:
                # Children may have ended while no engine was running; one failure counts for all.
                children = self._tree.children(self._node)
                if failed := [child for child in children if self._tree.has_failed(child)]:
                    self._notifications.append(
                        (self._node, EventType.CHILD_FAILED, _with_name(failed[0]))
                    )
                elif children and all(child.is_over for child in children):
                    self._notifications.append((self._node, EventType.CHILD_SUCCEED, ""))
            case NodeAction.RECORD_ANSWER:
                node.message = self._event.message
            case NodeAction.DELETE_IN_BACKGROUND:
                self._processor.leave(self._tree, self._node)
            case _:
                await self._run_actor(act)

    async def _run_actor(self, act: NodeAction) -> None:
        node = self._node
        node.is_cleaning = node.is_cleaning or act in DELETING_ACTIONS
        if act in CREATING_ACTIONS:
            await self._save()
        elif act in SAVE_BEFORE:
            with contextlib.suppress(StatusRefused):
                await self._save()
        if act is NodeAction.EVALUATE:
            self._processor.reporter.report_pod_end(node)
        if event_type := await ACTORS[act](self._processor.clients, self._tree, node):
            self._following.append(event_type)
        if act in (NodeAction.CREATE_CHAOS, NodeAction.CREATE_CHECK):
            node.has_created = self._is_unsaved = True
        self._processor.reporter.report_action(act, node)

    def _cause_message(self) -> str:
        """Return the message of an early end: for a delay that is over, with the reason known to
        the watches.
        """
        if self._event.event_type is EventType.NOT_INJECTED:
            why = self._processor.clients.watches.why_not_injected(self._tree, self._node)
            return f"it was not in effect within {INJECTED_WITHIN:g} s: {why}"
        if self._event.event_type is EventType.NOT_CLEANED:
            why = self._node.last_error and f": {self._node.last_error}"
            return (
                f"it was not gone within {CLEANED_WITHIN:g} s{why}; deleting it is retried in the "
                "background"
            )
        if late := deadline_message(self._node, self._event.event_type):
            node = self._node
            waiting = node.waiting_reason
            if not waiting and node.template.type == TASK and node.chosen is None:
                waiting = self._processor.clients.watches.why_pod_is_late(self._tree, node)
            not_injected = ""
            if node.template.is_chaos and not node.was_injected:
                why = (
                    "it had not begun"
                    if node.phase == INIT
                    else self._processor.clients.watches.why_not_injected(self._tree, node)
                )
                not_injected = f"it was not in effect: {why}"
            return "; ".join(filter(None, (late, waiting, not_injected)))
        return self._event.message

    async def _save(self) -> None:
        if self._is_unsaved:
            self._is_unsaved = False
            await self._processor.status_writer.save(self._tree, self._node)

    async def _save_finally(self) -> None:
        """Save the status; an unexpected error of writing fails the node."""
        try:
            await self._save()
        except StatusRefused:
            pass
        except Exception as error:  # noqa: BLE001  # affects this node alone
            self._processor.reporter.report_refused_status(
                self._tree, self._node, error_text(error)
            )
            if not self._node.is_over and self._event.event_type is not EventType.FAULT:
                self._notifications = [(self._node, EventType.FAULT, error_text(error))]


def _with_name(node: TreeNode) -> str:
    """Return a failed node's message, prefixed with the template's name exactly once.

    Messages of children and of causes from outside have the name already.
    """
    if node.phase != FAILED or not node.message:
        return ""
    return (
        node.message
        if node.children or node.ending in OUTSIDE_EVENTS
        else f"{node.template.name}: {node.message}"
    )
