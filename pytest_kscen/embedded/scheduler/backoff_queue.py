"""Pods that back off after an attempt, and pods that are unschedulable until an event helps them.

Used by `queue` alone. Back-offs end in windows of one second, as in kube-scheduler. A refused pod
may be retried early while the active queue is empty, at most ten times at one instant: pods that
wake each other would otherwise stop virtual time. A pod with an error always backs off.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import QueuedPod
    from pytest_kscen.kube.cache import Ref


MAX_EARLY_ATTEMPTS = 10  # early retries of one pod at one instant
BACKOFF_WINDOW = 1.0  # seconds; back-offs end at multiples of it


class BackoffQueue:
    """Pods that back off, with one timer for the earliest end. `on_expiry` is called with each pod
    whose back-off has ended; the pod is then no longer in `pods`.
    """

    def __init__(self, now: Callable[[], float], on_expiry: Callable[[QueuedPod], None]) -> None:
        self.initial, self.maximum = 1.0, 10.0
        self.key: Callable[[QueuedPod], Any] = lambda queued: queued.since
        self._now = now
        self._on_expiry = on_expiry
        self.pods: dict[Ref, QueuedPod] = {}
        self._rejected: list[tuple[float, Any, int, QueuedPod]] = []
        self._timer: asyncio.TimerHandle | None = None

    def is_backing_off(self, queued: QueuedPod) -> bool:
        """Return True if the pod's back-off has not ended yet. The end is computed once per attempt
        from its number of failed attempts.
        """
        expiry = self._expiry(queued)
        return expiry > 0 and expiry >= _floor_to_window(self._now())

    def _expiry(self, queued: QueuedPod) -> float:
        if queued.expires is None:
            count = queued.errors or queued.unschedulable
            queued.expires = -1.0
            if count:
                seconds = self.initial  # doubled after each failure, up to the maximum
                while count > 1 and seconds < self.maximum:
                    count, seconds = count - 1, seconds * 2
                queued.expires = _floor_to_window(queued.since + min(seconds, self.maximum))
        return queued.expires

    def add(self, queued: QueuedPod) -> None:
        self.pods[queued.pod.ref] = queued
        if queued.rejectors or queued.pending:
            heapq.heappush(
                self._rejected, (self._expiry(queued), self.key(queued), queued.sequence, queued)
            )
        self._schedule_release(self._expiry(queued))

    def early(self) -> QueuedPod | None:
        """Return the refused pod that may be retried before its back-off ends: the one with the
        earliest end, then by queue order. None if there is none.
        """
        while self._rejected:
            _, _, turn, queued = self._rejected[0]
            if (
                self.pods.get(queued.pod.ref) is queued
                and queued.sequence == turn
                and self._may_run_early(queued)
            ):
                return queued
            heapq.heappop(self._rejected)
        return None

    def rejected(self) -> list[QueuedPod]:
        """Return all pods that may be retried early, in the order in which `early` would return
        them.
        """
        found = [
            each
            for each in self.pods.values()
            if (each.rejectors or each.pending) and self._may_run_early(each)
        ]
        return sorted(
            found, key=lambda queued: (self._expiry(queued), self.key(queued), queued.sequence)
        )

    def _may_run_early(self, queued: QueuedPod) -> bool:
        return queued.early < (self._now(), MAX_EARLY_ATTEMPTS)

    def count_early_attempt(self, queued: QueuedPod) -> None:
        instant, times = queued.early
        queued.early = self._now(), times + 1 if instant == self._now() else 1

    def _schedule_release(self, expiry: float) -> None:
        """Set the timer for this expiry, unless it is set for an earlier one."""
        loop = asyncio.get_running_loop()
        delay = max(expiry + BACKOFF_WINDOW - self._now(), 0)
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay, self._release_expired)

    def _release_expired(self) -> None:
        self._timer = None
        for ref, queued in list(self.pods.items()):
            if not self.is_backing_off(queued):
                del self.pods[ref]
                self._on_expiry(queued)
        if self.pods:
            self._schedule_release(min(map(self._expiry, self.pods.values())))


def _floor_to_window(instant: float) -> float:
    return instant // BACKOFF_WINDOW * BACKOFF_WINDOW


class UnschedulablePods:
    """Pods without a node, found again by the plugins that refused them. A pod's rejectors must not
    change while it is in here, since the index is built from them.
    """

    def __init__(self) -> None:
        self._pods: dict[Ref, QueuedPod] = {}
        self._by_plugin: dict[str, dict[Ref, QueuedPod]] = {}

    def add(self, queued: QueuedPod) -> None:
        ref = queued.pod.ref
        self._pods[ref] = queued
        for plugin in queued.rejectors | queued.pending:
            self._by_plugin.setdefault(plugin, {})[ref] = queued

    def pop(self, ref: Ref, default: None = None) -> QueuedPod | None:
        queued = self._pods.pop(ref, default)
        if queued is not None:
            for plugin in queued.rejectors | queued.pending:
                self._by_plugin.get(plugin, {}).pop(ref, None)
        return queued

    def get(self, ref: Ref) -> QueuedPod | None:
        return self._pods.get(ref)

    def rejected_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """Return the pods that any of these plugins refused, in the order in which they were put
        back.
        """
        found = {
            ref: queued
            for plugin in plugins
            for ref, queued in self._by_plugin.get(plugin, {}).items()
        }
        return sorted(found.values(), key=lambda queued: queued.sequence)

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
