"""Filters on single properties of a node: NodeName, NodePorts, NodeUnschedulable,
NodeDeclaredFeatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.node_matching import tolerates
from pytest_kscen.embedded.pod_resources import demand_of
from pytest_kscen.embedded.scheduler.framework.events import (
    NODE,
    POD,
    Action,
    Interest,
    is_same_pod,
)
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj


NODE_NAME_MISMATCH = unresolvable("node(s) didn't match the requested node name").by("NodeName")


class NodeName(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = pod.spec.get("nodeName")
        return NODE_NAME_MISMATCH if wanted and wanted != node.name else None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        wanted = pod.spec.get("nodeName")
        return table.names.evaluate(lambda name: name != wanted, rows) if wanted else None

    def events(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD),)


PORTS_IN_USE = unschedulable("node(s) didn't have free ports for the requested pod ports").by(
    "NodePorts"
)


class NodePorts(Plugin):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if pod.demand.ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return PORTS_IN_USE if node.load.ports and node.load.ports_clash(pod.demand) else None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                POD,
                Action.DELETE,
                lambda pod, old, _: (
                    old is not None
                    and any(
                        port.clashes(other)
                        for other in demand_of(old).ports
                        for port in pod.demand.ports
                    )
                ),
            ),
            Interest(NODE, Action.ADD),
        )


UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NODE_UNSCHEDULABLE = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")


class NodeUnschedulable(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return NODE_UNSCHEDULABLE if node.unschedulable and not _tolerates(pod) else None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        closed = table.unschedulable[rows]
        return closed if closed.any() and not _tolerates(pod) else None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                NODE,
                Action.ADD | Action.NODE_TAINT,
                lambda _, old, new: (
                    new is not None and not _is_cordoned(new) and (old is None or _is_cordoned(old))
                ),
            ),
            Interest(POD, Action.POD_TOLERATION, is_same_pod),
        )


def _tolerates(pod: PodInfo) -> bool:
    return any(tolerates(toleration, UNSCHEDULABLE_TAINT) for toleration in pod.tolerations)


def _is_cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


FEATURES_MISSING = unresolvable("node(s) didn't match Pod's required features").by(
    "NodeDeclaredFeatures"
)


FEATURE_REQUIREMENTS: dict[str, Callable[[Obj], bool]] = {
    "RestartAllContainersOnContainerExits": lambda spec: any(
        rule.get("action") == "RestartAllContainers"
        for container in (*spec["containers"], *(spec.get("initContainers") or ()))
        for rule in container.get("restartPolicyRules") or ()
    ),
    "UserNamespacesHostNetworkSupport": lambda spec: (
        bool(spec.get("hostNetwork")) and spec.get("hostUsers") is False
    ),
}
"""Checks by feature whether a pod requires it.

Other features that kubelets declare matter only when pods are updated.
"""


class NodeDeclaredFeatures(Plugin):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if _required_features(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return (
            None
            if _required_features(pod) <= set(_declared_features(node.node))
            else FEATURES_MISSING
        )

    def events(self) -> Sequence[Interest]:
        """Return node events only: the fields that require a feature cannot be updated."""
        return (
            Interest(
                NODE,
                Action.ADD | Action.NODE_FEATURES,
                lambda _, old, new: (
                    old is None or _declared_features(old) != _declared_features(new)
                ),
            ),
        )


def _required_features(pod: PodInfo) -> frozenset[str]:
    return pod.memo(
        "NodeDeclaredFeatures",
        lambda one: frozenset(
            name for name, needs in FEATURE_REQUIREMENTS.items() if needs(one.spec)
        ),
    )


def _declared_features(node: Obj | None) -> list[str]:
    return ((node or {}).get("status") or {}).get("declaredFeatures") or []
