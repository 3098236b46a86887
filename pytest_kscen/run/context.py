"""A run as a test holds it: applied objects, actions while it lives, Ctrl-C and SIGTERM, and its
outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
from typing import TYPE_CHECKING, NoReturn, TypeVar

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.journal import Journal
from pytest_kscen.judge.outcome import Outcome, judge
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.arguments import seconds_of
from pytest_kscen.objects.conditions import is_available
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import HEALTH_SOURCES
from pytest_kscen.report.protocol import ReportedRun, ReportedTest
from pytest_kscen.run.lifecycle import RunLifecycle
from pytest_kscen.run.manual import ChaosByHand, VolumesByHand
from pytest_kscen.run.workflows import WorkflowHandle, Workflows

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from datetime import timedelta
    from types import FrameType
    from typing import Any

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.kube.actor import Actor, ParentCluster
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.run.plan import Plan
    from pytest_kscen.run.workflows import ScheduleHandle


# What a test applies to the cluster: it carries the run's label, is waited for if that is
# wanted, and is gone after the run.


MANAGER = "pytest-kscen"
GONE = 300.0


class AppliedObjects:
    """One run's."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._objects: dict[tuple[Resource, str, str], None] = {}

    async def apply(self, objects: tuple[Obj, ...], available_within: float | None) -> None:
        """Make them, or make them so; then wait until they are what they shall be.

        What is no object is refused before that.
        """
        for obj in objects:
            parts = obj if isinstance(obj, dict) else {}
            metadata = parts.get("metadata")
            named = {
                **parts,
                "metadata.name": metadata.get("name") if isinstance(metadata, dict) else None,
            }
            for field in ("apiVersion", "kind", "metadata.name"):
                if not isinstance(named.get(field), str) or not named[field]:
                    raise ValueError(f"what is to be applied has no {field}: {obj!r}")
        applied = [await self._apply(obj) for obj in objects]
        if available_within is not None:
            end = self._actor.clock.now() + available_within
            for resource, namespace, name in applied:
                patience = end - self._actor.clock.now()
                try:
                    await wait_for(
                        *(self._actor.api, self._actor.clock, resource, name, namespace),
                        condition=lambda obj: obj is not None and is_available(obj),
                        timeout=max(patience, 0.001),
                    )
                except TimeoutError:
                    raise TimeoutError(
                        f"{resource.qualified} {namespace}/{name} was applied, but is not "
                        "available in time"
                    ) from None

    async def _apply(self, obj: Obj) -> tuple[Resource, str, str]:
        resource = await self._actor.api.resource_of(obj["apiVersion"], obj["kind"])
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        labels = {**(metadata.get("labels") or {}), **self._actor.labels}
        labelled = {
            **obj,
            "metadata": {
                **metadata,
                "labels": labels,
                **({"namespace": namespace} if namespace else {}),
            },
        }
        await self._actor.api.apply(resource, labelled, field_manager=MANAGER, force=True)
        key = (resource, namespace, metadata["name"])
        self._objects[key] = None
        return key

    async def heal(self) -> None:
        """It disturbs nothing."""

    async def clear(self) -> None:
        """The newest first."""
        for resource, namespace, name in reversed(self._objects):
            try:
                await self._actor.api.delete(resource, name, namespace, propagation="Foreground")
            except NotFound:
                continue
        for resource, namespace, name in self._objects:
            await wait_for(
                *(self._actor.api, self._actor.clock, resource, name, namespace),
                condition=lambda obj: obj is None,
                timeout=GONE,
            )


