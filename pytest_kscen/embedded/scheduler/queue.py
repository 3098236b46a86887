"""Pods that need a node: those to be looked at, those that back off, and those for which there was
none.

A new pod is active. One for which there was no node is parked until something happens of which a
plugin that turned it down says that it may help; then it is active again, or backs off first if its
last attempt is not long ago. Nobody backs off while there is nothing else to do, except after an
error. Whoever is parked for five minutes is looked at again. Where pods are to be seen one by one,
a new one waits besides until nobody backs off and no room is being made for anybody."""

from __future__ import annotations

import asyncio
import heapq
import math
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.backoff_queue import Backoffs, Parked
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

    from pytest_kscen.embedded.scheduler.framework.events import Hint
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nominated, PodInfo
    from pytest_kscen.embedded.scheduler.framework.profile import Profile
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


# Who wants to hear of what: the plugins that turned a pod down say whether something that
# happened may help it.


class Interests:
    """Of all profiles."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._all = {
            name: [
                (profile.name_of(plugin), interest)
                for plugin in profile.plugins.values()
                for interest in plugin.events()
            ]
            + [(EXTENDER, Interest(EVERYTHING))]
            for name, profile in profiles.items()
        }
        self._listeners: dict[tuple[str, ClusterEvent], list[tuple[str, Hint | None]]] = {}

    def helps(
        self, queued: QueuedPod, event: ClusterEvent, old: Obj | None, new: Obj | None
    ) -> bool:
        """May this pod find a node now?

        One that is only waited for need not back off any longer.
        """
        if event is TIMEOUT:
            return True
        for plugin, hint in self._listening(queued.pod.spec.get("schedulerName", ""), event):
            waited_for = plugin in queued.pending
            if (waited_for or plugin in queued.rejectors) and (
                hint is None or hint(queued.pod, old, new)
            ):
                if waited_for:
                    queued.expires = -1.0
                return True
        return False

    def listeners(self, event: ClusterEvent) -> dict[str, None]:
        """The plugins, of any profile, that want to hear of this."""
        return {
            plugin: None for profile in self._all for plugin, _ in self._listening(profile, event)
        }

    def _listening(self, profile: str, event: ClusterEvent) -> list[tuple[str, Hint | None]]:
        key = profile, event
        found = self._listeners.get(key)
        if found is None:
            interests = self._all.get(profile, ())
            found = self._listeners[key] = [
                (plugin, one.hint) for plugin, one in interests if one.covers(event)
            ]
        return found


LEFTOVER, LEFTOVER_ROUND = 300.0, 30.0


class Queue:
    """A pod is in it once: active, backing off or parked."""

    def __init__(self, now: Callable[[], float], nominated: Nominated) -> None:
        self._now = now
        self._nominated = nominated
        self._profiles: dict[str, Profile] = {}
        self._interests = Interests({})
        self._key: Callable[[QueuedPod], Any] = lambda queued: queued.since
        self._active: dict[Ref, QueuedPod] = {}
        self._backoffs = Backoffs(now, self._to_active)
        self._parked = Parked()
        self._heap: list[tuple[bool, Any, int, QueuedPod]] = []
        """By whether it waits for the others to come to rest, then by the profile's order."""
        self._flying: dict[str, list[tuple[ClusterEvent, Obj | None, Obj | None]]] = {}
        self._turns = 0
        self.one_by_one: Callable[[], bool] = lambda: False
        """Whether a new pod is to wait until the others have come to rest."""
        self.judge: Callable[[Sequence[QueuedPod]], QueuedPod] | None = None
        """Of pods that were turned down before and wait, in the order in which they are taken,
        whoever is to be taken now.

        Whose back-off ends first is a matter of the clock; one who follows another scheduler says
        what it was there. """
        self.in_vain: Callable[[], bool] = lambda: False
        """Whether nobody can be placed, so that whoever backs off will only be told so again."""
        self._wake = asyncio.Event()
        self._parking = asyncio.Event()

    def configure(
        self, profiles: dict[str, Profile], initial_backoff: float, longest_backoff: float
    ) -> None:
        """Follow these profiles from now on; everybody is looked at again."""
        self._profiles = profiles
        self._key = next(iter(profiles.values())).points["queueSort"][0].sort_key
        self._interests = Interests(profiles)
        self._backoffs.initial, self._backoffs.longest, self._backoffs.key = (
            initial_backoff,
            longest_backoff,
            self._key,
        )
        self._heap.clear()
        for queued in [*self._active.values(), *self._backoffs.pods.values(), *self._parked]:
            self._take_out(queued.pod.ref)
            if queued.pod.spec.get("schedulerName") in profiles:
                self._activate(queued)

    # --- pods ---

    def add(self, pod: PodInfo) -> None:
        """A pod that needs a node."""
        self._nominated.add(pod)
        self._activate(QueuedPod(pod, self._now(), self._turn()))

    def add_missing(self, pod: PodInfo) -> None:
        """Perhaps it is here already."""
        shelves = (self._active, self._backoffs.pods, self._parked)
        if pod.uid not in self._flying and not any(pod.ref in shelf for shelf in shelves):
            self.add(pod)

    def update(self, pod: PodInfo, old: Obj, events: list[ClusterEvent]) -> None:
        """The pod has changed in these ways."""
        if pod.uid in self._flying:
            self._flying[pod.uid] += [(event, old, pod.obj) for event in events]
            return
        queued = self._parked.get(pod.ref)
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
                if self._interests.helps(queued, event, old, pod.obj):
                    self._requeue(queued)
                    break
        if self._nominated.node_of(pod.uid) or pod.nominated:
            self._nominated.add(pod, pod.nominated)

    def remove(self, ref: Ref, uid: str) -> None:
        """The pod needs no node any more."""
        self._nominated.remove(uid)
        self._take_out(ref)

    def _take_out(self, ref: Ref) -> None:
        self._active.pop(ref, None)
        self._backoffs.pods.pop(ref, None)
        self._parked.pop(ref)
        self.look_again()

    def activate(self, pod: PodInfo) -> None:
        """Look at this pod at once, whatever it waits for."""
        queued = self._parked.pop(pod.ref) or self._backoffs.pods.pop(pod.ref, None)
        if queued:
            self._activate(queued)
        elif pod.uid in self._flying:
            self._flying[pod.uid].append((TIMEOUT, None, None))

    @property
    def is_at_work(self) -> bool:
        """Whether anybody is more than parked, or backs off in vain."""
        return bool(self._active or self._flying or self._backs_off)

    def is_held(self, ref: Ref) -> bool:
        """Whether a plugin does not let the pod be looked at."""
        queued = self._parked.get(ref)
        return queued is not None and bool(queued.gate)

    @property
    def _backs_off(self) -> bool:
        return bool(self._backoffs.pods) and not self.in_vain()

    # --- the next one ---

    async def ready(self) -> None:
        """Wait until there is somebody to look at."""
        while not self._first_active() and not self._backoffs.early():
            self._wake.clear()
            await self._wake.wait()

    def look_again(self) -> None:
        """Somebody may be waiting for what has just come to its end."""
        self._wake.set()

    def pop(self) -> QueuedPod | None:
        """The next pod, which is in flight from now on."""
        queued = self._judged() or self._first_active() or self._backoffs.early()
        if queued is None:
            return None
        if queued.pod.ref in self._backoffs.pods:
            self._backoffs.note_early(queued)
        self._take_out(queued.pod.ref)
        queued.attempts += 1
        self._flying[queued.pod.uid] = []
        return queued

    def _judged(self) -> QueuedPod | None:
        """Whom the judge wants, if there is one and any choice."""
        if self.judge is None:
            return None
        again = sorted(
            (queued for queued in self._active.values() if queued.attempts), key=self._key
        )
        again += self._backoffs.turned_down()
        return self.judge(again) if len(again) > 1 else None

    def _first_active(self) -> QueuedPod | None:
        while self._heap:
            waits, _, turn, queued = self._heap[0]
            if self._active.get(queued.pod.ref) is queued and queued.turn == turn:
                return None if waits and (self._backs_off or self._nominated.preemptors) else queued
            heapq.heappop(self._heap)
        return None

    def done(self, uid: str) -> None:
        """The pod is in flight no longer."""
        self._flying.pop(uid, None)

    def give_back(self, queued: QueuedPod) -> None:
        """There was no node for it, or something has failed."""
        if queued.rejectors or queued.pending:
            queued.unschedulable += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.since, queued.turn, queued.expires = self._now(), self._turn(), None
        events = self._flying.pop(queued.pod.uid, [])
        failed = not (queued.rejectors or queued.pending)
        if failed or any(self._interests.helps(queued, *event) for event in events):
            self._requeue(queued)
        else:
            self._park(queued)

    # --- what happens ---

    @property
    def is_curious(self) -> bool:
        """Whether it matters to anybody in it what happens."""
        return bool(self._flying or self._parked)

    def happened(
        self,
        event: ClusterEvent,
        old: Obj | None,
        new: Obj | None,
        *,
        unless: Ref | None = None,
        up_to: float = math.inf,
    ) -> None:
        """Look again at those up to this priority whom this may help; those in flight learn of
        it when they come back.
        """
        for flying in self._flying.values():
            flying.append((event, old, new))
        if not self._parked:
            return
        for queued in self._parked.turned_down_by(self._interests.listeners(event)):
            if (
                queued.pod.ref != unless
                and queued.pod.priority <= up_to
                and self._interests.helps(queued, event, old, new)
            ):
                self._requeue(queued)

    async def look_through(self, sleep: Callable[..., Any]) -> None:
        """For ever: whoever has been parked for long is looked at again."""
        while True:
            await self._parking.wait()
            self._parking.clear()
            while self._parked:
                await sleep(LEFTOVER_ROUND, background=True)
                for queued in self._parked:
                    if not queued.gate and self._now() - queued.since > LEFTOVER:
                        self._requeue(queued)

    # --- moving ---

    def _requeue(self, queued: QueuedPod) -> None:
        self._parked.pop(queued.pod.ref)
        if not self._backoffs.goes_on(queued):
            self._activate(queued)
        elif not self._comes_to_be_held(queued):
            self._backoffs.add(queued)
            self._wake.set()

    def _activate(self, queued: QueuedPod) -> None:
        if not self._comes_to_be_held(queued):
            self._to_active(queued)

    def _to_active(self, queued: QueuedPod) -> None:
        self._active[queued.pod.ref] = queued
        self._push(queued)
        self._wake.set()

    def _comes_to_be_held(self, queued: QueuedPod) -> bool:
        """Whether a plugin does not let the pod be looked at; then it is parked."""
        profile = self._profiles.get(queued.pod.spec.get("schedulerName", ""))
        status = profile.pre_enqueue(queued.pod) if profile else None
        queued.gate = status.plugin if status else ""
        if status:
            queued.rejectors.add(status.plugin)
            self._park(queued)
        return status is not None

    def _park(self, queued: QueuedPod) -> None:
        self._parked.add(queued)
        if not queued.gate:
            self._parking.set()

    def _push(self, queued: QueuedPod) -> None:
        queued.turn = queued.turn or self._turn()
        waits = not queued.attempts and self.one_by_one()
        heapq.heappush(self._heap, (waits, self._key(queued), queued.turn, queued))

    def _turn(self) -> int:
        self._turns += 1
        return self._turns
