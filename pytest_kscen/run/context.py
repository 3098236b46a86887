"""Run that a test acts on: applied objects, actions while it is active, signals, and its outcome.

`ScenarioRunner` makes a `Run`; the test acts on it from outside of the loop. Phases and their order
are in `lifecycle`: nothing here may decide which phase follows.
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
from pytest_kscen.run.guarantee_watch import GuaranteeWatch
from pytest_kscen.run.lifecycle import RunLifecycle
from pytest_kscen.run.manual import ChaosByHand, VolumesByHand
from pytest_kscen.run.phases import Phase
from pytest_kscen.run.workflows import WorkflowHandle, Workflows

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from datetime import timedelta
    from types import FrameType
    from typing import Any

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.judge.guarantees.declaration import Guarantee
    from pytest_kscen.kube.actor import Actor, ParentCluster
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.run.plan import Plan
    from pytest_kscen.run.workflows import ScheduleHandle


MANAGER = "pytest-kscen"
DELETION_TIMEOUT = 300.0  # seconds


class AppliedObjects:
    """Objects that a test applies to the cluster.

    Each carries the run's label, and is deleted after the run.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._objects: dict[tuple[Resource, str, str], None] = {}

    async def apply(self, objects: tuple[Obj, ...], available_within: float | None) -> None:
        """Apply the objects, then wait until all are available, `available_within` seconds at most.

        Raises a ValueError before anything is applied if one has no apiVersion, kind or name, and a
        TimeoutError that names the object that is not available in time.
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
                    raise ValueError(f"object to apply has no {field}: {obj!r}")
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
        """Do nothing: applied objects are kept until the end of the run."""

    async def clear(self) -> None:
        """Delete the objects, the newest first, and wait until they are gone."""
        for resource, namespace, name in reversed(self._objects):
            try:
                await self._actor.api.delete(resource, name, namespace, propagation="Foreground")
            except NotFound:
                continue
        for resource, namespace, name in self._objects:
            await wait_for(
                *(self._actor.api, self._actor.clock, resource, name, namespace),
                condition=lambda obj: obj is None,
                timeout=DELETION_TIMEOUT,
            )


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def handle_signals(
    loop: asyncio.AbstractEventLoop, *actions: Callable[[], object], awaited: Callable[[], bool]
) -> Iterator[list[int]]:
    """Call the next of `actions` inside the loop at each Ctrl-C or SIGTERM; yield the signals so
    far.

    After the last action, signals have their former handlers. `awaited` returns True while the
    caller waits for the run: the loop then continues to the run's end. Otherwise the test's own
    code is interrupted as well, as in any Python program. Only the main thread receives signals;
    in other threads nothing is installed.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    left = list(actions)

    def handle(number: int, _: FrameType | None) -> None:
        signals.append(number)
        action = left.pop(0)
        if not loop.is_closed():
            loop.call_soon_threadsafe(action)
        if not left:
            restore()
        if not awaited():
            _interrupt(loop)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield signals
    finally:
        restore()


def _interrupt(loop: asyncio.AbstractEventLoop) -> None:
    """Raise KeyboardInterrupt; a loop that runs in this thread stops between two steps first."""
    # asyncio's documented hook for loops of others
    if asyncio._get_running_loop() is loop:  # noqa: SLF001
        loop.call_soon_threadsafe(_raise)
    else:
        _raise()


def _raise() -> NoReturn:
    raise KeyboardInterrupt("the run was stopped")


T = TypeVar("T")

OVER = (
    "the run is over: act on it inside its `with` block, or begin another; "
    "after it use run.cluster, as in run.cluster.advance('2m')"
)
STOPPING = (
    "Stopping: undoing faults and deleting volumes (may take minutes). "
    "Press Ctrl-C again to keep the volumes."
)
KEEPING_VOLUMES = "Keeping the volumes. Faults are still undone."
DAY = 86400.0  # seconds; a run without an end waits day by day


