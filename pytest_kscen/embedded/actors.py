"""Start order of all controllers behind an API server.

`actors` is called by the cluster backends. The role `embedded` starts everything; `controlplane`
starts only what real kube-controller-manager and kube-scheduler leave to machines. All controllers
of a cluster share one set of informers, and each writes under its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.controllers.claim_lifecycle import EphemeralVolumes, VolumeProtection
from pytest_kscen.embedded.controllers.disruption_budgets import DisruptionBudgets
from pytest_kscen.embedded.controllers.endpoints import Endpoints, EndpointSlices
from pytest_kscen.embedded.controllers.event_expiry import EventExpiry
from pytest_kscen.embedded.controllers.garbage_collector import GarbageCollector
from pytest_kscen.embedded.controllers.namespaces import (
    Namespaces,
    root_certificates,
    service_accounts,
)
from pytest_kscen.embedded.controllers.node_lifecycle import NodeLifecycle
from pytest_kscen.embedded.controllers.persistent_volumes import PersistentVolumes
from pytest_kscen.embedded.controllers.pod_garbage_collector import PodGarbageCollector
from pytest_kscen.embedded.controllers.provisioner import Provisioner
from pytest_kscen.embedded.controllers.resource_quotas import ResourceQuotas
from pytest_kscen.embedded.controllers.taint_eviction import TaintEviction
from pytest_kscen.embedded.controllers.workloads.cronjobs import CronJobs
from pytest_kscen.embedded.controllers.workloads.daemonsets import DaemonSets
from pytest_kscen.embedded.controllers.workloads.deployments import Deployments
from pytest_kscen.embedded.controllers.workloads.jobs import FinishedJobs, Jobs, OrphanedPods
from pytest_kscen.embedded.controllers.workloads.replicasets import ReplicaSets
from pytest_kscen.embedded.controllers.workloads.statefulsets import StatefulSets
from pytest_kscen.embedded.kubelet.nodes import Kubelets, Site
from pytest_kscen.embedded.scheduler import Scheduler
from pytest_kscen.kube.informer import Informers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Protocol

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api

    class Runnable(Protocol):
        def run(self) -> Coroutine[Any, Any, Any]: ...


SCHEDULER = "default-scheduler"
SCENARIO_NAMES = {SCHEDULER: "kube-scheduler"}
"""Names in scenarios that differ from the names in the API."""
CONTROLLERS_EVERYWHERE: dict[str, Callable[[ControllerContext], Runnable]] = {
    "provisioner": Provisioner,
}
CONTROLLERS: dict[str, Callable[[ControllerContext], Runnable]] = {
    "node-controller": NodeLifecycle,
    "taint-eviction-controller": TaintEviction,
    "pod-garbage-collector-controller": PodGarbageCollector,
    "persistentvolume-controller": PersistentVolumes,
    "persistentvolume-protection-controller": VolumeProtection,
    "ephemeral-volume-controller": EphemeralVolumes,
    "serviceaccount-controller": service_accounts,
    "root-ca-certificate-publisher-controller": root_certificates,
    "namespace-controller": Namespaces,
    "garbage-collector-controller": GarbageCollector,
    "resourcequota-controller": ResourceQuotas,
    "endpoints-controller": Endpoints,
    "endpointslice-controller": EndpointSlices,
    "disruption-controller": DisruptionBudgets,
    "deployment-controller": Deployments,
    "replicaset-controller": ReplicaSets,
    "statefulset-controller": StatefulSets,
    "daemonset-controller": DaemonSets,
    "cronjob-controller": CronJobs,
    "job-controller": Jobs,
    "orphaned-job-pods-controller": OrphanedPods,
    "ttl-after-finished-controller": FinishedJobs,
    "event-aging": EventExpiry,
}


def actors(
    role: str,
    api_for: Callable[[str], Api],
    clock: Clock,
    chance: Chance,
    *,
    nodes: int = 0,
    site: Site | None = None,
) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
    """Return the actors of a cluster as (name, coroutine); start them in this order.

    The cluster begins with `nodes` machines, or with those of `site`, which the caller may keep to
    act on them.
    """
    site = site or Site.of(clock, chance, nodes=nodes)
    informers = site.informers = Informers(api_for("informers"), clock, chance)

    def gate(name: str) -> Callable[[], Awaitable[None]]:
        return site.gates.of(SCENARIO_NAMES.get(name, name))

    def context(name: str) -> ControllerContext:
        return ControllerContext.of(name, api_for(name), clock, informers).behind(gate(name))

    cast: dict[str, Runnable] = {
        "informers": informers,
        "kubelet": Kubelets(context("kubelet"), site),
    }
    controllers = {**CONTROLLERS_EVERYWHERE, **(CONTROLLERS if role == "embedded" else {})}
    if role == "embedded":
        cast[SCHEDULER] = site.scheduler = Scheduler(
            context(SCHEDULER), chance.stream(SCHEDULER), gate=gate(SCHEDULER)
        )
    cast |= {name: make(context(name)) for name, make in controllers.items()}
    return [(name, actor.run()) for name, actor in cast.items()]
