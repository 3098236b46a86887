"""What a plugin holds: the cluster as the scheduler sees it, and the means to act."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.embedded.scheduler.framework.status import Status, unschedulable
from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.child_tasks import ChildTasks
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.extender import Extender
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import (
        NodeInfo,
        Nominated,
        PodInfo,
    )
    from pytest_kscen.embedded.scheduler.framework.profile import Profile
    from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
    from pytest_kscen.embedded.scheduler.queue import Queue


@dataclass(kw_only=True)
class Handle:
    """One for each profile; all share what is in it, but for the profile."""

    context: ControllerContext
    """`context.api`, `context.clock`, `context.informers`, `context.recorder`."""
    chance: Stream
    ties: Ties
    """`ties.decide(pod, names)`: one of several nodes that are equally good."""
    snapshot: Snapshot
    nominated: Nominated
    waiting: WaitingPods
    """Pods that a permit plugin has told to wait."""
    queue: Queue
    """`queue.activate(pod)`: look at this pod at once."""
    brood: ChildTasks
    """Where to start what must not hold up the scheduler; with `background=True`, if it never
    ends.
    """
    extenders: Sequence[Extender] = ()
    profile: Profile = field(init=False)
    """The plugins beside this one."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """What all filters say of one node, a copy with other pods on it included.

        For preemption.
        """
        return self.profile.filter(state, pod, node)


# Which of several nodes that are equally good.


T = TypeVar("T")


class Ties:
    """Chance decides; unless a judge is there, who is given the pod and the nodes' names, as one
    that follows another scheduler.
    """

    def __init__(self, chance: Stream) -> None:
        self.judge: Callable[[PodInfo, Sequence[str]], str] | None = None
        self._chance = chance

    def decide(self, pod: PodInfo, equals: Sequence[T], name_of: Callable[[T], str] = str) -> T:
        """Where there is one alone, nobody is asked and nothing is drawn."""
        if len(equals) == 1:
            return equals[0]
        if self.judge is None:
            return self._chance.choice(equals)
        by_name = {name_of(each): each for each in equals}
        return by_name[self.judge(pod, tuple(by_name))]


# Pods that a permit plugin has told to wait, until all such plugins allow them, one rejects
# them, or their time is up.


LONGEST = 15 * 60.0  # seconds that any plugin may let a pod wait


class WaitingPod:
    """One pod that waits."""

    def __init__(
        self, pod: PodInfo, node: str, plugins: dict[str, float], known: Collection[str]
    ) -> None:
        """`known` are all plugins that there are."""
        loop = asyncio.get_running_loop()
        self._known = known
        self.pod = pod
        self.node = node
        self._verdict: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {
            name: loop.call_later(min(seconds, LONGEST), self._expire, name, seconds)
            for name, seconds in plugins.items()
        }

    @property
    def plugins(self) -> list[str]:
        """Those that have not allowed it yet."""
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        """Of those whom it does not wait for, nothing comes of it; a ValueError if there is no
        such plugin.
        """
        if plugin not in self._known:
            raise ValueError(
                f"no pod waits for a plugin {plugin!r}{nearest(plugin, self._known)}: it "
                "is called by its self.name"
            )
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

    def add(
        self, pod: PodInfo, node: str, plugins: dict[str, float], known: Collection[str]
    ) -> WaitingPod:
        self._pods[pod.uid] = WaitingPod(pod, node, plugins, known)
        return self._pods[pod.uid]

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
