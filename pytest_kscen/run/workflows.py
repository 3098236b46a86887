"""Workflows and Schedules of a run: their engine, handles for the test, and the
simulated Chaos Mesh.

`context.Run` calls it. The engine is imported when a test first starts a workflow.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import warnings
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.chaos_mesh import ABORT, FAILED, KINDS, OVER, OWN, SHIPPED, phase_of
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.workflow.story import (
    FOUND,
    GONE,
    PHASE,
    WORKFLOW_ENTRIES,
    NodeHistory,
    WorkflowStory,
)

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.journal import Entry
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.run.context import Run
    from pytest_kscen.run.runner import ScenarioRunner
    from pytest_kscen.run.workflow_setup import EngineLease


SPAWNED_ENTRY = "schedule-spawned"
"""Kind of the journal entry for an object that a Schedule has created."""


class ScheduleHandle:
    """Handle of a Schedule or CronWorkflow that a test has applied."""

    def __init__(self, name: str, namespace: str, look: Callable[[], Obj]) -> None:
        self.name = name
        self.namespace = namespace
        self._read = look
        self.spawned: list[str] = []
        """Names of all objects that it has created, chaos or workflows, in order."""
        self.workflows: list[WorkflowHandle] = []
        """Handles of the workflows among them."""

    @property
    def live(self) -> Obj:
        """Current object from the API; it must not be changed."""
        return self._read()

    @property
    def failed(self) -> list[WorkflowHandle]:
        """Workflows that have failed. Reading it counts as reading the phases of all of them."""
        return [workflow for workflow in self.workflows if workflow.phase == FAILED]


SIMULATED = ("embedded", "controlplane")


def install_chaos_mesh(cluster: Cluster) -> bool:
    """Install the simulated Chaos Mesh on a simulated cluster; return True if this call did it.

    A cluster given by a kubeconfig keeps its own Chaos Mesh.
    """
    if cluster.backend not in SIMULATED:
        return False
    if cluster.site.has_chaos_mesh:  # type: ignore[attr-defined]  # what simulated clusters have
        return False
    from pytest_kscen.models.chaos_mesh import actors, install
    from pytest_kscen.objects.chaos_mesh_definitions import (
        chaos_definitions,
        cron_workflow_definition,
        engine_definitions,
    )

    runner, site = cluster.runner, cluster.site  # type: ignore[attr-defined]  # as above
    definitions = (*chaos_definitions(), *engine_definitions(), cron_workflow_definition())
    runner.call(
        install(cluster.api("chaos-mesh-installer"), runner.clock, _with_all_probes(definitions))
    )
    for name, life in actors(cluster.api, runner.clock, cluster.chance, site):
        runner.start(life, name)
    site.has_chaos_mesh = True
    return True


def family_on(cluster: Cluster) -> EngineResources:
    """Install the engine's missing definitions; return their API group.

    It is Chaos Mesh's group if that is free on the cluster, else this project's group. Definitions
    of an earlier run get the fields of probes that have been added since.
    """
    from pytest_kscen.models.chaos_mesh import install
    from pytest_kscen.objects.chaos_mesh_definitions import (
        cron_workflow_definition,
        engine_definitions,
    )
    from pytest_kscen.run.workflow_setup import start_admission

    if install_chaos_mesh(cluster):
        start_admission(cluster, SHIPPED)
    if cluster.backend in SIMULATED:
        return SHIPPED
    api, runner = cluster.api("workflow-installer"), cluster.runner
    family = OWN if runner.call(_is_chaos_mesh(api)) else SHIPPED
    definitions = (*engine_definitions(family.group), cron_workflow_definition())
    runner.call(install(api, runner.clock, _with_all_probes(definitions)))
    runner.call(add_probe_fields(api, runner.clock, definitions))
    return family


def _with_all_probes(definitions: Iterable[Obj]) -> list[Obj]:
    """Return definitions whose schemas have the fields of all probes, those of packages too."""
    from pytest_kscen.objects.chaos_mesh_definitions import with_probe_forms

    forms = _probe_forms_of_packages()
    return [with_probe_forms(each, forms) for each in definitions]


def _probe_forms_of_packages() -> list[str]:
    from pytest_kscen.workflow.probes.probe import PROBE_FORMS

    return [name for name in PROBE_FORMS.names() if not PROBE_FORMS.is_built_in(name)]


SCHEMA_DELAY = 5.0
"""Seconds within which a real API server uses the changed schema of a definition."""


async def add_probe_fields(api: Api, clock: Clock, definitions: Iterable[Obj]) -> None:
    """Add the fields of packages' probes to definitions that were on the cluster before this run,
    which `install` leaves as they are.
    """
    from pytest_kscen.objects.chaos_mesh_definitions import with_probe_forms

    forms, changed = _probe_forms_of_packages(), False
    for definition in definitions if forms else ():
        name = definition["metadata"]["name"]
        found = await api.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        wanted = with_probe_forms(found, forms)
        if wanted != found:
            await api.patch(CUSTOM_RESOURCE_DEFINITIONS, name, {"spec": wanted["spec"]})
            changed = True
    if changed:
        await clock.sleep(SCHEMA_DELAY)


def has_definitions(cluster: Cluster) -> bool:
    """Return True if the cluster serves NetworkChaos, so that chaos can be created."""

    async def look() -> bool:
        try:
            await cluster.api("workflow-installer").get(
                CUSTOM_RESOURCE_DEFINITIONS, KINDS["NetworkChaos"].resource.qualified
            )
        except NotFound:
            return False
        return True

    return cluster.runner.call(look())


async def _is_chaos_mesh(api: Api) -> bool:
    """Return True if the cluster's Workflows are Chaos Mesh's own, whose status has no phase."""
    try:
        definition = await api.get(CUSTOM_RESOURCE_DEFINITIONS, SHIPPED.workflows.qualified)
    except NotFound:
        return False
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return "phase" not in schema["properties"]["status"]["properties"]


DELETION_TIMEOUT = 600.0
"""Seconds for the deletion of workflows and their chaos."""


class WorkflowHandle:
    """Handle of a workflow that a test has started; its state comes from the journal."""

    def __init__(self, name: str, namespace: str, look: Callable[[WorkflowHandle], Obj]) -> None:
        self.name = name
        self.namespace = namespace
        self._read = look
        self.story = WorkflowStory(NodeHistory(name))
        self.was_ended = False
        """True if the run ended before the workflow was over."""
        self._was_read = False
        self.kept: Obj | None = None
        """Object at the end of the run."""

    @property
    def phase(self) -> str:
        self._was_read = True
        return self.story.workflow.phase

    @property
    def seen(self) -> WorkflowStory:
        """History of the workflow. Reading it counts as reading its phase."""
        self._was_read = True
        return self.story

    @property
    def message(self) -> str:
        """Reason of the phase."""
        return self.story.workflow.message

    @property
    def duration(self) -> float | None:
        return self.story.workflow.duration

    @property
    def live(self) -> Obj:
        """Current object from the API, or the one at the run's end; it must not be changed."""
        return self.kept or self._read(self)

    @property
    def score(self) -> float | None:
        """Weighted percentage of its probes that passed, from 0 to 100; None without probes."""
        return (self.live.get("status") or {}).get("resilienceScore")

    @property
    def nodes(self) -> list[NodeHistory]:
        """Nodes in the order in which they started."""
        return list(self.story.nodes.values())

    def node(self, name: str) -> NodeHistory | None:
        """Return the node of this name, or the latest one of this template; None if absent."""
        return self.story.node(name)

    def finished(self) -> bool:
        """Return True if the workflow is over, or was deleted."""
        return self.story.workflow.is_over or self.story.is_gone

    def describe_state(self) -> str:
        """Describe the present state, for the message of a wait that timed out."""
        return (
            f"the end of the workflow {self.namespace}/{self.name}: {self.story.describe_state()}"
        )

    @property
    def has_unread_failure(self) -> bool:
        return not self._was_read and not self.was_ended and self.story.workflow.phase == FAILED


