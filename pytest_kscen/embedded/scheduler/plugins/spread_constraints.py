"""How evenly a pod's kind is to be spread: what the pod says, or what holds for those that say
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.node_matching import first_untolerated_taint, node_matches_pod
from pytest_kscen.embedded.scheduler.plugins.pod_counts import Choice, Labels, hold, labels_of
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
OWNERS = {("v1", "ReplicationController"): REPLICATION_CONTROLLERS}
OWNERS |= {("apps/v1", "ReplicaSet"): REPLICA_SETS, ("apps/v1", "StatefulSet"): STATEFUL_SETS}
READ = (SERVICES, *OWNERS.values())
SYSTEM: list[Obj] = [
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": ZONE, "whenUnsatisfiable": SOFT, "maxSkew": 5},
]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One."""

    key: str
    max_skew: int
    labels: Labels | None
    """The pods that count."""
    min_domains: int = 1
    honours_affinity: bool = True
    """Only nodes count on which the pod itself may be, as far as it says so."""
    honours_taints: bool = False

    @classmethod
    def of(cls, spec: Obj, labels: Labels | None) -> Constraint:
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

    def means(self, labels: Mapping[str, str]) -> bool:
        return hold(self.labels, labels)

    def choice(self, namespace: str) -> Choice:
        """The pods to be counted.

        A selector that is empty means everybody, and yet counts nobody.
        """
        return Choice(frozenset((namespace,)), self.labels or None, living=True)

    def counts_at(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Whether the pods on this node count."""
        if self.honours_affinity and not node_matches_pod(pod.obj, node.node):
            return False
        return not (
            self.honours_taints and first_untolerated_taint(node.hard_taints, pod.tolerations)
        )


class Constraints:
    """Those of any pod."""

    def __init__(self, informers: Informers, default: Sequence[Obj]) -> None:
        self._default = default
        self._pictures = (
            {kind: informers.of(resource) for kind, resource in OWNERS.items()} if default else {}
        )
        self._services: Any = None
        if default:
            self._services = informers.of(SERVICES).index(
                "namespaces", lambda service: [service["metadata"]["namespace"]]
            )

    def of(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        """Those that are to be kept, or only to be wished for."""
        if pod.spec.get("topologySpreadConstraints"):
            return pod.memo("spread constraints", _own)[action]
        specs = [spec for spec in self._default if spec["whenUnsatisfiable"] == action]
        labels = self._labels_of_kin(pod) if specs else ()
        return tuple(Constraint.of(spec, labels) for spec in specs) if labels else ()

    def _labels_of_kin(self, pod: PodInfo) -> Labels:
        """What the pods have in common that the same services and the same owner choose."""
        equal: dict[str, str] = {}
        for service in self._services.of(pod.namespace):
            selector = service["spec"].get("selector")
            if selector is not None and all(
                pod.labels.get(key) == value for key, value in selector.items()
            ):
                equal |= selector
        owner = _controller(pod)
        found = (
            self._pictures[owner["apiVersion"], owner["kind"]].get(owner["name"], pod.namespace)
            if owner
            else None
        )
        selector = (found["spec"].get("selector") or {}) if found else {}
        if owner and owner["kind"] == "ReplicationController":
            return _equal({**equal, **selector})
        return _equal(equal) + (labels_of(selector) or ())


def _own(pod: PodInfo) -> dict[str, tuple[Constraint, ...]]:
    specs = pod.spec["topologySpreadConstraints"]
    return {
        action: tuple(
            Constraint.of(spec, _labels(spec, pod))
            for spec in specs
            if spec["whenUnsatisfiable"] == action
        )
        for action in (HARD, SOFT)
    }


def _labels(spec: Obj, pod: PodInfo) -> Labels | None:
    labels = labels_of(spec.get("labelSelector"))
    if labels is None:
        return None
    own = {key: pod.labels[key] for key in spec.get("matchLabelKeys") or () if key in pod.labels}
    return tuple(dict.fromkeys(_equal(own) + labels))


def _equal(labels: Mapping[str, str]) -> Labels:
    return tuple(Requirement(key, "In", frozenset((value,))) for key, value in labels.items())


def _controller(pod: PodInfo) -> Obj | None:
    owners = pod.obj["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    return owner if owner and (owner["apiVersion"], owner["kind"]) in OWNERS else None
