"""Waiters for the schedulers and the built-in controllers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.extensions import Registry
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from pytest_kscen.objects.storage import (
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)
from pytest_kscen.scenario.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from pytest_kscen.kube.cache import Index, ObjectCache
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.scenario.waiting import ControllerWaiter


SCHEDULER = "kube-scheduler"
DEFAULT = "default-scheduler"
NOT_ATTEMPTED = "has not been attempted"
BACK_OFF = 12.5
"""Seconds: longest back-off (10), the queue's window (1), and the flush that finds the pod."""


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerWaiter:
    """Waiter for one scheduler: finished when each of its pods has been tried and cannot be
    placed.
    """

    name: str = SCHEDULER
    profiles: Collection[str] = (DEFAULT,)
    """Current schedulerNames of its pods."""
    back_off: float = BACK_OFF
    """Seconds without a change after which the scheduler retries no unschedulable pod."""
    idle: Callable[[], Awaitable[bool]] | None = None
    doing: Callable[[Obj], str] = lambda _: NOT_ATTEMPTED
    """State of a pod whose status has no result yet, in words; empty if nothing is left to do."""

    @property
    def resources(self) -> Sequence[Resource]:
        return PODS, NODES

    def unfinished(self, cluster: Mapping[Resource, ObjectCache]) -> Iterator[str]:
        for pod in self._own(cluster[PODS].index("not attempted, by scheduler", _not_attempted)):
            if words := self.doing(pod):
                yield f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']} {words}"

    def quiet(self, cluster: Mapping[Resource, ObjectCache]) -> float:
        waits = any(self._own(cluster[PODS].index("needs a node, by scheduler", _needs_node)))
        return self.back_off if waits else 0.0

    async def is_idle(self) -> bool:
        return self.idle is None or await self.idle()

    def _own(self, index: Index) -> Iterator[Obj]:
        for profile in tuple(self.profiles):
            yield from index.of(profile)


def scheduler_of(pod: Obj) -> str:
    return pod["spec"].get("schedulerName") or DEFAULT


def has_ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


ENDED = ("Succeeded", "Failed")


def _needs_node(pod: Obj) -> list[str]:
    spec = pod["spec"]
    needs_none = (
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or pod["metadata"].get("deletionTimestamp")
        or has_ended(pod)
    )
    return [] if needs_none else [scheduler_of(pod)]


def _not_attempted(pod: Obj) -> list[str]:
    scheduled = condition(pod, "PodScheduled")
    return (
        []
        if scheduled
        and scheduled["status"] == "False"
        and scheduled.get("reason") != "SchedulingGated"
        else _needs_node(pod)
    )


REPLICATED_STORAGE = "replicated-volumes"
PROVISIONING = frozenset(
    ("volume.kubernetes.io/selected-node", "volume.kubernetes.io/storage-provisioner")
)
"""Annotations of a claim that is about to get a volume."""
GARBAGE_FINALIZERS = ("foregroundDeletion", "orphan")
STUCK = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "InvalidImageName",
)
UNREADY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _is_seen(obj: Obj) -> bool:
    return int((obj.get("status") or {}).get("observedGeneration") or 0) >= int(
        obj["metadata"].get("generation") or 0
    )


def _count(obj: Obj, name: str) -> int:
    return int((obj.get("status") or {}).get(name) or 0)


def _desired(obj: Obj) -> int:
    return int((obj.get("spec") or {}).get("replicas", 1))


# --- workloads ---


def _stateful_set(obj: Obj) -> str:
    created, ready = _count(obj, "replicas"), _count(obj, "readyReplicas")
    parallel = (obj.get("spec") or {}).get("podManagementPolicy") == "Parallel"
    continues = created != _desired(obj) and (parallel or ready == created)
    return "" if _is_seen(obj) and not continues else f"has {created} of {_desired(obj)} pods"


def _job(obj: Obj) -> str:
    spec = obj["spec"]
    if spec.get("suspend") or any(is_true(obj, type_) for type_ in ("Complete", "Failed")):
        return ""
    left = (
        spec["completions"] - _count(obj, "succeeded") if spec.get("completions") is not None else 1
    )
    wanted = min(int(spec.get("parallelism", 1)), left)
    return (
        ""
        if _count(obj, "active") >= wanted
        else f"has {_count(obj, 'active')} of {wanted} active pods"
    )


# --- nodes, pods and volumes ---


def _garbage(obj: Obj) -> str:
    metadata = obj["metadata"]
    held = [name for name in metadata.get("finalizers") or () if name in GARBAGE_FINALIZERS]
    return f"is held by {', '.join(held)}" if metadata.get("deletionTimestamp") and held else ""


def _node_taints(node: Obj) -> str:
    ready = condition(node, "Ready")
    tainted = any(
        taint["key"] in UNREADY_TAINTS for taint in (node.get("spec") or {}).get("taints") or ()
    )
    if ready is None or (ready["status"] == "True") != tainted:
        return ""
    return "is ready and tainted" if tainted else "is not ready and not tainted"