class Workflows:
    """Workflows and Schedules of one run, and the engine that drives them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._handles: dict[tuple[str, str], WorkflowHandle] = {}
        self._schedules: dict[tuple[str, str, str], ScheduleHandle] = {}
        """Handles by kind, namespace and name: a Schedule and a CronWorkflow may have one name."""
        self._spawned: dict[tuple[str, str], WorkflowHandle] = {}
        """Handles of workflows that schedules have made, by namespace and name."""
        self._driven: dict[tuple[str, str], None] = {}
        """Running workflows, including workflows that the run did not create."""
        self._ended: dict[tuple[str, str], None] = {}
        """Workflows that the run's end aborted."""
        self._is_healed = False
        self._engine: asyncio.Task[Any] | None = None
        self._family: EngineResources = SHIPPED
        self._actor: Actor | None = None
        self._engine_lease: EngineLease | None = None

    def start_workflow(
        self, workflow: Obj | pathlib.Path | str, name: str, parameters: Mapping[str, Any]
    ) -> WorkflowHandle:
        """Create a Workflow and drive it; `name` replaces its own name."""
        from pytest_kscen.workflow.files import WorkflowRefused, workflow_of

        self._run.must_be_on()
        obj = workflow_of(workflow, parameters)
        actor = self._open()
        metadata = {"namespace": "default", **obj["metadata"], **({"name": name} if name else {})}
        metadata["labels"] = {**(metadata.get("labels") or {}), **actor.labels}
        resource = self._family.workflows
        made = {
            **obj,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
        }
        key = (metadata["namespace"], metadata["name"])
        if key in self._handles:
            again = f"run.workflow(..., name={f'{key[1]}-2'!r})"
            raise WorkflowRefused(
                f"there is a workflow {key[1]!r} in this run already: start it by "
                f"another name, as in {again}"
            )
        handle = self._handles[key] = WorkflowHandle(key[1], key[0], self._read)
        self._run.do(actor.api.create(resource, made))
        return handle

    @property
    def unseen_failures(self) -> list[WorkflowHandle]:
        """Failed workflows whose phase the test did not read."""
        return [
            handle
            for handle in (*self._handles.values(), *self._spawned.values())
            if handle.has_unread_failure
        ]

    def drive(self) -> None:
        """Start the engine for Workflows and Schedules that are created by other means, as by
        kubectl.
        """
        self._run.must_be_on()
        self._open()

    def claim(self) -> None:
        """Claim the Lease of the cluster's workflows, or raise a PreflightRefused that names its
        holder.

        An embedded cluster needs none: no other run can reach it.
        """
        self._run.must_be_on()
        if self._engine_lease is None and self._run.cluster.backend != "embedded":
            from pytest_kscen.run.workflow_setup import EngineLease
            from pytest_kscen.workflow.engine import ENGINE

            engine_lease = EngineLease(self._run.cluster, "pytest")
            self._run.do(engine_lease.claim())
            self._engine_lease = engine_lease
            self._engine = self._run.call(self._begin(engine_lease.hold(), ENGINE))

    def schedule(self, schedule: Obj) -> ScheduleHandle:
        """Drive a Schedule that the caller applies after this."""
        self.drive()
        metadata, where = schedule["metadata"], (schedule["apiVersion"], schedule["kind"])
        name, namespace = metadata["name"], metadata.get("namespace", "default")

        async def look() -> Obj:
            return await self._api.get(await self._api.resource_of(*where), name, namespace)

        key = (schedule["kind"], namespace, name)
        return self._schedules.setdefault(
            key, ScheduleHandle(name, namespace, lambda: self._run.call(look()))
        )

    def _open(self) -> Actor:
        if self._actor is None:
            from pytest_kscen.workflow.engine import ENGINE, drive

            self.claim()
            self._family = family_on(self._run.cluster)
            self._actor = self._run.context.actor("workflows")
            self._run.journal.follow(self._follow)
            engine = functools.partial(drive, self._run.context, self._family)
            if self._engine_lease:
                self._run.call(self._engine_lease.begin(engine))
            else:
                self._engine = self._run.call(self._begin(engine(), ENGINE))
        return self._actor

    async def _begin(self, engine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self._run.life.start_task(engine, name)

    def _read(self, handle: WorkflowHandle) -> Obj:
        return self._run.call(self._api.get(self._family.workflows, handle.name, handle.namespace))

    def _follow(self, entry: Entry) -> None:
        if entry.what == FOUND:
            self._driven[entry.data["namespace"], entry.data["workflow"]] = None
        elif entry.what in WORKFLOW_ENTRIES:
            key = (entry.data["namespace"], entry.data["workflow"])
            if entry.what == PHASE and entry.data["phase"] not in OVER:
                self._driven[key] = None
            elif entry.what in (PHASE, GONE):
                self._driven.pop(key, None)
            if handle := self._handles.get(key) or self._spawned.get(key):
                handle.story.take(entry)
        elif entry.what == SPAWNED_ENTRY:
            data = entry.data
            if scheduled := self._schedules.get((data["by"], data["namespace"], data["schedule"])):
                scheduled.spawned.append(data["object"])
                if data["kind"] == self._family.workflows.kind:
                    made = WorkflowHandle(data["object"], scheduled.namespace, self._read)
                    made.was_ended = self._is_healed
                    self._spawned[made.namespace, made.name] = made
                    scheduled.workflows.append(made)

    async def heal(self) -> None:
        """Abort the workflows that are still running; their chaos is removed."""
        self._is_healed = True
        for handle in (*self._handles.values(), *self._spawned.values()):
            handle.was_ended = not handle.finished()
        await self._end()

    async def clear(self) -> None:
        """Delete the workflows of this run, and wait until they and their objects are gone.

        On a cluster given by a kubeconfig, aborted workflows of other clients stay for
        inspection.
        """
        try:
            await self._remove()
        finally:
            if self._engine:
                self._engine.cancel()
                if self._engine_lease:  # the next leader begins when this one has released it
                    await asyncio.wait([self._engine])

    async def _remove(self) -> None:
        await self._end()  # what has come since
        for namespace, name in (
            keys := {**self._handles, **(self._ended if self._run.cluster.owned else {})}
        ):
            with contextlib.suppress(NotFound):
                kept = await self._api.get(self._family.workflows, name, namespace)
                if handle := self._handles.get((namespace, name)):
                    handle.kept = kept
                await self._api.delete(
                    self._family.workflows, name, namespace, propagation="Foreground"
                )
        for key in keys:
            await self._wait(key, lambda obj: obj is None)

    async def _end(self) -> None:
        """Abort all running workflows, including foreign ones, because no engine drives them after
        the run.
        """
        unfinished = {key: None for key, handle in self._handles.items() if not handle.finished()}
        on = {**unfinished, **self._driven}
        self._ended.update(on)
        abort = {"metadata": {"annotations": {ABORT: "true"}}}
        for namespace, name in on:
            with contextlib.suppress(NotFound):
                await self._api.patch(self._family.workflows, name, abort, namespace)
        if self._engine and self._engine.done():  # not ended now; the next engine does
            return
        for key in on:
            await self._wait(key, lambda obj: obj is None or phase_of(obj) in OVER)

    async def _wait(self, key: tuple[str, str], condition: Callable[[Obj | None], bool]) -> None:
        namespace, name = key
        where = (self._family.workflows, name, namespace)
        await wait_for(
            self._api,
            self._run.context.clock,
            *where,
            condition=condition,
            timeout=DELETION_TIMEOUT,
        )

    @property
    def _api(self) -> Api:
        return self._open().api


AVAILABLE_WITHIN = "5m"


class Unfinished(TimeoutError):
    """Timeout of a workflow that did not end within its time."""


def play_to_end(
    runner: ScenarioRunner, workflow: Obj, cast: Sequence[Obj] = (), *, within: str = "1h"
) -> WorkflowHandle:
    """Run a workflow as a whole test: apply `cast`, wait until it is available, play, delete
    everything.

    Warnings about the workflow are suppressed: they were issued when it was read. Raises
    `Unfinished` after `within`.
    """
    from pytest_kscen.workflow.files import WorkflowWarning

    with runner as run:
        run.workflows.claim()
        if cast:
            run.apply(*cast, available_within=AVAILABLE_WITHIN)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkflowWarning)
            handle = run.workflow(workflow)
        try:
            run.until(handle.finished, timeout=within)
        except TimeoutError as late:
            raise Unfinished(str(late)) from None
    return handle
