"""Topology spread constraints: those of a pod, or the defaults for pods without any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.node_matching import first_untolerated_taint, node_matches_pod
from pytest_kscen.embedded.scheduler.plugins.pod_counts import (
    LabelRequirements,
    PodSelector,
    requirements_hold,
    selector_requirements,
)
from pytest_kscen.objects.resources import REPLICA_SETS, SERVICES, STATEFUL_SETS, Resource
from pytest_kscen.objects.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
OWNER_RESOURCES = {("v1", "ReplicationController"): REPLICATION_CONTROLLERS}
OWNER_RESOURCES |= {
    ("apps/v1", "ReplicaSet"): REPLICA_SETS,
    ("apps/v1", "StatefulSet"): STATEFUL_SETS,
}
READ_RESOURCES = (SERVICES, *OWNER_RESOURCES.values())
SYSTEM_DEFAULTS: list[Obj] = [
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": ZONE, "whenUnsatisfiable": SOFT, "maxSkew": 5},
]


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Topology spread constraint with its selector resolved for one pod."""

    key: str
    max_skew: int
    labels: LabelRequirements | None
    """Requirements on the labels of pods that count; None matches no pod."""
    min_domains: int = 1
    honors_affinity: bool = True
    """Count only nodes that match the pod's node affinity and selector."""
    honors_taints: bool = False

    @classmethod
    def of(cls, spec: Obj, labels: LabelRequirements | None) -> SpreadConstraint:
        affinity, taints = (
            spec.get("nodeAffinityPolicy") or "Honor",
            spec.get("nodeTaintsPolicy") or "Ignore",
        )
        least = spec.get("minDomains") or 1
        return cls(
            spec["topologyKey"],
            spec["maxSkew"],
            labels,
            least,
            affinity == "Honor",
            taints == "Honor",
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        return requirements_hold(self.labels, labels)

    def pod_selector(self, namespace: str) -> PodSelector:
        """Return the selector for counting. As in kube-scheduler, an empty one matches the pod
        itself, yet counts no pods.
        """
        return PodSelector(frozenset((namespace,)), self.labels or None, excludes_terminating=True)

    def counts_at(self, pod: PodInfo, node: NodeInfo) -> bool:
        if self.honors_affinity and not node_matches_pod(pod.obj, node.node):
            return False
        return not (
            self.honors_taints and first_untolerated_taint(node.hard_taints, pod.tolerations)
        )


class ConstraintSource:
    """Reader of a pod's constraints, with the default ones and what they need: services and
    owners.
    """

    def __init__(self, informers: Informers, default: Sequence[Obj]) -> None:
        self._default = default
        self._owners = (
            {kind: informers.of(resource) for kind, resource in OWNER_RESOURCES.items()}
            if default
            else {}
        )
        self._services: Any = None
        if default:
            self._services = informers.of(SERVICES).index(
                "namespaces", lambda service: [service["metadata"]["namespace"]]
            )

    def of(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        if pod.spec.get("topologySpreadConstraints"):
            return pod.memo("spread constraints", _constraints_of_pod)[action]
        specs = [spec for spec in self._default if spec["whenUnsatisfiable"] == action]
        labels = self._owner_selector(pod) if specs else ()
        return tuple(SpreadConstraint.of(spec, labels) for spec in specs) if labels else ()

    def _owner_selector(self, pod: PodInfo) -> LabelRequirements:
        """Return the requirements that select the pod's services and its owner, as default
        constraints use them.
        """
        equal: dict[str, str] = {}
        for service in self._services.of(pod.namespace):
            selector = service["spec"].get("selector")
            if selector is not None and all(
                pod.labels.get(key) == value for key, value in selector.items()
            ):
                equal |= selector
        owners = pod.obj["metadata"].get("ownerReferences") or ()
        owner = next((one for one in owners if one.get("controller")), None)
        if owner and (owner["apiVersion"], owner["kind"]) not in OWNER_RESOURCES:
            owner = None
        found = (
            self._owners[owner["apiVersion"], owner["kind"]].get(owner["name"], pod.namespace)
            if owner
            else None
        )
        selector = (found["spec"].get("selector") or {}) if found else {}
        if owner and owner["kind"] == "ReplicationController":
            return _equality_requirements({**equal, **selector})
        return _equality_requirements(equal) + (selector_requirements(selector) or ())


def _constraints_of_pod(pod: PodInfo) -> dict[str, tuple[SpreadConstraint, ...]]:
    specs = pod.spec["topologySpreadConstraints"]
    return {
        action: tuple(
            SpreadConstraint.of(spec, _constraint_selector(spec, pod))
            for spec in specs
            if spec["whenUnsatisfiable"] == action
        )
        for action in (HARD, SOFT)
    }


def _constraint_selector(spec: Obj, pod: PodInfo) -> LabelRequirements | None:
    labels = selector_requirements(spec.get("labelSelector"))
    if labels is None:
        return None
    own = {key: pod.labels[key] for key in spec.get("matchLabelKeys") or () if key in pod.labels}
    return tuple(dict.fromkeys(_equality_requirements(own) + labels))


def _equality_requirements(labels: Mapping[str, str]) -> LabelRequirements:
    return tuple(Requirement(key, "In", frozenset((value,))) for key, value in labels.items())
