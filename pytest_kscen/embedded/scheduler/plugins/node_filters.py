"""A pod that names its node goes there and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.node_matching import tolerates
from pytest_kscen.embedded.pod_resources import demand_of
from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest
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
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj


ELSEWHERE = unresolvable("node(s) didn't match the requested node name").by("NodeName")


class NodeName(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = pod.spec.get("nodeName")
        return ELSEWHERE if wanted and wanted != node.name else None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        wanted = pod.spec.get("nodeName")
        return table.names.judged(lambda name: name != wanted, rows) if wanted else None

    def events(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD),)


# A port of the host can be had once.


TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")


class NodePorts(Plugin):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if pod.demand.ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return TAKEN if node.load.ports and node.load.ports_clash(pod.demand) else None

    def events(self) -> Sequence[Interest]:
        return Interest(POD, Action.DELETE, _frees_a_port), Interest(NODE, Action.ADD)


def _frees_a_port(pod: PodInfo, old: Obj | None, _: Obj | None) -> bool:
    freed = demand_of(old).ports if old else ()
    return any(port.clashes(other) for port in pod.demand.ports for other in freed)


# A node that is cordoned takes only pods that tolerate it.


TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")


class NodeUnschedulable(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return CORDONED if node.unschedulable and not _tolerates(pod) else None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        closed = table.unschedulable[rows]
        return closed if closed.any() and not _tolerates(pod) else None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _is_open),
            Interest(
                POD,
                Action.POD_TOLERATION,
                lambda pod, _, new: bool(new and new["metadata"]["uid"] == pod.uid),
            ),
        )


def _tolerates(pod: PodInfo) -> bool:
    return any(tolerates(toleration, TAINT) for toleration in pod.tolerations)


def _is_open(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    def closed(node: Obj | None) -> bool:
        return bool(((node or {}).get("spec") or {}).get("unschedulable"))

    return new is not None and not closed(new) and (old is None or closed(old))


# A pod that needs a feature which not every kubelet has goes where the node declares it.


LACKING = unresolvable("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")


def _restarts_all(spec: Obj) -> bool:
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    rules = (rule for each in containers for rule in each.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def _maps_users_on_the_hosts_network(spec: Obj) -> bool:
    return bool(spec.get("hostNetwork")) and spec.get("hostUsers") is False


NEEDED: dict[str, Callable[[Obj], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": _maps_users_on_the_hosts_network,
}
"""By feature: whether a pod needs it.

What else kubelets declare matters when a pod is changed, and for none that is placed.
"""


class NodeDeclaredFeatures(Plugin):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if _needs(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if _needs(pod) <= set(_declared(node.node)) else LACKING

    def events(self) -> Sequence[Interest]:
        """A pod's own change is none: what makes it need a feature cannot be changed."""
        return (Interest(NODE, Action.ADD | Action.NODE_FEATURES, _declares_others),)


def _needs(pod: PodInfo) -> frozenset[str]:
    return pod.memo(
        "NodeDeclaredFeatures",
        lambda one: frozenset(name for name, needs in NEEDED.items() if needs(one.spec)),
    )


def _declared(node: Obj | None) -> list[str]:
    return ((node or {}).get("status") or {}).get("declaredFeatures") or []


def _declares_others(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    return old is None or _declared(old) != _declared(new)
