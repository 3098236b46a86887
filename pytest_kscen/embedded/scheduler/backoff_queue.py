"""Pods that back off: those whose time is up first, and among these whoever would be first in the
queue.

Who was turned down may be taken before its time when there is nobody else, but not for ever at one
instant: pods that wake each other would not let time pass. Who met an error may not."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import QueuedPod
    from pytest_kscen.kube.cache import Ref


EARLY = 10  # times that one pod is taken early at one instant
WINDOW = 1.0  # seconds: back-offs end together at its borders


class Backoffs:
    """`ended` takes each pod whose time is up."""

    def __init__(self, now: Callable[[], float], ended: Callable[[QueuedPod], None]) -> None:
        self.initial, self.longest = 1.0, 10.0
        self.key: Callable[[QueuedPod], Any] = lambda queued: queued.since
        self._now = now
        self._ended = ended
        self.pods: dict[Ref, QueuedPod] = {}
        self._turned_down: list[tuple[float, Any, int, QueuedPod]] = []
        self._timer: asyncio.TimerHandle | None = None

    def goes_on(self, queued: QueuedPod) -> bool:
        """Whether the pod has to wait still."""
        expiry = self._expiry(queued)
        return expiry > 0 and expiry >= _window(self._now())

    def _expiry(self, queued: QueuedPod) -> float:
        if queued.expires is None:
            count = queued.errors or queued.unschedulable
            queued.expires = _window(queued.since + self._seconds(count)) if count else -1.0
        return queued.expires

    def _seconds(self, count: int) -> float:
        """Twice as long each time, up to the longest."""
        seconds = self.initial
        while count > 1 and seconds < self.longest:
            count, seconds = count - 1, seconds * 2
        return min(seconds, self.longest)

    def add(self, queued: QueuedPod) -> None:
        self.pods[queued.pod.ref] = queued
        if queued.rejectors or queued.pending:
            heapq.heappush(
                self._turned_down, (self._expiry(queued), self.key(queued), queued.turn, queued)
            )
        self._wait_for(self._expiry(queued))

    def early(self) -> QueuedPod | None:
        """Who may be taken before its time."""
        while self._turned_down:
            _, _, turn, queued = self._turned_down[0]
            if (
                self.pods.get(queued.pod.ref) is queued
                and queued.turn == turn
                and self._may_be_early(queued)
            ):
                return queued
            heapq.heappop(self._turned_down)
        return None

    def turned_down(self) -> list[QueuedPod]:
        """All who may be taken before their time, in their order."""
        found = [
            each
            for each in self.pods.values()
            if (each.rejectors or each.pending) and self._may_be_early(each)
        ]
        return sorted(
            found, key=lambda queued: (self._expiry(queued), self.key(queued), queued.turn)
        )

    def _may_be_early(self, queued: QueuedPod) -> bool:
        return queued.early < (self._now(), EARLY)

    def note_early(self, queued: QueuedPod) -> None:
        """It is taken before its time."""
        instant, times = queued.early
        queued.early = self._now(), times + 1 if instant == self._now() else 1

    def _wait_for(self, expiry: float) -> None:
        """Look through them when this time is up, if not before."""
        loop = asyncio.get_running_loop()
        delay = max(expiry + WINDOW - self._now(), 0)
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay, self._look_through)

    def _look_through(self) -> None:
        self._timer = None
        for ref, queued in list(self.pods.items()):
            if not self.goes_on(queued):
                del self.pods[ref]
                self._ended(queued)
        if self.pods:
            self._wait_for(min(map(self._expiry, self.pods.values())))


def _window(instant: float) -> float:
    return instant // WINDOW * WINDOW


# Pods for which there was no node, found again by the plugins that turned them down.


class Parked:
    """A shelf. While a pod is on it, nobody changes who turned it down."""

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

    def turned_down_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """By any of these, in the order in which they came back."""
        found = {
            ref: queued
            for plugin in plugins
            for ref, queued in self._by_plugin.get(plugin, {}).items()
        }
        return sorted(found.values(), key=lambda queued: queued.turn)

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
