"""One attempt: a node is found for a pod and the pod is bound to it, or it is said why not.

search → (nothing: post_filter) → choose → assume → reserve → permit → [wait → pre_bind →] bind →
post_bind. What fails after the pod was assumed on a node takes it off again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.embedded.scheduler.filtering import Found, Try, enough, search
from pytest_kscen.embedded.scheduler.framework import diagnosis
from pytest_kscen.embedded.scheduler.framework.attempt import Attempt, CycleState
from pytest_kscen.embedded.scheduler.framework.diagnosis import noted
from pytest_kscen.embedded.scheduler.framework.events import ASSIGNED_DELETE
from pytest_kscen.embedded.scheduler.framework.extender import EXTENDER, ExtenderError
from pytest_kscen.embedded.scheduler.framework.plugin_checks import blaming
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nomination, PodInfo
from pytest_kscen.embedded.scheduler.framework.status import Code, Status, failure
from pytest_kscen.embedded.scheduler.scoring import BEST, EXTENDERS_BEST, best, totals, with_scores
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import Sink
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, QueuedPod
    from pytest_kscen.embedded.scheduler.framework.profile import Narrowed, Profile
    from pytest_kscen.objects.resources import Obj


# An attempt that came to nothing: the pod goes back into the queue, and says why in its status
# and in an event.


SAME = ("status", "reason", "message")


class Failing:
    """Tells."""

    def __init__(self, handle: Handle) -> None:
        self._context = handle.context
        self._queue = handle.queue
        self._nominated = handle.nominated
        self._pods = handle.context.informers.of(PODS)

    async def tell(
        self, queued: QueuedPod, words: str, nomination: Nomination | None, *, unschedulable: bool
    ) -> None:
        """With a nomination that is empty, the pod loses the one that it has; with none, it
        keeps it.
        """
        pod = queued.pod
        live = self._pods.objects.get(pod.ref)
        if live is None or live["spec"].get("nodeName") or live["metadata"].get("uid") != pod.uid:
            self._queue.done(pod.uid)
            return
        if live is not pod.obj:
            queued.pod = PodInfo(live)
        self._queue.give_back(queued)
        node = queued.pod.nominated if nomination is None else nomination.node
        if node:
            self._nominated.add(queued.pod, node)
        else:
            self._nominated.remove(pod.uid)
        self._context.recorder.did(
            live, "FailedScheduling", noted(words), action="Scheduling", kind="Warning"
        )
        reason = "Unschedulable" if unschedulable else "SchedulerError"
        try:
            await self._write(live, reason, words, node)
        except NotFound:
            self._queue.remove(pod.ref, pod.uid)
        except (ApiError, OSError):
            return  # it is said again with the next attempt

    async def expect(self, pod: PodInfo, node: str) -> None:
        """The pod is going to be bound to this node, but not at once: its status says so."""
        live = self._pods.objects.get(pod.ref)
        if (
            live is None
            or live["metadata"].get("uid") != pod.uid
            or PodInfo(live).nominated == node
        ):
            return
        self._nominated.expected.add(pod.uid)
        status = {**(live.get("status") or {}), "nominatedNodeName": node}
        with contextlib.suppress(ApiError, OSError):  # it is only said
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
            all(old.get(name) == new[name] for name in SAME)
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


CLEAR = Nomination("")
NOBODY = Status(Code.SKIP)


class Attempting:
    """The cycle."""

    def __init__(self, handle: Handle) -> None:
        self.sink: Sink | None = None
        self.percentage = 0
        self._context = handle.context
        self._ties = handle.ties
        self._snapshot = handle.snapshot
        self._queue = handle.queue
        self._nominated = handle.nominated
        self._waiting = handle.waiting
        self._brood = handle.brood
        self._next = 0
        self._failing = Failing(handle)

    def begin_anew(self) -> None:
        """Begin at the first node again."""
        self._next = 0

    async def attempt(self, profile: Profile, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.obj["metadata"].get("deletionTimestamp"):
            words = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            self._context.recorder.did(
                pod.obj, "FailedScheduling", words, action="Scheduling", kind="Warning"
            )
            self._queue.done(pod.uid)
            return
        attempt = (
            Attempt(pod.obj, profile.name, queued.attempts, self._context.now())
            if self.sink
            else None
        )
        this = Try(profile, queued, pod, CycleState(attempt))
        self._snapshot.refresh()
        queued.rejectors.clear()
        queued.pending.clear()
        if not self._snapshot.nodes:
            await self._fail(this, diagnosis.NO_NODES, nomination=CLEAR, unschedulable=True)
            return
        found = await self._find(this)
        if isinstance(found, Status):
            await self._fail(this, found.message, nomination=CLEAR)
        elif found is not None:
            await self._take(this, found)

    # --- finding a node ---

    async def _find(self, this: Try) -> NodeInfo | Status | None:
        """The node; or what is broken; or nothing, if it has been said already that there is
        none.
        """
        profile, _, pod, state = this
        wanted = profile.pre_filter(state, pod, self._snapshot.nodes)
        if isinstance(wanted, Status):
            if wanted.rejects:
                await self._give_up(this, Found(), problem=wanted)
            return None if wanted.rejects else wanted
        nominated = self._snapshot.get(pod.nominated) if pod.nominated else None
        found = search(this, [nominated], 0, 1) if nominated else Found()
        broken = await self._ask_extenders(this, found)
        if not found.nodes and broken is None:
            found = self._search(this, wanted)
            broken = found.broken or await self._ask_extenders(this, found)
        if broken is None and not found.nodes:
            await self._give_up(this, found, narrowed=wanted)
            return None
        return broken or await self._choose(this, found.nodes)

    async def _ask_extenders(self, this: Try, found: Found) -> Status | None:
        """Which of the nodes will do for those outside as well; a status if one fails that must
        not.
        """
        for extender in this.profile.handle.extenders:
            if not (extender.filters and found.nodes and extender.interested(this.pod)):
                continue
            try:
                filtered = await extender.filter(this.state, this.pod, found.nodes)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                return failure(str(error))
            if len(filtered.nodes) != len(found.nodes):
                found.rejectors.add(EXTENDER)
            if this.state.attempt is not None:
                kept, why = (
                    {node.name for node in filtered.nodes},
                    {**filtered.failed, **filtered.unresolvable},
                )
                this.state.attempt.was_filtered(
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

    def _search(self, this: Try, narrowed: Narrowed | None) -> Found:
        profile = this.profile
        nodes: Sequence[NodeInfo] = self._snapshot.nodes
        if narrowed is not None:
            nodes = [node for name in sorted(narrowed.nodes) if (node := self._snapshot.get(name))]
        percentage = self.percentage if profile.percentage is None else profile.percentage
        more = bool(profile.points["score"]) or any(
            one.filters or one.prioritizes for one in profile.handle.extenders
        )
        wanted = enough(len(nodes), percentage) if more else 1
        found = search(this, nodes, self._next % len(nodes) if nodes else 0, wanted)
        self._next = (self._next + found.looked_at) % len(self._snapshot.nodes)
        return found

    async def _choose(self, this: Try, nodes: Sequence[NodeInfo]) -> NodeInfo | Status:
        profile, _, pod, state = this
        if len(nodes) == 1:
            return nodes[0]
        if status := profile.pre_score(state, pod, nodes):
            return status
        sums = totals(this, nodes)
        if isinstance(sums, Status):
            return sums
        for extender in profile.handle.extenders:
            if extender.prioritizes and extender.interested(pod):
                with contextlib.suppress(ExtenderError):  # whose opinion is done without
                    scores = await extender.prioritize(state, pod, nodes)
                    weight = extender.weight * (BEST // EXTENDERS_BEST)
                    if state.attempt is not None:
                        state.attempt.was_scored(extender.name, scores, weight)
                    sums = with_scores(sums, nodes, scores, weight)
        return nodes[self._ties.decide(pod, best(sums), lambda place: nodes[place].name)]

    async def _give_up(
        self,
        this: Try,
        found: Found,
        *,
        problem: Status | None = None,
        narrowed: Narrowed | None = None,
    ) -> None:
        """No node will do: perhaps something can be done about it."""
        profile, queued, pod, state = this
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
            else (CLEAR, None)
        )
        said = rescue.message if rescue else ""
        if problem is not None:
            words = diagnosis.of_problem(len(nodes), problem.message, said)
        else:
            words = diagnosis.of_refusals(len(nodes), statuses.values(), said)
        await self._fail(this, words, nomination=nomination, unschedulable=True)

    # --- taking it ---

    async def _take(self, this: Try, node: NodeInfo) -> None:
        profile, _, pod, state = this
        if state.attempt is not None:
            state.attempt.selected = node.name
        self._snapshot.put(pod, node.name)
        self._nominated.remove(pod.uid)
        if status := profile.reserve(state, pod, node.name):
            await self._undo(this, node.name, status)
            return
        waits = profile.permit(state, pod, node.name)
        if isinstance(waits, Status):
            await self._undo(this, node.name, waits)
        elif waits or profile.pre_bind_waits(state, pod, node.name):
            if waits:
                self._waiting.add(pod, node.name, waits, profile.plugins)
            else:
                self._queue.done(pod.uid)
            self._brood.start(
                self._bind_slowly(this, node.name), f"binding of {pod.namespace}/{pod.name}"
            )
        else:
            self._queue.done(pod.uid)
            await self._bind(this, node.name)

    async def _bind_slowly(self, this: Try, node: str) -> None:
        with blaming(this.pod):
            await self._bind_when_ready(this, node)

    async def _bind_when_ready(self, this: Try, node: str) -> None:
        profile, _, pod, state = this
        await self._failing.expect(pod, node)
        if waiting := self._waiting.get(pod.uid):
            status = await waiting.decided()
            self._waiting.remove(pod.uid)
            if status is not None:
                await self._unbind(this, node, status)
                return
            self._queue.done(pod.uid)
        try:
            status = await profile.pre_bind(state, pod, node)
        except (ApiError, OSError) as error:
            status = failure(str(error))
        if status is not None:
            await self._unbind(this, node, status)
            return
        await self._bind(this, node)

    async def _bind(self, this: Try, node: str) -> None:
        profile, _, pod, state = this
        try:
            status = await self._bind_by_extender(this, node)
            status = await profile.bind(state, pod, node) if status is NOBODY else status
        except (ApiError, OSError, ExtenderError) as error:
            status = failure(str(error))
        if status is not None:
            await self._unbind(this, node, status)
            return
        words = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._context.recorder.did(pod.obj, "Scheduled", words, action="Binding")
        profile.post_bind(state, pod, node)
        if state.attempt is not None and self.sink is not None:
            state.attempt.bound = True
            await self.sink.record(state.attempt)

    async def _bind_by_extender(self, this: Try, node: str) -> Status | None:
        """Bound, unless NOBODY outside does that."""
        for extender in this.profile.handle.extenders:
            if extender.binds and extender.interested(this.pod):
                await extender.bind(this.state, this.pod, node)
                return None
        return NOBODY

    async def _undo(self, this: Try, node: str, status: Status) -> None:
        """The pod will not be there after all."""
        profile, queued, pod, state = this
        profile.unreserve(state, pod, node)
        self._snapshot.take(pod.uid)
        words = status.message
        if status.rejects:
            (queued.pending if status.code is Code.PENDING else queued.rejectors).add(status.plugin)
            words = diagnosis.of_refusals(1, [status])
        await self._fail(this, words, nomination=CLEAR, unschedulable=status.rejects)

    async def _unbind(self, this: Try, node: str, status: Status) -> None:
        """The same for one whose room others have missed meanwhile."""
        await self._undo(this, node, status)
        pod = this.pod
        gone = {**pod.obj, "spec": {**pod.spec, "nodeName": node}}
        self._queue.happened(
            ASSIGNED_DELETE, gone, None, unless=pod.ref if status.rejects else None
        )

    async def _fail(
        self,
        this: Try,
        words: str,
        *,
        nomination: Nomination | None = None,
        unschedulable: bool = False,
    ) -> None:
        attempt = this.state.attempt
        if attempt is not None:
            attempt.message = words
        await self._failing.tell(this.queued, words, nomination, unschedulable=unschedulable)
        if attempt is not None and self.sink is not None:
            await self.sink.record(attempt)
