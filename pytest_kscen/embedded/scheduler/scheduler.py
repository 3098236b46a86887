"""Actor that schedules pods one after another, as kube-scheduler does.

Each cycle finds a node for a pod, assumes the pod on it and binds it. A pod without a node gets a
message and waits in the queue until an event may help it. Bindings that take time run beside the
cycle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.scheduler.configuration_source import ConfigurationSource
from pytest_kscen.embedded.scheduler.event_handlers import EventHandlers
from pytest_kscen.embedded.scheduler.framework.configuration import (
    DEFAULT_SCHEDULER_NAME,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from pytest_kscen.embedded.scheduler.framework.handle import Handle, TieBreaker, WaitingPods
from pytest_kscen.embedded.scheduler.framework.plugin_checks import attribute_plugin_errors
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NominatedPods
from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
from pytest_kscen.embedded.scheduler.queue import SchedulingQueue
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.result_annotations import ResultAnnotator
from pytest_kscen.embedded.scheduler.scheduling_cycle import SchedulingCycle
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

RESOURCES_FIT = "NodeResourcesFit"


async def _no_gate() -> None:
    """Return at once: the default gate never holds the scheduler back."""


class Scheduler:
    """Scheduler of an embedded cluster, started with `run`.

    `gate` is awaited before each pod is taken from the queue; scenarios use it to hold the
    scheduler. `sink`, if given, receives every finished attempt. Ties between nodes are drawn from
    `chance`.
    """

    def __init__(
        self,
        context: ControllerContext,
        chance: Stream,
        *,
        gate: Callable[[], Awaitable[None]] = _no_gate,
        sink: Sink | None = None,
        registry: Registry | None = None,
        configuration: SchedulerConfiguration | None = None,
    ) -> None:
        self.gate = gate
        self.registry = registry or Registry()
        self._context = context
        self._profiles: dict[str, SchedulerProfile] = {}
        nominated = NominatedPods()
        self._handle = Handle(
            context=context,
            chance=chance,
            ties=TieBreaker(chance),
            snapshot=Snapshot(),
            nominated=nominated,
            waiting=WaitingPods(),
            queue=SchedulingQueue(context.now, nominated),
            child_tasks=ChildTasks(),
        )
        self.queue = self._handle.queue
        self.queue.has_no_nodes = lambda: self._handle.snapshot.is_empty
        self.ties = self._handle.ties
        self._handlers = EventHandlers(self._handle, self._profiles)
        self._cycle = SchedulingCycle(self._handle)
        self._cycle.sink = sink
        self._pending: tuple[SchedulerConfiguration, dict[str, SchedulerProfile]] | None = None
        self._in_cycle = False
        default = configuration or SchedulerConfiguration()
        self.configure(default)
        self._source = ConfigurationSource(context, self.registry, default, self.configure)

    def configure(self, configuration: SchedulerConfiguration) -> None:
        """Use this configuration from the next attempt on. ValueError, before anything changes, if
        a plugin is unknown or cannot be made.
        """
        extenders: list[Extender] = []
        if configuration.extenders:  # rare, so imported here
            from pytest_kscen.embedded.scheduler.extenders import HttpExtender

            snapshot = self._handle.snapshot
            extenders = [HttpExtender(one, snapshot) for one in configuration.extenders]
        handle = replace(self._handle, extenders=extenders)
        profiles = {
            one.name: SchedulerProfile(
                _with_ignored_resources(configuration, one), self.registry.resolve, replace(handle)
            )
            for one in configuration.profiles
        }
        self._pending = configuration, profiles
        if not self._in_cycle:
            self._apply_pending()

    def _apply_pending(self) -> None:
        """Switch to the pending configuration; called between two attempts only."""
        if self._pending is None:
            return
        configuration, profiles = self._pending
        self._pending = None
        for profile in self._profiles.values():
            profile.close()
        self._profiles.clear()
        self._profiles.update(profiles)
        self._cycle.percentage = configuration.percentage
        self.queue.configure(profiles, configuration.initial_backoff, configuration.longest_backoff)
        kinds = {
            interest.resource for profile in profiles.values() for interest in profile.events()
        }
        self._handlers.watch_kinds(
            kinds, [resource for profile in profiles.values() for resource in profile.reads()]
        )
        self._handlers.enqueue_unassigned()

    async def adopt(self, written: str) -> None:
        """Use this KubeSchedulerConfiguration (YAML or JSON); if it is empty, the ConfigMap's as it
        is now. Returns when the resources that its plugins read are synced.
        """
        self.configure(self._source.read(written) if written else await self._source.latest())
        await self._handlers.synced()

    async def revert(self) -> None:
        """Return to the last valid configuration of the ConfigMap, or to the default."""
        self.configure(self._source.good)

    def reset(self) -> None:
        """Forget earlier placements: restart the stream of chance, and search from the first node
        again. Called between scenarios so that each gives the same placements.
        """
        self._handle.chance.restart()
        self._cycle.reset()

    def set_sink(self, sink: Sink | None) -> None:
        """Send every attempt to this sink from now on; None records none."""
        self._cycle.sink = sink

    def make_annotator(self) -> ResultAnnotator:
        """Return a sink that writes each attempt's results into annotations of its pod, as the
        scheduler's user.
        """
        return ResultAnnotator(self._context)

    async def run(self) -> Never:
        await self._handlers.synced()
        await self._source.synced()
        self._handle.child_tasks.start(self._run_cycles(), DEFAULT_SCHEDULER_NAME, background=True)
        self._handle.child_tasks.start(
            self.queue.flush_unschedulable(self._context.clock.sleep),
            f"{DEFAULT_SCHEDULER_NAME}'s leftovers",
            background=True,
        )
        await self._handle.child_tasks.watch()

    @property
    def profiles(self) -> Collection[str]:
        """Names of the current profiles: the schedulerNames of the pods it schedules."""
        return self._profiles.keys()

    def preemptor_of(self, uid: str) -> str:
        """Return namespace/name of the pod that preempts this victim, while the deletion is under
        way; otherwise an empty string.
        """
        preemptor = self._handle.nominated.preemptors.get(uid)
        return "/".join(preemptor.ref) if preemptor else ""

    def is_gated(self, pod: Obj) -> bool:
        """Return True if a plugin keeps the pod out of the active queue at pre_enqueue."""
        return self.queue.is_gated(Ref.of(pod))

    def permit_plugins_of(self, pod: Obj) -> list[str]:
        """Return the permit plugins that hold the pod, which has a node but is not bound yet."""
        waiting = self._handle.waiting.get(pod["metadata"]["uid"])
        return waiting.plugins if waiting else []

    async def is_idle(self) -> bool:
        """Return True if nothing happens until the next event: no pod is active, backs off, is
        being bound or preempts others.
        """
        return not (self.queue.is_at_work or self._handle.child_tasks.has_foreground_tasks)

    async def _run_cycles(self) -> Never:
        while True:
            await self.queue.wait_until_ready()
            await self.gate()
            queued = self.queue.pop()
            if queued is None:
                continue
            profile = self._profiles.get(queued.pod.spec.get("schedulerName", ""))
            if profile is None:
                self.queue.done(queued.pod.uid)
                continue
            self._in_cycle = True
            try:
                with attribute_plugin_errors(queued.pod):
                    await self._cycle.attempt(profile, queued)
            except (ApiError, OSError):
                self.queue.put_back(queued)
            self._in_cycle = False
            self._apply_pending()


def _with_ignored_resources(
    configuration: SchedulerConfiguration, profile: ProfileConfiguration
) -> ProfileConfiguration:
    """Return the profile with NodeResourcesFit ignoring the resources that only extenders
    manage.
    """
    ignored = [name for one in configuration.extenders for name in one.ignored_by_scheduler]
    if not ignored:
        return profile
    args = profile.arguments.get(RESOURCES_FIT, {})
    args = {**args, "ignoredResources": [*(args.get("ignoredResources") or ()), *ignored]}
    return replace(profile, arguments={**profile.arguments, RESOURCES_FIT: args})