class Run:
    """Run of one plan on one cluster, as `with scenario_runner as run` gives it."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        parent: ParentCluster | None = None,
        reported: ReportedRun | None = None,
    ) -> None:
        """Make the run's parts, none of which acts yet. `reported` has been prepared."""
        self.cluster = cluster
        self.plan = plan
        self.journal = Journal(cluster.runner.clock)
        self._reported = reported or ReportedRun(ReportedTest("", cluster.chance.seed, {}, "", ""))
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
        self._watch = GuaranteeWatch(cluster, self.journal)
        self.changes = self._watch.changes
        self.chaos = ChaosByHand(self)
        self.volumes = VolumesByHand(self)
        self.life = RunLifecycle(self.context, plan)
        self.journal.on_lost = self.life.journal_lost
        self._applied = AppliedObjects(self.context.actor("run"))
        self.workflows = Workflows(self)
        self.life.companions += [self._applied, self.workflows]
        self.signal_handlers = contextlib.ExitStack()
        """Closing it gives Ctrl-C its former meaning; closed when the run has been reported."""
        self._crash_subscription = contextlib.ExitStack()
        """Closing it ends the notification of crashes in the cluster."""
        self._signals: list[int] = []
        self._waits = False
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """Return the verdicts. Raises a RuntimeError until the run is over."""
        if self._outcome is None:
            raise RuntimeError(
                "the run is still on: it has an outcome when its `with` block is left"
            )
        return self._outcome

    @property
    def is_over(self) -> bool:
        return self._outcome is not None

    def begin(self, duration: float | None = None) -> None:
        def stop() -> None:
            if not self.is_over and self.life.stop():
                self._reported.progress(STOPPING)

        def hurry() -> None:
            if not self.is_over and self.life.hurry():
                self._reported.progress(KEEPING_VOLUMES)

        handlers = handle_signals(
            self.cluster.runner.loop, stop, hurry, awaited=lambda: self._waits or self.is_over
        )
        self._signals = self.signal_handlers.enter_context(handlers)
        self._crash_subscription.callback(self.cluster.runner.on_crash(self.life.cluster_crashed))
        try:
            self.call(self.life.start(duration, self._start_records))
        except BaseException:
            with contextlib.suppress(Exception):  # the error that refused the run is raised
                self._call_in_any_case(self.life.refuse())
            self._watch.stop()
            self._crash_subscription.close()
            self.signal_handlers.close()
            raise

    def _start_records(self) -> None:
        """Let the reports have the journal and the record of changes, which begins now."""
        self._reported.start(self.journal, self.changes)
        self._watch.start(self.plan.guarantees)

    def guarantee(self, *guarantees: Guarantee) -> None:
        """Check these guarantees from now on, until the run's time is over."""

        async def declare() -> None:
            self._watch.declare(*guarantees)

        self.do(declare())

    def wait(self, duration: float | None) -> None:
        """Let this much cluster time pass, in seconds; None is until a stop is requested."""
        if duration is not None:
            self.call(self.life.wait(duration))
        else:
            while self.life.is_running:
                self.call(self.life.wait(DAY))

    def apply(self, *objects: Obj, available_within: str | float | timedelta | None = None) -> None:
        """Apply objects and wait until they are available. They are deleted after the run."""
        within = None if available_within is None else seconds_of(available_within)
        self.do(self._applied.apply(objects, within))

    def workflow(
        self,
        workflow: Obj | pathlib.Path | str,
        *,
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> WorkflowHandle:
        """Start a Chaos Mesh Workflow, an object or the file that it is in, and return at once."""
        return self.workflows.start_workflow(workflow, name, parameters or {})

    def schedule(self, schedule: Obj) -> ScheduleHandle:
        """Apply a Schedule or a CronWorkflow and drive it; it is deleted after the run."""
        scheduled = self.workflows.schedule(schedule)
        self.apply(schedule)
        return scheduled

    def advance(self, duration: str | float | timedelta) -> None:
        """Let time pass. Raises KeyboardInterrupt if a stop is requested meanwhile."""
        self.do(self.life.wait(seconds_of(duration)))

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        """Let time pass until the condition holds; raise TimeoutError with the condition."""
        self.must_be_on()
        seconds_of(timeout)

        @functools.wraps(condition)
        def held() -> object:
            return not self.life.is_running or condition()

        with self._waiting():
            self.cluster.until(held, timeout)
        self.life.raise_crash()
        self._raise_if_interrupted()

    @property
    def stop_requested(self) -> bool:
        """Return True after Ctrl-C or SIGTERM, even if the run was already ending."""
        return self.life.interrupted or bool(self._signals)

    def must_be_on(self) -> None:
        """Raise RuntimeError if the run is over: later objects would not be watched, judged or
        deleted.
        """
        if self.is_over:
            raise RuntimeError(OVER)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine for the test.

        Raises KeyboardInterrupt if a stop is requested meanwhile.
        """
        if self.is_over:
            coroutine.close()
        self.must_be_on()
        result = self.call(coroutine)
        self._raise_if_interrupted()
        return result

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, then raise the first crash of the run, if there was one."""
        try:
            with self._waiting():
                return self.cluster.runner.call(coroutine)
        finally:
            self.life.raise_crash()

    def end(self) -> Outcome:
        """End the run and judge it.

        The journal is judged even if the end fails. After a KeyboardInterrupt or a crash of the
        cluster the life cycle resumes the end, and the first error is raised.
        """
        with self._waiting(), self._crash_subscription:
            try:
                self._call_in_any_case(self.life.end())
            except BaseException as error:
                if self.life.phase is not Phase.OVER:  # broken off from outside of the life cycle
                    with contextlib.suppress(BaseException):  # the first error is raised
                        self._call_in_any_case(self.life.resume_end(error))
                raise
            finally:
                if not self.cluster.replayable:
                    self.journal.write("run", "not-replayable", {})
                self._watch.stop()
                self._outcome = judge(
                    self.journal,
                    guarantees=self._watch.checks,
                    without_record=self._watch.without_record,
                )
        return self._outcome

    def report(self) -> None:
        """Notify the reports of the run's result, if it was judged."""
        if self._outcome is None:
            return
        from pytest_kscen.report.summary import RunResult

        early = self._outcome.stopped_early
        self._reported.stopped = lambda: early or self.stop_requested
        self._reported.signal_handlers = self.signal_handlers
        self._reported.finish(RunResult(self._outcome, self.journal))

    def _call_in_any_case(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine even if an actor of the cluster has crashed.

        The runner raises each crash once, at its next call; the life cycle has already been
        notified of it.
        """
        try:
            with contextlib.suppress(ActorCrashedError):
                self.cluster.runner.call(self.cluster.runner.clock.sleep(0))
        except BaseException:
            coroutine.close()
            raise
        self.cluster.runner.call(coroutine)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Mark that the caller waits for the run: a signal then ends the run, not the test."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def _raise_if_interrupted(self) -> None:
        if self.life.interrupted:
            raise KeyboardInterrupt("the run was stopped")
