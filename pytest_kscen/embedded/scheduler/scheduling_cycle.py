"""Scheduling cycle: find a node for one pod and bind the pod, or report why not.

search → (none: post_filter) → score → assume → reserve → permit → [wait → pre_bind →] bind →
post_bind. A failure after the pod was assumed on a node reverts it. Called by `Scheduler` for each
popped pod.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.embedded.scheduler.filtering import (
    FilterResult,
    SchedulingAttempt,
    feasible_nodes_to_find,
    find_feasible_nodes,
)
from pytest_kscen.embedded.scheduler.framework import diagnosis
from pytest_kscen.embedded.scheduler.framework.attempt import Attempt, CycleState
from pytest_kscen.embedded.scheduler.framework.diagnosis import shorten_note
from pytest_kscen.embedded.scheduler.framework.events import ASSIGNED_DELETE
from pytest_kscen.embedded.scheduler.framework.extender import EXTENDER, ExtenderError
from pytest_kscen.embedded.scheduler.framework.plugin_checks import attribute_plugin_errors
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nomination, PodInfo
from pytest_kscen.embedded.scheduler.framework.status import Code, Status, failure
from pytest_kscen.embedded.scheduler.scoring import (
    MAX_EXTENDER_SCORE,
    MAX_SCORE,
    add_extender_scores,
    best_positions,
    total_scores,
)
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import Sink
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, QueuedPod
    from pytest_kscen.embedded.scheduler.framework.profile import PreFilterResult, SchedulerProfile
    from pytest_kscen.objects.resources import Obj


COMPARED_FIELDS = ("status", "reason", "message")


class FailureHandler:
    """Reporter of failed attempts: puts the pod back into the queue, emits an event, and writes the
    pod's PodScheduled condition.
    """

    def __init__(self, handle: Handle) -> None:
        self._context = handle.context
        self._queue = handle.queue
        self._nominated = handle.nominated
        self._pods = handle.context.informers.of(PODS)

    async def report(
        self, queued: QueuedPod, words: str, nomination: Nomination | None, *, unschedulable: bool
    ) -> None:
        """Report a failed attempt with this message. An empty nomination clears the pod's nominated
        node, None keeps it. A pod that was bound or replaced meanwhile is only dropped.
        """
        pod = queued.pod
        live = self._pods.objects.get(pod.ref)
        if live is None or live["spec"].get("nodeName") or live["metadata"].get("uid") != pod.uid:
            self._queue.done(pod.uid)
            return
        if live is not pod.obj:
            queued.pod = PodInfo(live)
        self._queue.put_back(queued)
        node = queued.pod.nominated if nomination is None else nomination.node
        if node:
            self._nominated.add(queued.pod, node)
        else:
            self._nominated.remove(pod.uid)
        self._context.recorder.report_action(
            live, "FailedScheduling", shorten_note(words), action="Scheduling", kind="Warning"
        )
        reason = "Unschedulable" if unschedulable else "SchedulerError"
        try:
            await self._write(live, reason, words, node)
        except NotFound:
            self._queue.remove(pod.ref, pod.uid)
        except (ApiError, OSError):
            return  # the next attempt reports it again

    async def announce_node(self, pod: PodInfo, node: str) -> None:
        """Write the chosen node into the pod's status before a binding that takes time, as
        kube-scheduler does for other components. Failures are ignored.
        """
        live = self._pods.objects.get(pod.ref)
        if (
            live is None
            or live["metadata"].get("uid") != pod.uid
            or PodInfo(live).nominated == node
        ):
            return
        self._nominated.expected.add(pod.uid)
        status = {**(live.get("status") or {}), "nominatedNodeName": node}
        with contextlib.suppress(ApiError, OSError):  # informative only
            await self._context.write_status(PODS, live, status)

    async def _write(self, pod: Obj, reason: str, words: str, node: str) -> None:
        new = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "reason": reason,
            "message": words,
        }
        old, status = condition(pod, "PodScheduled") or {}, pod.get("status") or {}
        if (
            all(old.get(name) == new[name] for name in COMPARED_FIELDS)
            and (status.get("nominatedNodeName") or "") == node
        ):
            return
        status = {
            **status,
            "conditions": set_condition(status.get("conditions"), new, self._context.timestamp()),
        }
        status.pop("nominatedNodeName", None)
        if node:
            status["nominatedNodeName"] = node
        await self._context.write_status(PODS, pod, status)


NO_NOMINATION = Nomination("")


class SchedulingCycle:
    """Executor of attempts for all profiles; keeps the position where the next search starts."""

    def __init__(self, handle: Handle) -> None:
        self.sink: Sink | None = None
        self.percentage = 0
        self._context = handle.context
        self._ties = handle.ties
        self._snapshot = handle.snapshot
        self._queue = handle.queue
        self._nominated = handle.nominated
        self._waiting = handle.waiting
        self._child_tasks = handle.child_tasks
        self._next = 0
        self._failures = FailureHandler(handle)

    def reset(self) -> None:
        self._next = 0

    async def attempt(self, profile: SchedulerProfile, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.obj["metadata"].get("deletionTimestamp"):
            words = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            self._context.recorder.report_action(
                pod.obj, "FailedScheduling", words, action="Scheduling", kind="Warning"
            )
            self._queue.done(pod.uid)
            return
        attempt = (
            Attempt(pod.obj, profile.name, queued.attempts, self._context.now())
            if self.sink
            else None
        )
        current = SchedulingAttempt(profile, queued, pod, CycleState(attempt))
        self._snapshot.refresh()
        queued.rejectors.clear()
        queued.pending.clear()
        if not self._snapshot.nodes:
            await self._fail(
                current, diagnosis.NO_NODES, nomination=NO_NOMINATION, unschedulable=True
            )
            return
        found = await self._select_node(current)
        if isinstance(found, Status):
            await self._fail(current, found.message, nomination=NO_NOMINATION)
        elif found is not None:
            await self._reserve_and_bind(current, found)

    async def _select_node(self, current: SchedulingAttempt) -> NodeInfo | Status | None:
        """Return the chosen node or an error status; None if the pod was already reported as
        unschedulable.
        """
        profile, _, pod, state = current
        wanted = profile.pre_filter(state, pod, self._snapshot.nodes)
        if isinstance(wanted, Status):
            if wanted.rejects:
                await self._handle_no_fit(current, FilterResult(), problem=wanted)
            return None if wanted.rejects else wanted
        nominated = self._snapshot.get(pod.nominated) if pod.nominated else None
        found = find_feasible_nodes(current, [nominated], 0, 1) if nominated else FilterResult()
        broken = await self._filter_by_extenders(current, found)
        if not found.nodes and broken is None:
            found = self._search_nodes(current, wanted)
            broken = found.error or await self._filter_by_extenders(current, found)
        if broken is None and not found.nodes:
            await self._handle_no_fit(current, found, narrowed=wanted)
            return None
        return broken or await self._choose(current, found.nodes)

    async def _filter_by_extenders(
        self, current: SchedulingAttempt, found: FilterResult
    ) -> Status | None:
        """Reduce the found nodes to those that all interested extenders accept. Return a status if
        an extender fails that must not be ignored.
        """
        for extender in current.profile.handle.extenders:
            if not (extender.filters and found.nodes and extender.is_interested(current.pod)):
                continue
            try:
                filtered = await extender.filter(current.state, current.pod, found.nodes)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                return failure(str(error))
            if len(filtered.nodes) != len(found.nodes):
                found.rejectors.add(EXTENDER)
            if current.state.attempt is not None:
                kept, why = (
                    {node.name for node in filtered.nodes},
                    {**filtered.failed, **filtered.unresolvable},
                )
                current.state.attempt.record_filter(
                    extender.name, [node.name for node in found.nodes], kept, why
                )
            found.statuses |= {
                node: Status(Code.UNSCHEDULABLE, (why,), EXTENDER)
                for node, why in filtered.failed.items()
            }
            found.statuses |= {
                node: Status(Code.UNRESOLVABLE, (why,), EXTENDER)
                for node, why in filtered.unresolvable.items()
            }
            found.nodes = filtered.nodes
        return None

    def _search_nodes(
        self, current: SchedulingAttempt, narrowed: PreFilterResult | None
    ) -> FilterResult:
        profile = current.profile
        nodes: Sequence[NodeInfo] = self._snapshot.nodes
        if narrowed is not None:
            nodes = [node for name in sorted(narrowed.nodes) if (node := self._snapshot.get(name))]
        percentage = self.percentage if profile.percentage is None else profile.percentage
        more = bool(profile.points["score"]) or any(
            one.filters or one.prioritizes for one in profile.handle.extenders
        )
        wanted = feasible_nodes_to_find(len(nodes), percentage) if more else 1
        found = find_feasible_nodes(current, nodes, self._next % len(nodes) if nodes else 0, wanted)
        self._next = (self._next + found.examined) % len(self._snapshot.nodes)
        return found

    async def _choose(
        self, current: SchedulingAttempt, nodes: Sequence[NodeInfo]
    ) -> NodeInfo | Status:
        profile, _, pod, state = current
        if len(nodes) == 1:
            return nodes[0]
        if status := profile.pre_score(state, pod, nodes):
            return status
        sums = total_scores(current, nodes)
        if isinstance(sums, Status):
            return sums
        for extender in profile.handle.extenders:
            if extender.prioritizes and extender.is_interested(pod):
                with contextlib.suppress(ExtenderError):  # scored without it
                    scores = await extender.prioritize(state, pod, nodes)
                    weight = extender.weight * (MAX_SCORE // MAX_EXTENDER_SCORE)
                    if state.attempt is not None:
                        state.attempt.record_scores(extender.name, scores, weight)
                    sums = add_extender_scores(sums, nodes, scores, weight)
        return nodes[self._ties.decide(pod, best_positions(sums), lambda place: nodes[place].name)]

    async def _handle_no_fit(
        self,
        current: SchedulingAttempt,
        found: FilterResult,
        *,
        problem: Status | None = None,
        narrowed: PreFilterResult | None = None,
    ) -> None:
        """Call post_filter to make room, then report the pod as unschedulable."""
        profile, queued, pod, state = current
        nodes = self._snapshot.nodes
        others = problem
        if narrowed is not None:
            words = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed.plugins))}]"
            others = Status(Code.UNRESOLVABLE, (words,), narrowed.plugins[0])
            queued.rejectors.update(narrowed.plugins)
        elif problem is not None:
            queued.rejectors.add(problem.plugin)
        statuses = (
            {node.name: found.statuses.get(node.name, others) for node in nodes}
            if others
            else found.statuses
        )
        queued.rejectors |= found.rejectors
        queued.pending |= {
            status.plugin for status in found.statuses.values() if status.code is Code.PENDING
        }
        queued.rejectors -= queued.pending
        nomination, rescue = (
            await profile.post_filter(state, pod, statuses)
            if profile.points["postFilter"]
            else (NO_NOMINATION, None)
        )
        rescue_message = rescue.message if rescue else ""
        if problem is not None:
            words = diagnosis.pre_filter_message(len(nodes), problem.message, rescue_message)
        else:
            words = diagnosis.fit_error_message(len(nodes), statuses.values(), rescue_message)
        await self._fail(current, words, nomination=nomination, unschedulable=True)

    async def _reserve_and_bind(self, current: SchedulingAttempt, node: NodeInfo) -> None:
        profile, _, pod, state = current
        if state.attempt is not None:
            state.attempt.selected = node.name
        self._snapshot.assign_pod(pod, node.name)
        self._nominated.remove(pod.uid)
        if status := profile.reserve(state, pod, node.name):
            await self._revert(current, node.name, status)
            return
        waits = profile.permit(state, pod, node.name)
        if isinstance(waits, Status):
            await self._revert(current, node.name, waits)
        elif waits or profile.pre_bind_waits(state, pod, node.name):
            if waits:
                self._waiting.add(pod, node.name, waits, profile.plugins)
            else:
                self._queue.done(pod.uid)
            self._child_tasks.start(
                self._bind_slowly(current, node.name), f"binding of {pod.namespace}/{pod.name}"
            )
        else:
            self._queue.done(pod.uid)
            await self._bind(current, node.name)

    async def _bind_slowly(self, current: SchedulingAttempt, node: str) -> None:
        """Wait for permission, call pre_bind, then bind. Runs as a task beside the cycle, so errors
        of plugins are attributed here.
        """
        profile, _, pod, state = current
        with attribute_plugin_errors(pod):
            await self._failures.announce_node(pod, node)
            if waiting := self._waiting.get(pod.uid):
                status = await waiting.decided()
                self._waiting.remove(pod.uid)
                if status is not None:
                    await self._revert_assignment(current, node, status)
                    return
                self._queue.done(pod.uid)
            try:
                status = await profile.pre_bind(state, pod, node)
            except (ApiError, OSError) as error:
                status = failure(str(error))
            if status is not None:
                await self._revert_assignment(current, node, status)
                return
            await self._bind(current, node)

    async def _bind(self, current: SchedulingAttempt, node: str) -> None:
        profile, _, pod, state = current
        try:
            for extender in profile.handle.extenders:
                if extender.binds and extender.is_interested(pod):
                    await extender.bind(state, pod, node)
                    status = None
                    break
            else:
                status = await profile.bind(state, pod, node)
        except (ApiError, OSError, ExtenderError) as error:
            status = failure(str(error))
        if status is not None:
            await self._revert_assignment(current, node, status)
            return
        words = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._context.recorder.report_action(pod.obj, "Scheduled", words, action="Binding")
        profile.post_bind(state, pod, node)
        if state.attempt is not None and self.sink is not None:
            state.attempt.bound = True
            await self.sink.record(state.attempt)

    async def _revert(self, current: SchedulingAttempt, node: str, status: Status) -> None:
        """Take the pod off its assumed node, call unreserve of all plugins, and report the failure;
        the pod is queued again.
        """
        profile, queued, pod, state = current
        profile.unreserve(state, pod, node)
        self._snapshot.unassign_pod(pod.uid)
        words = status.message
        if status.rejects:
            (queued.pending if status.code is Code.PENDING else queued.rejectors).add(status.plugin)
            words = diagnosis.fit_error_message(1, [status])
        await self._fail(current, words, nomination=NO_NOMINATION, unschedulable=status.rejects)

    async def _revert_assignment(
        self, current: SchedulingAttempt, node: str, status: Status
    ) -> None:
        """Revert, and retry pods that may have been refused because of the assumed pod."""
        await self._revert(current, node, status)
        pod = current.pod
        unassigned = {**pod.obj, "spec": {**pod.spec, "nodeName": node}}
        self._queue.handle_event(
            ASSIGNED_DELETE, unassigned, None, unless=pod.ref if status.rejects else None
        )

    async def _fail(
        self,
        current: SchedulingAttempt,
        words: str,
        *,
        nomination: Nomination | None = None,
        unschedulable: bool = False,
    ) -> None:
        attempt = current.state.attempt
        if attempt is not None:
            attempt.message = words
        await self._failures.report(current.queued, words, nomination, unschedulable=unschedulable)
        if attempt is not None and self.sink is not None:
            await self.sink.record(attempt)