def _pod_kubelet(pod: Obj) -> str:
    if not pod["spec"].get("nodeName") or has_ended(pod):
        return ""
    if pod["metadata"].get("deletionTimestamp"):
        return "is terminating"
    status = pod.get("status") or {}
    containers = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    is_stuck = any(
        ((each.get("state") or {}).get("waiting") or {}).get("reason") in STUCK
        for each in containers
    )
    return "" if status.get("phase") == "Running" or is_stuck else "is starting"


def _probe_time(cluster: Mapping[Resource, ObjectCache]) -> float:
    """Return the seconds within which the probes of a pod that is not ready may still succeed."""
    unready = cluster[PODS].index(
        "is not ready yet",
        lambda pod: (
            [True]
            if (pod.get("status") or {}).get("phase") == "Running" and not is_true(pod, "Ready")
            else []
        ),
    )
    # Seconds from each container's start to the last probe that may make it ready.
    return max(
        (
            _seconds(each.get("startupProbe")) + _seconds(each.get("readinessProbe"))
            for pod in unready.of(True)
            for each in pod["spec"]["containers"]
        ),
        default=0.0,
    )


def _seconds(probe: Obj | None) -> float:
    if probe is None:
        return 0.0
    times = max(probe.get("successThreshold", 1), probe.get("failureThreshold", 3))
    return float(
        probe.get("initialDelaySeconds", 0)
        + times * probe.get("periodSeconds", 10)
        + probe.get("timeoutSeconds", 1)
    )


def _terminating(obj: Obj) -> str:
    return "is terminating" if obj["metadata"].get("deletionTimestamp") else ""


WAITERS: tuple[ControllerWaiter, ...] = (
    SchedulerWaiter(),
    Waiter(
        "replicaset-controller",
        {
            REPLICA_SETS: lambda obj: (
                ""
                if _is_seen(obj)
                and (
                    _desired(obj) == _count(obj, "fullyLabeledReplicas")
                    or is_true(obj, "ReplicaFailure")
                )
                else f"has {_count(obj, 'fullyLabeledReplicas')} of {_desired(obj)} pods"
            )
        },
    ),
    Waiter(
        "deployment-controller",
        {
            DEPLOYMENTS: lambda obj: "" if _is_seen(obj) else "has an unobserved generation",
            REPLICA_SETS: lambda _: "",
        },
    ),
    Waiter("statefulset-controller", {STATEFUL_SETS: _stateful_set}),
    Waiter(
        "daemonset-controller",
        {
            DAEMON_SETS: lambda obj: (
                ""
                if _is_seen(obj)
                and _count(obj, "currentNumberScheduled") >= _count(obj, "desiredNumberScheduled")
                else f"has {_count(obj, 'currentNumberScheduled')} of "
                f"{_count(obj, 'desiredNumberScheduled')} pods"
            )
        },
    ),
    Waiter("job-controller", {JOBS: _job}),
    Waiter(
        "persistentvolume-controller",
        {
            PERSISTENT_VOLUME_CLAIMS: lambda claim: (
                "has no phase yet"
                if not (phase := (claim.get("status") or {}).get("phase"))
                else "is not bound"
                if phase == "Pending"
                and (
                    claim["spec"].get("volumeName")
                    or not PROVISIONING.isdisjoint(claim["metadata"].get("annotations") or ())
                )
                else ""
            ),
            PERSISTENT_VOLUMES: lambda volume: (
                "is not available yet"
                if (volume.get("status") or {}).get("phase", "Pending") == "Pending"
                else ""
            ),
        },
    ),
    Waiter(
        "namespace-controller",
        {NAMESPACES: _terminating},
    ),
    Waiter(
        "garbage-collector-controller",
        {PODS: _garbage, REPLICA_SETS: _garbage, DEPLOYMENTS: _garbage, JOBS: _garbage},
    ),
    Waiter("node-controller", {NODES: _node_taints}),
    Waiter(
        "kubelet",
        {
            PODS: _pod_kubelet,
            NODES: lambda node: (
                ""
                if node["metadata"].get("deletionTimestamp") or condition(node, "Ready")
                else "has no kubelet yet"
            ),
        },
        _probe_time,
    ),
)
WHERE_SERVED: tuple[ControllerWaiter, ...] = (
    Waiter(
        REPLICATED_STORAGE,
        {
            REPLICATED_VOLUMES: _terminating,
            REPLICATED_VOLUME_REPLICAS: _terminating,
            REPLICATED_VOLUME_ATTACHMENTS: lambda attachment: (
                _terminating(attachment)
                or ("" if condition(attachment, "Ready") else "has no Ready condition yet")
            ),
        },
    ),
)
"""Waiters of controllers whose resources only some clusters serve."""


WAITER_REGISTRY: Registry[ControllerWaiter] = Registry(
    "waiters",
    "waiter",
    facts={
        "resources": "resources = (…,)",
        "unfinished": "def unfinished(self, cluster): …",
        "quiet": "def quiet(self, cluster): …",
        "is_idle": "async def is_idle(self): …",
    },
    built_in=(*WAITERS, *WHERE_SERVED),
)


def waiters_where_served() -> list[ControllerWaiter]:
    """Return the waiters whose controllers take part once the cluster serves their resources."""
    return [waiter for waiter in WAITER_REGISTRY.values() if waiter not in WAITERS]
