"""Pods that a permit plugin has told to wait, until all such plugins allow them, one rejects them, or their time is up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.simulation.scheduler.framework.status import Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

LONGEST = 15 * 60.0  # seconds that any plugin may let a pod wait


class WaitingPod:
    """One pod that waits."""

    def __init__(self, pod: PodInfo, node: str, plugins: dict[str, float], known: Collection[str]) -> None:
        """`known` are all plugins that there are."""
        loop = asyncio.get_running_loop()
        self._known = known
        self.pod = pod
        self.node = node
        self._verdict: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {
            name: loop.call_later(min(seconds, LONGEST), self._expire, name, seconds) for name, seconds in plugins.items()
        }

    @property
    def plugins(self) -> list[str]:
        """Those that have not allowed it yet."""
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        """Of those whom it does not wait for, nothing comes of it; a ValueError if there is no such plugin."""
        if plugin not in self._known:
            raise ValueError(f"no pod waits for a plugin {plugin!r}{nearest(plugin, self._known)}: it is called by its self.name")
        timer = self._timers.pop(plugin, None)
        if timer:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, reason: str) -> None:
        self._decide(unschedulable(reason).by(plugin))

    def _expire(self, plugin: str, seconds: float) -> None:
        self.reject(plugin, f"timeout after {seconds:g}s waiting on permit of plugin {plugin!r}")

    def _decide(self, verdict: Status | None) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if not self._verdict.done():
            self._verdict.set_result(verdict)

    async def decided(self) -> Status | None:
        return await self._verdict


class WaitingPods:
    """All of them, by uid: `handle.waiting.get(uid).allow(self.name)`."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, node: str, plugins: dict[str, float], known: Collection[str]) -> WaitingPod:
        self._pods[pod.uid] = WaitingPod(pod, node, plugins, known)
        return self._pods[pod.uid]

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
