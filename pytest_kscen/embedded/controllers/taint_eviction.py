"""Evict pods from nodes with NoExecute taints that they do not tolerate, and compute taints of
nodes.

The counterpart of Kubernetes' taint eviction controller, started by `actors`. The taint functions
below it are pure, and `node_lifecycle` uses them as well.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler
from pytest_kscen.embedded.indexes import pods_by_node
from pytest_kscen.embedded.node_matching import is_same_taint, taints_of, tolerates
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


DISRUPTION_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class TaintEviction(Reconciler):
    """Delete each pod as soon as its tolerations of the node's NoExecute taints end.

    A pod that tolerates a taint for some seconds is evicted after them; if the taint goes first,
    the eviction is cancelled with an Event.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        self._pods_by_node = pods_by_node(context.informers)
        super().__init__(context, self._nodes, self._pods)
        self._eviction_times: dict[Ref, float] = {}
        """Time at which each pod is to be evicted, fixed when the taint was first seen."""

        def node_changed(new: Obj | None, old: Obj | None) -> None:
            if new and _no_execute_taints(new) != (_no_execute_taints(old) if old else []):
                for pod in self._pods_by_node.of(new["metadata"]["name"]):
                    self._controller.enqueue(Ref.of(pod))

        self._nodes.on_change(node_changed)

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            if new is None:
                if old:
                    self._eviction_times.pop(Ref.of(old), None)
            elif (name := new["spec"].get("nodeName")) and (
                old is None or new["spec"] is not old["spec"]
            ):
                node = self._nodes.get(name)
                if node and _no_execute_taints(node):
                    self._controller.enqueue(Ref.of(new))

        self._pods.on_change(pod_changed)

    async def _reconcile(self, ref: Ref) -> float | None:
        pod = self._pods.objects.get(ref)
        node = self._nodes.get(pod["spec"].get("nodeName") or "") if pod else None
        if pod is None or node is None:
            self._eviction_times.pop(ref, None)
            return None
        now = self._context.now()
        allowed = toleration_seconds(_no_execute_taints(node), pod["spec"].get("tolerations") or ())
        if allowed is None:
            if self._eviction_times.pop(ref, None) is not None:
                message = f"Cancelling deletion of Pod {ref.namespace}/{ref.name}"
                self._context.recorder.normal(pod, "TaintManagerEviction", message)
            return None
        due = self._eviction_times.setdefault(ref, now + allowed) if allowed else now
        if due > now:
            return due - now
        self._eviction_times.pop(ref, None)
        if pod["metadata"].get("deletionTimestamp"):
            return None
        message = f"Marking for deletion Pod {ref.namespace}/{ref.name}"
        self._context.recorder.normal(pod, "TaintManagerEviction", message)
        target = {**DISRUPTION_TARGET, "observedGeneration": pod["metadata"].get("generation", 1)}
        status = pod.get("status") or {}
        conditions = set_condition(status.get("conditions"), target, self._context.timestamp())
        with contextlib.suppress(NotFound):
            await self._context.write_status(PODS, pod, {**status, "conditions": conditions})
            await self._context.api.delete(PODS, ref.name, ref.namespace)
        return None


def toleration_seconds(taints: Sequence[Obj], tolerations: Sequence[Obj]) -> float | None:
    """Return the seconds for which a pod may stay on a node with these NoExecute taints. The result
    is 0 if one is not tolerated, and None for ever.

    Only the first matching toleration of each taint counts.
    """
    if not taints:
        return None
    used = []
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        used.append(matching[0])
    seconds = [
        max(0.0, float(one["tolerationSeconds"]))
        for one in used
        if one.get("tolerationSeconds") is not None
    ]
    return min(seconds, default=None)


def _no_execute_taints(node: Obj) -> list[Obj]:
    return [taint for taint in taints_of(node) if taint["effect"] == "NoExecute"]


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE, OUT_OF_SERVICE = (
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/out-of-service",
)
CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
MANAGED_TAINTS = (*CONDITION_TAINTS.values(), UNSCHEDULABLE)


def wanted_no_schedule_taints(node: Obj) -> list[Obj]:
    """Return the NoSchedule taints that the node's conditions and its `unschedulable` field
    require. Compare with `managed_no_schedule_taints`.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [CONDITION_TAINTS.get((one["type"], one["status"])) for one in conditions]
    keys += [UNSCHEDULABLE] if (node.get("spec") or {}).get("unschedulable") else []
    return [{"key": key, "effect": "NoSchedule"} for key in keys if key]


def no_execute_taint(key: str) -> Obj:
    return {"key": key, "effect": "NoExecute"}


def managed_no_schedule_taints(node: Obj) -> list[Obj]:
    """Return the NoSchedule taints of the node that the node lifecycle controller manages;
    taints of other writers are left alone.
    """
    return [
        taint
        for taint in taints_of(node)
        if taint["effect"] == "NoSchedule" and taint["key"] in MANAGED_TAINTS
    ]


def has_taint(node: Obj, taint: Obj) -> bool:
    return any(is_same_taint(taint, other) for other in taints_of(node))


def with_taints_swapped(
    node: Obj, add: Sequence[Obj], remove: Sequence[Obj], now: str
) -> Obj | None:
    """Return the node with `add` added and `remove` removed, or None if nothing changes. Added
    taints get the time `now`.
    """
    old = taints_of(node)
    kept = [taint for taint in old if not any(is_same_taint(taint, one) for one in remove)]
    new = [
        {**taint, "timeAdded": now}
        for taint in add
        if not any(is_same_taint(taint, one) for one in kept)
    ]
    if not new and len(kept) == len(old):
        return None
    return {**node, "spec": {**(node.get("spec") or {}), "taints": kept + new}}
