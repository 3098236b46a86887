"""Workflows in a run: an engine lives beside the test from the first one on, and when the run is over all are ended and gone."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.workflows import ABORT, FAILED, OVER, SHIPPED, phase_of
from pytest_kscen.runs.chaos_mesh import family_on
from pytest_kscen.runs.scheduled import SPAWNED, Scheduled
from pytest_kscen.workflow.story import ABOUT, FOUND, GONE, PHASE, Story, Told

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine, Mapping

    from pytest_kscen.journal import Entry
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.workflows import Family
    from pytest_kscen.runs.leading import Leading
    from pytest_kscen.runs.run import Run

GONE_WITHIN = 600.0
"""Seconds that workflows, and the chaos of theirs, have to go."""


class Workflow:
    """One that a test has put on: what it asks is answered from the journal."""

    def __init__(self, name: str, namespace: str, look: Callable[[Workflow], Obj]) -> None:
        self.name = name
        self.namespace = namespace
        self._look = look
        self.story = Story(Told(name))
        self.was_ended = False
        """Before it was over, because the run was."""
        self._looked_at = False
        self.kept: Obj | None = None
        """It as it was when the run was over."""

    @property
    def phase(self) -> str:
        self._looked_at = True
        return self.story.workflow.phase

    @property
    def seen(self) -> Story:
        """All that has become of it; whoever takes it has looked at it."""
        self._looked_at = True
        return self.story

    @property
    def message(self) -> str:
        """Why it is in this phase."""
        return self.story.workflow.message

    @property
    def duration(self) -> float | None:
        return self.story.workflow.duration

    @property
    def live(self) -> Obj:
        """The Workflow as the API has it, after the run as it last was; never change it."""
        return self.kept or self._look(self)

    @property
    def score(self) -> float | None:
        """The share of its probes that held, from 0 to 100; None if it has none."""
        return (self.live.get("status") or {}).get("resilienceScore")

    @property
    def nodes(self) -> list[Told]:
        """In the order in which they were begun."""
        return list(self.story.nodes.values())

    def node(self, name: str) -> Told | None:
        """The node of this name, or the latest of this template; None if there is none."""
        return self.story.node(name)

    def finished(self) -> bool:
        """It is over, or somebody has deleted it."""
        return self.story.workflow.is_over or self.story.is_gone

    def standing(self) -> str:
        """Where it is now, for whoever has waited for its end in vain."""
        return f"the end of the workflow {self.namespace}/{self.name}: {self.story.standing()}"

    @property
    def has_failed_unseen(self) -> bool:
        return not self._looked_at and not self.was_ended and self.story.workflow.phase == FAILED


class Workflows:
    """One run's."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._handles: dict[tuple[str, str], Workflow] = {}
        self._schedules: dict[tuple[str, str, str], Scheduled] = {}
        """By their kinds too: there may be a Schedule and a CronWorkflow of one name."""
        self._spawned: dict[tuple[str, str], Workflow] = {}
        """By those."""
        self._driven: dict[tuple[str, str], None] = {}
        """All that are on, however they have come to the cluster."""
        self._ended: dict[tuple[str, str], None] = {}
        """Before they were over, because the run was."""
        self._is_healed = False
        self._engine: asyncio.Task[Any] | None = None
        self._family: Family = SHIPPED
        self._actor: Actor | None = None
        self._leading: Leading | None = None

    def put_on(self, workflow: Obj | pathlib.Path | str, name: str, parameters: Mapping[str, Any]) -> Workflow:
        """Have it driven from now on, by another name than its own if one is given."""
        from pytest_kscen.workflow.files import WorkflowRefused, workflow_of  # with all that judges one; most runs have none

        self._run.must_be_on()
        obj = workflow_of(workflow, parameters)
        actor = self._open()
        metadata = {"namespace": "default", **obj["metadata"], **({"name": name} if name else {})}
        metadata["labels"] = {**(metadata.get("labels") or {}), **actor.labels}
        resource = self._family.workflows
        made = {**obj, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        key = (metadata["namespace"], metadata["name"])
        if key in self._handles:
            again = f"run.workflow(..., name={f'{key[1]}-2'!r})"
            raise WorkflowRefused(f"there is a workflow {key[1]!r} in this run already: put it on by another name, as in {again}")
        handle = self._handles[key] = Workflow(key[1], key[0], self._look)
        self._run.do(actor.api.create(resource, made))
        return handle

    @property
    def overlooked(self) -> list[Workflow]:
        """Those that failed without anybody's asking."""
        return [handle for handle in (*self._handles.values(), *self._spawned.values()) if handle.has_failed_unseen]

    def drive(self) -> None:
        """Have Workflows and Schedules driven that come to the cluster in another way, as by kubectl."""
        self._run.must_be_on()
        self._open()

    def claim(self) -> None:
        """Be the one who drives this cluster's workflows, or be refused; an embedded cluster is its run's alone."""
        self._run.must_be_on()
        if self._leading is None and self._run.cluster.backend != "embedded":
            from pytest_kscen.runs.leading import Leading
            from pytest_kscen.workflow.engine import ENGINE

            leading = Leading(self._run.cluster, "pytest")
            self._run.do(leading.claim())
            self._leading = leading
            self._engine = self._run.call(self._begin(leading.live(), ENGINE))

    def schedule(self, schedule: Obj) -> Scheduled:
        """Have it kept from now on, and applied by whoever asks."""
        self.drive()
        metadata, where = schedule["metadata"], (schedule["apiVersion"], schedule["kind"])
        name, namespace = metadata["name"], metadata.get("namespace", "default")

        async def look() -> Obj:
            return await self._api.get(await self._api.resource_of(*where), name, namespace)

        key = (schedule["kind"], namespace, name)
        return self._schedules.setdefault(key, Scheduled(name, namespace, lambda: self._run.call(look())))

    def _open(self) -> Actor:
        if self._actor is None:
            from pytest_kscen.workflow.engine import ENGINE, drive

            self.claim()
            self._family = family_on(self._run.cluster)
            self._actor = self._run.stage.actor("workflows")
            self._run.journal.follow(self._hear)
            engine = functools.partial(drive, self._run.stage, self._family)
            if self._leading:
                self._run.call(self._leading.begin(engine))
            else:
                self._engine = self._run.call(self._begin(engine(), ENGINE))
        return self._actor

    async def _begin(self, engine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self._run.life.begin_beside(engine, name)

    def _look(self, handle: Workflow) -> Obj:
        return self._run.call(self._api.get(self._family.workflows, handle.name, handle.namespace))

    def _hear(self, entry: Entry) -> None:
        if entry.what == FOUND:
            self._driven[entry.data["namespace"], entry.data["workflow"]] = None
        elif entry.what in ABOUT:
            key = (entry.data["namespace"], entry.data["workflow"])
            self._follow(key, entry)
            if handle := self._handles.get(key) or self._spawned.get(key):
                handle.story.take(entry)
        elif entry.what == SPAWNED:
            data = entry.data
            if scheduled := self._schedules.get((data["by"], data["namespace"], data["schedule"])):
                self._take_in(scheduled, data["object"], data["kind"])

    def _follow(self, key: tuple[str, str], entry: Entry) -> None:
        """Whether it is on."""
        if entry.what == PHASE and entry.data["phase"] not in OVER:
            self._driven[key] = None
        elif entry.what in (PHASE, GONE):
            self._driven.pop(key, None)

    def _take_in(self, scheduled: Scheduled, name: str, kind: str) -> None:
        scheduled.spawned.append(name)
        if kind == self._family.workflows.kind:
            handle = self._spawned[scheduled.namespace, name] = Workflow(name, scheduled.namespace, self._look)
            handle.was_ended = self._is_healed
            scheduled.workflows.append(handle)

    async def heal(self) -> None:
        """Those that are still on are aborted: their chaos is removed."""
        self._is_healed = True
        for handle in (*self._handles.values(), *self._spawned.values()):
            handle.was_ended = not handle.finished()
        await self._end()

    async def clear(self) -> None:
        """None is left of those that the test has put on or that had to be ended, nor what they have made.

        On somebody's cluster those that had to be ended and are not the test's stay, to be looked at.
        """
        try:
            await self._remove()
        finally:
            await self._end_engine()

    async def _remove(self) -> None:
        await self._end()  # what has come since
        for namespace, name in (keys := {**self._handles, **(self._ended if self._run.cluster.owned else {})}):
            with contextlib.suppress(NotFound):
                kept = await self._api.get(self._family.workflows, name, namespace)
                if handle := self._handles.get((namespace, name)):
                    handle.kept = kept
                await self._api.delete(self._family.workflows, name, namespace, propagation="Foreground")
        for key in keys:
            await self._wait(key, lambda obj: obj is None)

    async def _end_engine(self) -> None:
        if self._engine:
            self._engine.cancel()
            if self._leading:  # whoever is next may begin when it has given back what it holds
                await asyncio.wait([self._engine])

    async def _end(self) -> None:
        """Whoever has made them: nobody drives them when the run is over."""
        unheard = {key: None for key, handle in self._handles.items() if not handle.finished()}
        on = {**unheard, **self._driven}
        self._ended.update(on)
        abort = {"metadata": {"annotations": {ABORT: "true"}}}
        for namespace, name in on:
            with contextlib.suppress(NotFound):
                await self._api.patch(self._family.workflows, name, abort, namespace)
        if self._engine and self._engine.done():  # and so nobody ends them now; who drives next does
            return
        for key in on:
            await self._wait(key, lambda obj: obj is None or phase_of(obj) in OVER)

    async def _wait(self, key: tuple[str, str], condition: Callable[[Obj | None], bool]) -> None:
        namespace, name = key
        where = (self._family.workflows, name, namespace)
        await wait_for(self._api, self._run.stage.clock, *where, condition=condition, timeout=GONE_WITHIN)

    @property
    def _api(self) -> Api:
        return self._open().api
