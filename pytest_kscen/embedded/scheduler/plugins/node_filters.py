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
        return Interest(POD, Action.DELETE, _frees_a_port), Interest(NODE, Action.ADD)


def _frees_a_port(pod: PodInfo, old: Obj | None, _: Obj | None) -> bool:
    freed = demand_of(old).ports if old else ()
    return any(port.clashes(other) for port in pod.demand.ports for other in freed)


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
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _became_schedulable),
            Interest(
                POD,
                Action.POD_TOLERATION,
                is_same_pod,
            ),
        )


def _tolerates(pod: PodInfo) -> bool:
    return any(tolerates(toleration, UNSCHEDULABLE_TAINT) for toleration in pod.tolerations)


def _became_schedulable(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    def closed(node: Obj | None) -> bool:
        return bool(((node or {}).get("spec") or {}).get("unschedulable"))

    return new is not None and not closed(new) and (old is None or closed(old))


FEATURES_MISSING = unresolvable("node(s) didn't match Pod's required features").by(
    "NodeDeclaredFeatures"
)


def _restarts_all(spec: Obj) -> bool:
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    rules = (rule for each in containers for rule in each.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


FEATURE_REQUIREMENTS: dict[str, Callable[[Obj], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
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
