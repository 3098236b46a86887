"""Set-up for scenarios on each kind of cluster: hold its controllers and observe every write at
admission.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.embedded.apiserver.verbs.creating import NAME_STREAM
from pytest_kscen.embedded.apiserver.wire.requests import ADMIN
from pytest_kscen.embedded.scheduler.configuration_source import CONFIG_MAP, configuration_text
from pytest_kscen.embedded.scheduler.result_annotations import result_annotations
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.errors import ApiError, Forbidden, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, NODES, PODS
from pytest_kscen.objects.scenarios import EVERY, RESULTS, SCENARIOS
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.scenario import operation_ids
from pytest_kscen.scenario.builtin_waiters import (
    DEFAULT,
    NOT_ATTEMPTED,
    SCHEDULER,
    WAITERS,
    WHERE_SERVED,
    SchedulerWaiter,
    has_ended,
    scheduler_of,
)
from pytest_kscen.scenario.models import PodAttempted, PodRef
from pytest_kscen.scenario.webhooks import HeldPods, gates_of
from pytest_kscen.scenario.writes import (
    DELETE,
    KUBELET,
    NAME,
    USERS,
    VERBS,
    WITHOUT_WAITER,
    Write,
    latest,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
    from pytest_kscen.clusters.embedded import EmbeddedCluster
    from pytest_kscen.clusters.kubeconfig import KubeconfigCluster, LiveCluster
    from pytest_kscen.embedded.apiserver.admission import Review
    from pytest_kscen.embedded.scheduler import Scheduler
    from pytest_kscen.embedded.scheduler.framework.attempt import Attempt, Sink
    from pytest_kscen.kube.gate import Gates
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.controller import ScenarioController

MANAGER = "kube-controller-manager"
INSIDE = (
    *(each.name for each in WAITERS if each.name not in (SCHEDULER, KUBELET)),
    *WITHOUT_WAITER,
)
"""Controllers that are one program of a real control plane."""
UNGATED = frozenset((EVERY, MANAGER, *INSIDE, KUBELET, *(each.name for each in WHERE_SERVED)))
"""Controllers that cannot be held on a cluster given by a kubeconfig."""
UNREGISTER_WITHIN = 5.0  # seconds to remove webhooks when the cluster is closed
SETTLED = 0.5  # seconds for a real scheduler to receive events that have no metric


def embedded(cluster: EmbeddedCluster, controller: ScenarioController) -> str:
    """Set up an embedded cluster: gates before each controller's loop, and a hook in place of
    webhooks.

    Return an empty gate address, because no gate is served over HTTP.
    """
    from pytest_kscen.embedded.apiserver.admission import Hook

    async def judge(review: Review) -> str:
        write = _write_of(review, cluster.site.scheduler)
        why = refusal(write)
        if not why and not review.request.options.dry_run:
            await controller.admit_write(write)
        return why

    def fill_in_ids(review: Review) -> None:
        if review.new and (operations := operation_ids.filled(review.new)):
            review.new["spec"] = {**review.new["spec"], "operations": operations}

    cluster.runner.start(
        cluster.site.gates.follow(cluster.api(NAME), cluster.runner.clock), "gates"
    )
    if scheduler := cluster.site.scheduler:
        scheduler.set_sink(AttemptRecorder(controller, scheduler.make_annotator()))
        scheduler.queue.one_by_one = lambda: controller.simulates(SCHEDULER)
        controller.register.reports_attempts = True
        controller.register.scheduling = scheduler
        controller.register.resets += (
            scheduler.reset,
            cluster.chance.stream(NAME_STREAM).restart,
        )

        def doing(pod: Obj) -> str:
            if plugins := scheduler.permit_plugins_of(pod):
                return f"waits for the permission of {', '.join(plugins)}"
            return "" if scheduler.is_gated(pod) else NOT_ATTEMPTED

        waiter = SchedulerWaiter(
            profiles=scheduler.profiles, back_off=0.0, idle=scheduler.is_idle, doing=doing
        )
        controller.register.add(waiter, replace=True)
    cluster.admission.add(Hook(f"ids.{NAME}", mutate=fill_in_ids, resources=(SCENARIOS,)))
    cluster.admission.add(Hook(NAME, validate=judge, operations=tuple(VERBS), subresources=None))
    return ""


@dataclass(frozen=True, slots=True)
class AttemptRecorder:
    """Recorder of the embedded scheduler's attempts, in the active scenario's timeline and in the
    pod's annotations.
    """

    controller: ScenarioController
    make_annotator: Sink

    async def record(self, attempt: Attempt) -> None:
        metadata = attempt.pod["metadata"]
        pod = PodRef(metadata["name"], metadata["namespace"], metadata["uid"])
        results = latest(
            {key.removeprefix(RESULTS): value for key, value in result_annotations(attempt).items()}
        )
        message = attempt.message or None
        self.controller.attempted(
            PodAttempted(pod, attempt.number, attempt.selected or None, message, results)
        )
        await self.make_annotator.record(attempt)


def _write_of(review: Review, scheduler: Scheduler | None) -> Write:
    request = review.request
    verb = VERBS[review.operation]
    where = (request.resource, request.subresource, request.namespace, review.name)
    preemptor = (
        scheduler.preemptor_of(review.old["metadata"]["uid"])
        if scheduler and verb == DELETE and review.old
        else ""
    )
    is_impersonated = request.user != ADMIN
    writer = f"{USERS}{request.agent}" if request.agent and not is_impersonated else request.user
    return Write(writer, verb, *where, review.new, review.old, preemptor)


def controlplane(cluster: ControlPlaneCluster, controller: ScenarioController) -> str:
    """Set up a real control plane: programs are stopped and continued, new pods wait at a
    scheduling gate, and the API server calls webhooks.

    Returns the gate address.
    """
    api, clock, gates = cluster.api(NAME), cluster.runner.clock, cluster.site.gates

    async def admit_write(write: Write) -> None:
        await controller.admit_write(write)
        if write.author == SCHEDULER:
            await cluster.program_pauser.apply_scenarios(api)

    cluster.runner.call(cluster.scheduler.restart())
    holds = functools.partial(controller.simulates, SCHEDULER)
    gate_url = _served(
        cluster, controller, gates, admit_write, f"{USERS}{NAME}", holds=holds, policy="Fail"
    )
    cluster.runner.start(cluster.program_pauser.follow(api, clock), "held programs")
    controller.register.add(_real(cluster, controller), replace=True)
    controller.register.scheduling = RealScheduling(cluster)
    controller.register.parts.update(dict.fromkeys(INSIDE, MANAGER))
    return gate_url


@dataclass(slots=True)
class RealScheduling:
    """Configuration of a real kube-scheduler, restarted when a scenario requires another one.

    The configuration of one scenario stays until the next one replaces it.
    """

    cluster: ControlPlaneCluster
    now: Obj = field(default_factory=dict)

    async def adopt(self, written: str) -> None:
        wanted = await self._read(written)
        if wanted == self.now:
            return
        before, self.now = self.now, wanted
        await self.cluster.program_pauser.apply_scenarios(
            self.cluster.api(NAME)
        )  # no controller is held before a scenario's first step
        try:
            await self.cluster.scheduler.restart(wanted)
        except ClusterRefused as error:
            self.now = before
            await self.cluster.scheduler.restart(before)
            raise ValueError(str(error)) from None

    async def revert(self) -> None:
        """Do nothing: the next scenario sets the configuration that it requires."""

    async def _read(self, written: str) -> Obj:
        """Return the scenario's configuration, else the cluster's ConfigMap, else an empty one."""
        if not written:
            try:
                written = configuration_text(
                    await self.cluster.api(NAME).get(
                        CONFIG_MAPS, CONFIG_MAP.name, CONFIG_MAP.namespace
                    )
                )
            except NotFound:
                return {}
        try:
            configuration = yaml.safe_load(written)
        except yaml.YAMLError as error:
            raise ValueError(f"it is not YAML: {error}") from None
        if not isinstance(configuration, dict):
            # the content of a file is wrong, not a program's argument
            raise ValueError("it is not an object")  # noqa: TRY004
        return configuration


def given(cluster: KubeconfigCluster, controller: ScenarioController) -> str:
    """Set up a cluster given by a kubeconfig: its API server calls webhooks on this machine.

    New pods wait at a scheduling gate; other controllers request their turn at the gate address,
    which is returned. Raise PreflightRefused if the user may not impersonate.
    """
    from pytest_kscen.kube.gate import Gates

    def holds() -> bool:
        """Return True if pods must be gated: the scheduler is simulated or disabled."""
        return controller.simulates(SCHEDULER) or controller.disables(SCHEDULER)

    controller.register.ungated, controller.register.partly_gated = UNGATED, (SCHEDULER,)
    cluster.impersonate(USERS)
    try:
        cluster.runner.call(cluster.api(NAME).list(SCENARIOS, limit=1))
    except Forbidden as error:
        raise PreflightRefused(
            "Scenarios identify writers by impersonating one user per controller; this "
            f"kubeconfig's user may not impersonate: {error.message}. Grant `impersonate` on users "
            "(check with `kubectl auth can-i impersonate users`), or play on another cluster with "
            "--kscen-cluster=embedded"
        ) from None
    return _served(
        cluster,
        controller,
        Gates(),
        controller.admit_write,
        f"{USERS}{NAME}",
        holds=holds,
        policy="Ignore",
    )


def _served(
    cluster: LiveCluster,
    controller: ScenarioController,
    gates: Gates,
    admit_write: Callable[[Write], Awaitable[None]],
    user: str,
    *,
    holds: Callable[[], bool],
    policy: str,
) -> str:
    """Serve webhooks and gates until the cluster is closed, then remove them; return the gate
    address.
    """
    from pytest_kscen.embedded.apiserver.credentials import make_keys
    from pytest_kscen.scenario.webhooks import WebhookServer, register, unregister

    keys, runner = make_keys(), cluster.runner
    api = RetryingApi(cluster.api(NAME), runner.clock, cluster.chance.stream("webhooks try again"))
    server = WebhookServer(admit_write, holds, gates.visited)
    held = HeldPods(api, controller.informer_of(PODS))
    controller.register.prompts[SCHEDULER] = held.release_next
    controller.register.cleanups.append(held.release_all)

    async def stay() -> Never:
        try:
            await server.stay()
        finally:
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                async with asyncio.timeout(UNREGISTER_WITHIN):
                    await unregister(api)
                    await held.release_all()

    runner.call(server.open(keys.context()))
    runner.start(stay(), "webhooks")
    runner.call(unregister(api))
    runner.call(register(api, server.url, keys.authority, user, policy=policy))
    runner.start(gates.follow(api, runner.clock), "gates")
    return server.gate_url


def _real(cluster: ControlPlaneCluster, controller: ScenarioController) -> SchedulerWaiter:
    """Return the scheduler's waiter, which finally queries the program's metrics."""
    clock = cluster.runner.clock
    nodes, pods = controller.informer_of(NODES), controller.informer_of(PODS)

    nodes_changed_at = 0.0

    # every change is one
    def on_node_change(new: Obj | None, old: Obj | None) -> None:  # noqa: ARG001
        nonlocal nodes_changed_at
        nodes_changed_at = clock.now()

    nodes.on_change(on_node_change)

    async def is_idle() -> bool:
        checked_at = clock.now()
        gated = sum(bool(gates_of(pod)) and scheduler_of(pod) == DEFAULT for pod in pods)
        placed = sum(bool(pod["spec"].get("nodeName")) and not has_ended(pod) for pod in pods)
        unschedulable = sum(
            scheduler_of(pod) == DEFAULT
            and not pod["spec"].get("nodeName")
            and not gates_of(pod)
            and not pod["metadata"].get("deletionTimestamp")
            and not has_ended(pod)
            for pod in pods
        )
        is_idle = await cluster.scheduler.is_idle(
            nodes=len(nodes.objects), pods=placed, gated=gated, unschedulable=unschedulable
        )
        return (
            is_idle
            and checked_at
            - max(nodes_changed_at, cluster.program_pauser.resumed_at.get(SCHEDULER, 0.0))
            >= SETTLED
        )

    return SchedulerWaiter(back_off=SETTLED, idle=is_idle)