# Ctrl-C and SIGTERM during a run: the first word ends it in good order, the next hurries it;
# then they mean what they did. While the run itself is waited for, it hears the word and comes
# to its end. A test's own code is interrupted beside that, as any Python program is, and the
# run is ended by whoever began it.


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def heard(
    loop: asyncio.AbstractEventLoop, *words: Callable[[], object], awaited: Callable[[], bool]
) -> Iterator[list[int]]:
    """At each signal the next word is said inside the loop. What has come so far is in the list
    that this gives.

    Only a process's main thread can hear signals.

    `awaited` says whether whoever called waits for the one to whom the word is said.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    left = list(words)

    def hear(number: int, _: FrameType | None) -> None:
        signals.append(number)
        word = left.pop(0)
        if not loop.is_closed():
            loop.call_soon_threadsafe(word)
        if not left:
            give_back()
        if not awaited():
            _interrupt(loop)

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, hear)
    try:
        yield signals
    finally:
        give_back()


def _interrupt(loop: asyncio.AbstractEventLoop) -> None:
    """A loop that turns in this thread comes to a halt between two steps, so that nobody in it
    is hit.
    """
    # asyncio's documented hook for loops of others
    if asyncio._get_running_loop() is loop:  # noqa: SLF001
        loop.call_soon_threadsafe(_raise)
    else:
        _raise()


def _raise() -> NoReturn:
    raise KeyboardInterrupt("the run was told to stop")


T = TypeVar("T")

OVER = (
    "the run is over: act on it inside its `with` block, or begin another; "
    "what follows it needs run.cluster alone, as in run.cluster.advance('2m')"
)
STOPPING = (
    "Stopping: undoing faults and deleting volumes (may take minutes). "
    "Press Ctrl-C again to keep the volumes."
)
KEEPING_VOLUMES = "Keeping the volumes. Faults are still undone."
DAY = 86400.0  # a run without an end is lived through day by day


class Run:
    """One run of one plan on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        parent: ParentCluster | None = None,
        reported: ReportedRun | None = None,
    ) -> None:
        """Make the run's actors, none of which acts yet; `reported` has been prepared."""
        self.cluster = cluster
        self.plan = plan
        self.journal = Journal(cluster.runner.clock)
        self._reported = reported or ReportedRun(
            ReportedTest("", cluster.chance.seed, {}, "", ""), 1
        )
        self.context = RunContext(
            cluster.api,
            cluster.runner.clock,
            cluster.chance,
            self.journal,
            cluster.chance.stream("run").suffix(8),
            owned=cluster.owned,
            parent=parent,
            health=HEALTH_SOURCES[plan.health],
        )
        self.chaos = ChaosByHand(self)
        self.volumes = VolumesByHand(self)
        self.life = RunLifecycle(self.context, plan)
        self._applied = AppliedObjects(self.context.actor("run"))
        self.workflows = Workflows(self)
        self.life.companions += [self._applied, self.workflows]
        self.signal_handlers = contextlib.ExitStack()
        """Heard by the run until this is closed, when all that came of it has been told."""
        self._crash_subscription = contextlib.ExitStack()
        """Closing it ends the notification of crashes in the cluster."""
        self._heard: list[int] = []
        self._waits = False
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """What the run has come to, once it is over."""
        if self._outcome is None:
            raise RuntimeError(
                "the run is still on: it has an outcome when its `with` block is left"
            )
        return self._outcome

    @property
    def is_over(self) -> bool:
        return self._outcome is not None

    def begin(self, duration: float | None = None) -> None:
        words = self._stop, self._hurry
        heed = heard(self.cluster.runner.loop, *words, awaited=lambda: self._waits or self.is_over)
        self._heard = self.signal_handlers.enter_context(heed)
        self._crash_subscription.callback(self.cluster.runner.on_crash(self.life.cluster_crashed))
        try:
            self.call(self.life.start(duration, lambda: self._reported.start(self.journal)))
        except BaseException:
            with contextlib.suppress(Exception):  # what kept it from beginning is what is raised
                self._call_in_any_case(self.life.refuse())
            self._crash_subscription.close()
            self.signal_handlers.close()
            raise

    def last(self, duration: float | None) -> None:
        """Live for this long, or without an end until somebody says stop."""
        if duration is not None:
            self.call(self.life.last(duration))
        else:
            while self.life.goes_on:
                self.call(self.life.last(DAY))

    def apply(self, *objects: Obj, available_within: str | float | timedelta | None = None) -> None:
        """Make these objects, or make them so, and wait until they are available; they are gone
        after the run.
        """
        within = None if available_within is None else seconds_of(available_within)
        self.do(self._applied.apply(objects, within))

    def workflow(
        self,
        workflow: Obj | pathlib.Path | str,
        *,
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> WorkflowHandle:
        """Put a Chaos Mesh Workflow on, an object or the file that it is in, and go on beside
        it.
        """
        return self.workflows.put_on(workflow, name, parameters or {})

    def schedule(self, schedule: Obj) -> ScheduleHandle:
        """Apply a Schedule or a CronWorkflow, and have it kept; it is gone after the run."""
        scheduled = self.workflows.schedule(schedule)
        self.apply(schedule)
        return scheduled

    def advance(self, duration: str | float | timedelta) -> None:
        """Let time pass; whoever is told to stop meanwhile goes no further."""
        self.do(self.life.last(seconds_of(duration)))

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        """Let time pass until the condition holds; a TimeoutError says what did not."""
        self.must_be_on()
        seconds_of(timeout)

        @functools.wraps(condition)
        def held() -> object:
            return not self.life.goes_on or condition()

        with self._waiting():
            self.cluster.until(held, timeout)
        self.life.raise_crash()
        self._go_no_further()

    @property
    def is_told_to_stop(self) -> bool:
        """Also when it was at its end already."""
        return self.life.interrupted or bool(self._heard)

    def _stop(self) -> None:
        if not self.is_over:
            self.life.stop()
            self._reported.progress(STOPPING)

    def _hurry(self) -> None:
        """What takes no cluster any more is finished all the same."""
        if not self.is_over:
            self.life.hurry()
            self._reported.progress(KEEPING_VOLUMES)

    def must_be_on(self) -> None:
        """What acts through a run needs one that lives: nobody would watch it, judge it or clear
        it away.
        """
        if self.is_over:
            raise RuntimeError(OVER)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a test asks for; whoever is told to stop meanwhile goes no further."""
        if self.is_over:
            coroutine.close()
        self.must_be_on()
        result = self.call(coroutine)
        self._go_no_further()
        return result

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            with self._waiting():
                return self.cluster.runner.call(coroutine)
        finally:
            self.life.raise_crash()

    def end(self) -> Outcome:
        """Heal, judge, clear away. What was seen so far is judged even if that fails."""
        with self._waiting(), self._crash_subscription:
            try:
                self._call_in_any_case(self.life.end())
            finally:
                if not self.cluster.replayable:
                    self.journal.write("run", "not-replayable", {})
                self._outcome = judge(self.journal)
        return self._outcome

    def report(self) -> None:
        """Notify the reports of the run's result, if its end came as far as a verdict."""
        if self._outcome is None:
            return
        from pytest_kscen.report.summary import RunResult

        early = self._outcome.stopped_early
        self._reported.stopped = lambda: early or self.is_told_to_stop
        self._reported.signal_handlers = self.signal_handlers
        self._reported.finish(RunResult(self._outcome, self.journal))

    def _call_in_any_case(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """A crash that nobody was told of yet is raised instead of the first call; the life has
        heard of it by itself.
        """
        with contextlib.suppress(ActorCrashedError):
            self.cluster.runner.call(self.cluster.runner.clock.sleep(0))
        self.cluster.runner.call(coroutine)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Who calls waits for the run, which hears what it is told."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def _go_no_further(self) -> None:
        if self.life.interrupted:
            raise KeyboardInterrupt("the run was told to stop")
