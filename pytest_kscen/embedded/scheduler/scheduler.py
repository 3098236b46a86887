"""One pod after the other: its node is found, taken in thought, then bound.

A pod for which there is no node says why, and is parked until something happens that may help it.
What takes time before a pod can be bound does not hold up the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.scheduler.configuration_source import Source
from pytest_kscen.embedded.scheduler.event_handlers import Following
from pytest_kscen.embedded.scheduler.framework.configuration import (
    NAME,
    Configuration,
    ProfileConfiguration,
)
from pytest_kscen.embedded.scheduler.framework.handle import Handle, Ties, WaitingPods
from pytest_kscen.embedded.scheduler.framework.plugin_checks import blaming
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nominated
from pytest_kscen.embedded.scheduler.framework.profile import Profile
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
from pytest_kscen.embedded.scheduler.queue import Queue
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.result_annotations import Annotating
from pytest_kscen.embedded.scheduler.scheduling_cycle import Attempting
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.attempt import Sink
    from pytest_kscen.embedded.scheduler.framework.extender import Extender
    from pytest_kscen.objects.resources import Obj

FIT = "NodeResourcesFit"


async def _open() -> None:
    """The gate of a scheduler that nobody holds back."""


class Scheduler:
    """The actor.

    `gate` is awaited before each pod is taken from the queue; `sink`, if there is one, is told of
    every attempt."""

    def __init__(
        self,
        context: ControllerContext,
        chance: Stream,
        *,
        gate: Callable[[], Awaitable[None]] = _open,
        sink: Sink | None = None,
        registry: Registry | None = None,
        configuration: Configuration | None = None,
    ) -> None:
        self.gate = gate
        self.registry = registry or Registry()
        self._context = context
        self._profiles: dict[str, Profile] = {}
        nominated = Nominated()
        self._handle = Handle(
            context=context,
            chance=chance,
            ties=Ties(chance),
            snapshot=Snapshot(),
            nominated=nominated,
            waiting=WaitingPods(),
            queue=Queue(context.now, nominated),
            brood=ChildTasks(),
        )
        self.queue = self._handle.queue
        self.queue.in_vain = lambda: self._handle.snapshot.is_empty
        self.ties = self._handle.ties
        self._following = Following(self._handle, self._profiles)
        self._attempting = Attempting(self._handle)
        self._attempting.sink = sink
        self._pending: tuple[Configuration, dict[str, Profile]] | None = None
        self._busy = False
        default = configuration or Configuration()
        self.configure(default)
        self._source = Source(context, self.registry, default, self.configure)

    def configure(self, configuration: Configuration) -> None:
        """Work by this configuration from the next attempt on; a ValueError says what is wrong
        with it.
        """
        handle = replace(self._handle, extenders=_extenders(configuration, self._handle.snapshot))
        made = {
            one.name: Profile(_leaving(configuration, one), self.registry, replace(handle))
            for one in configuration.profiles
        }
        self._pending = configuration, made
        if not self._busy:
            self._take_over()

    def _take_over(self) -> None:
        """Between two attempts: the new configuration holds."""
        if self._pending is None:
            return
        configuration, made = self._pending
        self._pending = None
        for profile in self._profiles.values():
            profile.close()
        self._profiles.clear()
        self._profiles.update(made)
        self._attempting.percentage = configuration.percentage
        self.queue.configure(made, configuration.initial_backoff, configuration.longest_backoff)
        kinds = {interest.resource for profile in made.values() for interest in profile.events()}
        self._following.follow(
            kinds, [resource for profile in made.values() for resource in profile.reads()]
        )
        self._following.look_for_ours()

    async def adopt(self, written: str) -> None:
        """Work by this KubeSchedulerConfiguration; by the cluster's, as it is at this moment, if
        it is empty.
        """
        self.configure(self._source.read(written) if written else await self._source.latest())
        await self._following.synced()

    async def revert(self) -> None:
        """The cluster's configuration holds again."""
        self.configure(self._source.good)

    def begin_anew(self) -> None:
        """Place what comes as if nothing had ever been."""
        self._handle.chance.restart()
        self._attempting.begin_anew()

    def tell(self, sink: Sink | None) -> None:
        """Tell this one of every attempt from now on."""
        self._attempting.sink = sink

    def annotating(self) -> Annotating:
        """A sink that writes each attempt's results into its pod's annotations, in the
        scheduler's name.
        """
        return Annotating(self._context)

    async def run(self) -> Never:
        await self._following.synced()
        await self._source.synced()
        self._handle.brood.start(self._work(), NAME, background=True)
        self._handle.brood.start(
            self.queue.look_through(self._context.clock.sleep),
            f"{NAME}'s leftovers",
            background=True,
        )
        await self._handle.brood.watch()

    @property
    def profiles(self) -> Collection[str]:
        """The schedulerNames of its pods, as of now."""
        return self._profiles.keys()

    def preemptor_of(self, uid: str) -> str:
        """For whom this pod is just being sent away, as namespace/name; empty if it is not."""
        preemptor = self._handle.nominated.preemptors.get(uid)
        return "/".join(preemptor.ref) if preemptor else ""

    def holds_back(self, pod: Obj) -> bool:
        """Whether a plugin does not let this pod be looked at."""
        return self.queue.is_held(Ref.of(pod))

    def permission_of(self, pod: Obj) -> list[str]:
        """The plugins without whose permission this pod is not bound to the node that was found."""
        waiting = self._handle.waiting.get(pod["metadata"]["uid"])
        return waiting.plugins if waiting else []

    async def is_idle(self) -> bool:
        """Whether it does nothing until something happens: none waits for its turn, backs off,
        is bound or makes room.
        """
        return not (self.queue.is_at_work or self._handle.brood.has_foreground_tasks)

    async def _work(self) -> Never:
        while True:
            await self.queue.ready()
            await self.gate()
            queued = self.queue.pop()
            if queued is None:
                continue
            profile = self._profiles.get(queued.pod.spec.get("schedulerName", ""))
            if profile is None:
                self.queue.done(queued.pod.uid)
                continue
            self._busy = True
            try:
                with blaming(queued.pod):
                    await self._attempting.attempt(profile, queued)
            except (ApiError, OSError):
                self.queue.give_back(queued)
            self._busy = False
            self._take_over()


def _leaving(configuration: Configuration, profile: ProfileConfiguration) -> ProfileConfiguration:
    """The profile, with those resources ignored that extenders look after alone."""
    ignored = [name for one in configuration.extenders for name in one.ignored_by_scheduler]
    if not ignored:
        return profile
    args = profile.arguments.get(FIT, {})
    args = {**args, "ignoredResources": [*(args.get("ignoredResources") or ()), *ignored]}
    return replace(profile, arguments={**profile.arguments, FIT: args})


def _extenders(configuration: Configuration, snapshot: Snapshot) -> list[Extender]:
    if not configuration.extenders:
        return []
    from pytest_kscen.embedded.scheduler.extenders import HttpExtender  # which few schedulers need

    return [HttpExtender(one, snapshot) for one in configuration.extenders]
