"""Whether a machine takes a pod that was bound to it: the last look, which catches what no scheduler has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.kubelet.pod_status import Verdict
from pytest_kscen.simulation.placement.affinity import pod_may_be_on
from pytest_kscen.simulation.placement.taints import taints_of, untolerated

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.placement.amounts import Amounts
    from pytest_kscen.simulation.placement.demand import Demand
    from pytest_kscen.simulation.placement.load import Load

BUILT_IN = ("pods", "cpu", "memory", "ephemeral-storage")
PREDICATES = {
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "TaintToleration": "node(s) had taints that the pod didn't tolerate",
}


def refusal(pod: Obj, demand: Demand, node: Obj, load: Load, allocatable: Amounts) -> Verdict | None:
    """Why the pod is not taken, in the kubelet's words."""
    wanted = (pod["spec"].get("os") or {}).get("name", "linux")
    if wanted != "linux":
        return Verdict("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    for shortage in load.shortages(demand, allocatable):
        if shortage.resource in BUILT_IN or shortage.resource in allocatable:
            numbers = f"requested: {shortage.requested}, used: {shortage.used}, capacity: {shortage.capacity}"
            message = f"Node didn't have enough resource: {shortage.resource}, {numbers}"
            return Verdict(f"OutOf{shortage.resource}", message)
    if not pod_may_be_on(pod, node):
        return _failed("NodeAffinity")
    if load.ports_clash(demand):
        return _failed("NodePorts")
    if untolerated(taints_of(node), pod["spec"].get("tolerations") or (), ("NoExecute",)):
        return _failed("TaintToleration")
    return None


def _failed(predicate: str) -> Verdict:
    return Verdict(predicate, f"Predicate {predicate} failed: {PREDICATES[predicate]}")
