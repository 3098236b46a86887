"""Scheduling queue: active pods, pods that back off, and unschedulable pods.

A new pod is active. A pod without a node is unschedulable until an event arrives that may help it
by a hint of a plugin that refused it; it then becomes active, or backs off first if its last
attempt is recent. Refused pods do not back off while the queue is otherwise idle; pods with an
error do. A pod that is unschedulable for five minutes is retried. With `one_by_one`, a new pod also
waits until no pod backs off and no preemption is under way.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.backoff_queue import BackoffQueue, UnschedulablePods
from pytest_kscen.embedded.scheduler.framework.events import (
    EVERYTHING,
    TIMEOUT,
    ClusterEvent,
    Interest,
)
from pytest_kscen.embedded.scheduler.framework.extender import EXTENDER
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import QueuedPod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.events import QueueingHint
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NominatedPods, PodInfo
    from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


class QueueingHints:
    """Interests of all profiles' plugins in events. The plugins interested in an event are computed
    once per profile and event, then looked up.
    """

    def __init__(self, profiles: Mapping[str, SchedulerProfile]) -> None:
        self._all = {
            name: [
                (profile.name_of(plugin), interest)
                for plugin in profile.plugins.values()
                for interest in plugin.events()
            ]
            + [(EXTENDER, Interest(EVERYTHING))]
            for name, profile in profiles.items()
        }
        self._listeners: dict[tuple[str, ClusterEvent], list[tuple[str, QueueingHint | None]]] = {}

    def may_help(
        self, queued: QueuedPod, event: ClusterEvent, old: Obj | None, new: Obj | None
    ) -> bool:
        """Return True if the event may make the pod schedulable. An event for a plugin that refused
        it as pending also ends the pod's back-off.
        """
        if event is TIMEOUT:
            return True
        for plugin, hint in self._hints_for(queued.pod.spec.get("schedulerName", ""), event):
            waited_for = plugin in queued.pending
            if (waited_for or plugin in queued.rejectors) and (
                hint is None or hint(queued.pod, old, new)
            ):
                if waited_for:
                    queued.expires = -1.0
                return True
        return False

    def interested_plugins(self, event: ClusterEvent) -> dict[str, None]:
        """Return the plugins of any profile with an interest in the event; the keys are ordered."""
        return {
            plugin: None for profile in self._all for plugin, _ in self._hints_for(profile, event)
        }

    def _hints_for(
        self, profile: str, event: ClusterEvent
    ) -> list[tuple[str, QueueingHint | None]]:
        key = profile, event
        found = self._listeners.get(key)
        if found is None:
            interests = self._all.get(profile, ())
            found = self._listeners[key] = [
                (plugin, one.hint) for plugin, one in interests if one.covers(event)
            ]
        return found


MAX_UNSCHEDULABLE_SECONDS, FLUSH_INTERVAL = 300.0, 30.0


class SchedulingQueue:
    """Queue of pods without a node. Each pod is in one place: active, backing off, unschedulable,
    or in flight between `pop` and `done` or `put_back`.
    """

    def __init__(self, now: Callable[[], float], nominated: NominatedPods) -> None:
        self._now = now
        self._nominated = nominated
        self._profiles: dict[str, SchedulerProfile] = {}
        self._interests = QueueingHints({})
        self._key: Callable[[QueuedPod], Any] = lambda queued: queued.since
        self._active: dict[Ref, QueuedPod] = {}
        self._backoffs = BackoffQueue(now, self._to_active)
        self._unschedulable = UnschedulablePods()
        self._heap: list[tuple[bool, Any, int, QueuedPod]] = []
        """Active pods by (waits for the others to settle, key of the queueSort plugin, sequence).
        """
        self._in_flight: dict[str, list[tuple[ClusterEvent, Obj | None, Obj | None]]] = {}
        self._sequence = 0
        self.one_by_one: Callable[[], bool] = lambda: False
        """Function that returns True if new pods must wait until the others have settled."""
        self.judge: Callable[[Sequence[QueuedPod]], QueuedPod] | None = None
        """Function that picks the next pod among refused pods that wait, in their order; None for
        no judge. Real back-offs depend on the wall clock, so comparisons with kube-scheduler set it
        to repeat the order that was seen there.
        """
        self.has_no_nodes: Callable[[], bool] = lambda: False
        """Function that returns True if the cluster has no node, so that retries cannot succeed."""
        self._wake = asyncio.Event()
        self._flush_needed = asyncio.Event()

    def configure(
        self, profiles: dict[str, SchedulerProfile], initial_backoff: float, longest_backoff: float
    ) -> None:
        """Use these profiles from now on. All pods are queued anew; pods whose profile is gone are
        dropped. Back-offs are in seconds.
        """
        self._profiles = profiles
        self._key = next(iter(profiles.values())).points["queueSort"][0].sort_key
        self._interests = QueueingHints(profiles)
        self._backoffs.initial, self._backoffs.maximum, self._backoffs.key = (
            initial_backoff,
            longest_backoff,
            self._key,
        )
        self._heap.clear()
        for queued in [*self._active.values(), *self._backoffs.pods.values(), *self._unschedulable]:
            self._remove_everywhere(queued.pod.ref)
            if queued.pod.spec.get("schedulerName") in profiles:
                self._activate(queued)

    def add(self, pod: PodInfo) -> None:
        self._nominated.add(pod)
        self._activate(QueuedPod(pod, self._now(), self._next_sequence()))

    def add_if_missing(self, pod: PodInfo) -> None:
        queues = (self._active, self._backoffs.pods, self._unschedulable)
        if pod.uid not in self._in_flight and not any(pod.ref in queue for queue in queues):
            self.add(pod)

    def update(self, pod: PodInfo, old: Obj, events: list[ClusterEvent]) -> None:
        """Replace a pod after a change; `events` are the changes as cluster events. A pod in flight
        gets them when it is put back.
        """
        if pod.uid in self._in_flight:
            self._in_flight[pod.uid] += [(event, old, pod.obj) for event in events]
            return
        queued = self._unschedulable.get(pod.ref)
        if queued is None:
            queued = self._active.get(pod.ref) or self._backoffs.pods.get(pod.ref)
            if queued is None:
                self.add(pod)
                return
            queued.pod = pod
            if pod.ref in self._active:
                self._push(queued)
        else:
            queued.pod = pod
            for event in events:
                if self._interests.may_help(queued, event, old, pod.obj):
                    self._requeue(queued)
                    break
        if self._nominated.node_of(pod.uid) or pod.nominated:
            self._nominated.add(pod, pod.nominated)

    def remove(self, ref: Ref, uid: str) -> None:
        """Drop a pod that was deleted or bound, and its nomination; a pod in flight stays so until
        its attempt ends.
        """
        self._nominated.remove(uid)
        self._remove_everywhere(ref)

    def _remove_everywhere(self, ref: Ref) -> None:
        self._active.pop(ref, None)
        self._backoffs.pods.pop(ref, None)
        self._unschedulable.pop(ref)
        self.wake()

    def activate(self, pod: PodInfo) -> None:
        """Retry a pod immediately, whatever it waits for. A pod in flight is retried if its attempt
        fails.
        """
        queued = self._unschedulable.pop(pod.ref) or self._backoffs.pods.pop(pod.ref, None)
        if queued:
            self._activate(queued)
        elif pod.uid in self._in_flight:
            self._in_flight[pod.uid].append((TIMEOUT, None, None))

    @property
    def is_at_work(self) -> bool:
        """True if a pod is active or in flight, or backs off with a chance of success."""
        return bool(self._active or self._in_flight or self._has_backoffs)

    def is_gated(self, ref: Ref) -> bool:
        queued = self._unschedulable.get(ref)
        return queued is not None and bool(queued.gate)

    @property
    def _has_backoffs(self) -> bool:
        return bool(self._backoffs.pods) and not self.has_no_nodes()

    async def wait_until_ready(self) -> None:
        while not self._first_active() and not self._backoffs.early():
            self._wake.clear()
            await self._wake.wait()

    def wake(self) -> None:
        """Let `wait_until_ready` check again; called when something has ended that a pod may wait
        for.
        """
        self._wake.set()

    def pop(self) -> QueuedPod | None:
        """Return the next pod, which is in flight from now on; None if there is none. Events that
        arrive meanwhile are kept for it.
        """
        queued: QueuedPod | None = None
        if self.judge is not None:
            retried = sorted(
                (queued for queued in self._active.values() if queued.attempts), key=self._key
            )
            retried += self._backoffs.rejected()
            queued = self.judge(retried) if len(retried) > 1 else None
        queued = queued or self._first_active() or self._backoffs.early()
        if queued is None:
            return None
        if queued.pod.ref in self._backoffs.pods:
            self._backoffs.count_early_attempt(queued)
        self._remove_everywhere(queued.pod.ref)
        queued.attempts += 1
        self._in_flight[queued.pod.uid] = []
        return queued

    def _first_active(self) -> QueuedPod | None:
        while self._heap:
            waits, _, turn, queued = self._heap[0]
            if self._active.get(queued.pod.ref) is queued and queued.sequence == turn:
                return (
                    None if waits and (self._has_backoffs or self._nominated.preemptors) else queued
                )
            heapq.heappop(self._heap)
        return None

    def done(self, uid: str) -> None:
        """End the flight of a pod that was bound or needs no further attempt."""
        self._in_flight.pop(uid, None)

    def put_back(self, queued: QueuedPod) -> None:
        """Queue a pod again whose attempt failed. It is retried at once, after any back-off, if an
        event during the attempt may have helped it, or if the attempt ended with an error.
        """
        if queued.rejectors or queued.pending:
            queued.unschedulable += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.since, queued.sequence, queued.expires = self._now(), self._next_sequence(), None
        events = self._in_flight.pop(queued.pod.uid, [])
        failed = not (queued.rejectors or queued.pending)
        if failed or any(self._interests.may_help(queued, *event) for event in events):
            self._requeue(queued)
        else:
            self._mark_unschedulable(queued)

    @property
    def needs_events(self) -> bool:
        """True if any pod could profit from events; callers may skip computing them otherwise."""
        return bool(self._in_flight or self._unschedulable)

    def handle_event(
        self,
        event: ClusterEvent,
        old: Obj | None,
        new: Obj | None,
        *,
        unless: Ref | None = None,
        up_to: float = math.inf,
    ) -> None:
        """Requeue unschedulable pods that the event may help, but for `unless` and for pods of a
        priority above `up_to`. Pods in flight keep the event for later.
        """
        for events in self._in_flight.values():
            events.append((event, old, new))
        if not self._unschedulable:
            return
        for queued in self._unschedulable.rejected_by(self._interests.interested_plugins(event)):
            if (
                queued.pod.ref != unless
                and queued.pod.priority <= up_to
                and self._interests.may_help(queued, event, old, new)
            ):
                self._requeue(queued)

    async def flush_unschedulable(self, sleep: Callable[..., Any]) -> None:
        """Run forever: retry pods that have been unschedulable for five minutes. Gated pods are
        left alone.
        """
        while True:
            await self._flush_needed.wait()
            self._flush_needed.clear()
            while self._unschedulable:
                await sleep(FLUSH_INTERVAL, background=True)
                for queued in self._unschedulable:
                    if not queued.gate and self._now() - queued.since > MAX_UNSCHEDULABLE_SECONDS:
                        self._requeue(queued)

    def _requeue(self, queued: QueuedPod) -> None:
        self._unschedulable.pop(queued.pod.ref)
        if not self._backoffs.is_backing_off(queued):
            self._activate(queued)
        elif not self._gate(queued):
            self._backoffs.add(queued)
            self._wake.set()

    def _activate(self, queued: QueuedPod) -> None:
        if not self._gate(queued):
            self._to_active(queued)

    def _to_active(self, queued: QueuedPod) -> None:
        self._active[queued.pod.ref] = queued
        self._push(queued)
        self._wake.set()

    def _gate(self, queued: QueuedPod) -> bool:
        """Call pre_enqueue; if a plugin refuses, mark the pod unschedulable and return True."""
        profile = self._profiles.get(queued.pod.spec.get("schedulerName", ""))
        status = profile.pre_enqueue(queued.pod) if profile else None
        queued.gate = status.plugin if status else ""
        if status:
            queued.rejectors.add(status.plugin)
            self._mark_unschedulable(queued)
        return status is not None

    def _mark_unschedulable(self, queued: QueuedPod) -> None:
        self._unschedulable.add(queued)
        if not queued.gate:
            self._flush_needed.set()

    def _push(self, queued: QueuedPod) -> None:
        queued.sequence = queued.sequence or self._next_sequence()
        waits = not queued.attempts and self.one_by_one()
        heapq.heappush(self._heap, (waits, self._key(queued), queued.sequence, queued))

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence
