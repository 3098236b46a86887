"""A pod that needs a feature which not every kubelet has goes where the node declares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.events import NODE, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

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
"""By feature: whether a pod needs it. What else kubelets declare matters when a pod is changed, and for none that is placed."""


class NodeDeclaredFeatures(Plugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        return None if _needs(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if _needs(pod) <= set(_declared(node.node)) else LACKING

    def events(self) -> Sequence[Interest]:
        """A pod's own change is none: what makes it need a feature cannot be changed."""
        return (Interest(NODE, Action.ADD | Action.NODE_FEATURES, _declares_others),)


def _needs(pod: PodInfo) -> frozenset[str]:
    return pod.memo("NodeDeclaredFeatures", lambda one: frozenset(name for name, needs in NEEDED.items() if needs(one.spec)))


def _declared(node: Obj | None) -> list[str]:
    return ((node or {}).get("status") or {}).get("declaredFeatures") or []


def _declares_others(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    return old is None or _declared(old) != _declared(new)
