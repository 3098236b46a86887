"""Handle that plugins get: the cluster's state and the means to act on it.

Made by `Scheduler` for each profile. It also defines the tie breaker and the pods that wait at the
permit point.
"""

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
        NominatedPods,
        PodInfo,
    )
    from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
    from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
    from pytest_kscen.embedded.scheduler.queue import SchedulingQueue


@dataclass(kw_only=True)
class Handle:
    """Shared objects of a scheduler, and one profile. Each profile has its own Handle; all fields
    but `profile` and `extenders` are the same objects in each.
    """

    context: ControllerContext
    """Context with `api`, `clock`, `informers` and `recorder`."""
    chance: Stream
    ties: TieBreaker
    """Tie breaker: `ties.decide(pod, names)` picks one of several equally good nodes."""
    snapshot: Snapshot
    nominated: NominatedPods
    waiting: WaitingPods
    """Pods held by permit plugins."""
    queue: SchedulingQueue
    """Scheduling queue; `queue.activate(pod)` retries a pod immediately."""
    child_tasks: ChildTasks
    """Tasks that run beside the scheduling cycle; with `background=True` those that never end."""
    extenders: Sequence[Extender] = ()
    profile: SchedulerProfile = field(init=False)
    """Profile that this handle was made for, with its other plugins."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the first refusal of the profile's filters for a node, which may be a copy with
        other pods on it. Used by preemption to try out victims.
        """
        return self.profile.filter(state, pod, node)


T = TypeVar("T")


class TieBreaker:
    """Choice among equally good nodes, drawn from a stream of the seed.

    If `judge` is set, it decides instead: it receives the pod and the names of the nodes, and
    returns one of them. Comparisons set it to follow the choices of another scheduler.
    """

    def __init__(self, chance: Stream) -> None:
        self.judge: Callable[[PodInfo, Sequence[str]], str] | None = None
        self._chance = chance

    def decide(self, pod: PodInfo, equals: Sequence[T], name_of: Callable[[T], str] = str) -> T:
        """Return one of `equals`. A single candidate is returned without a draw and without calling
        the judge, so streams of chance stay comparable between runs.
        """
        if len(equals) == 1:
            return equals[0]
        if self.judge is None:
            return self._chance.choice(equals)
        by_name = {name_of(each): each for each in equals}
        return by_name[self.judge(pod, tuple(by_name))]


MAX_PERMIT_WAIT = 15 * 60.0  # seconds; longer waits are cut to this


class WaitingPod:
    """Pod held at the permit point until all waiting plugins allow it, one rejects it, or a
    plugin's time is up. Time limits are cluster time, at most 15 minutes each.
    """

    def __init__(
        self, pod: PodInfo, node: str, plugins: dict[str, float], plugin_names: Collection[str]
    ) -> None:
        """Start the timers. `plugin_names` are all plugins of the profile; `allow` rejects other
        names.
        """
        loop = asyncio.get_running_loop()
        self._plugin_names = plugin_names
        self.pod = pod
        self.node = node
        self._decision: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {
            name: loop.call_later(
                min(seconds, MAX_PERMIT_WAIT),
                self.reject,
                name,
                f"timeout after {seconds:g}s waiting on permit of plugin {name!r}",
            )
            for name, seconds in plugins.items()
        }

    @property
    def plugins(self) -> list[str]:
        """Names of the plugins that have not allowed the pod yet."""
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        """Record the permission of a plugin; the last one releases the pod. A plugin that the pod
        does not wait for is ignored; ValueError if the profile has no such plugin.
        """
        if plugin not in self._plugin_names:
            raise ValueError(
                f"the profile has no plugin {plugin!r}{nearest(plugin, self._plugin_names)}: "
                "pass self.name"
            )
        timer = self._timers.pop(plugin, None)
        if timer:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, reason: str) -> None:
        self._decide(unschedulable(reason).by(plugin))

    def _decide(self, decision: Status | None) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if not self._decision.done():
            self._decision.set_result(decision)

    async def decided(self) -> Status | None:
        return await self._decision


class WaitingPods:
    """Waiting pods by uid, as in `handle.waiting.get(uid).allow(self.name)`. Iteration yields a
    copy, so pods may be allowed meanwhile.
    """

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(
        self, pod: PodInfo, node: str, plugins: dict[str, float], plugin_names: Collection[str]
    ) -> WaitingPod:
        self._pods[pod.uid] = WaitingPod(pod, node, plugins, plugin_names)
        return self._pods[pod.uid]

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
