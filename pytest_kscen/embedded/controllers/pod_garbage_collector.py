"""Force-delete pods that no kubelet will finish: terminated ones beyond a limit, orphaned and
unscheduled ones.

The counterpart of Kubernetes' pod garbage collector, started by `actors`. Pods of missing nodes
wait for a quarantine of 40 s, in case the node returns.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.pod_state import phase
from pytest_kscen.embedded.controllers.taint_eviction import OUT_OF_SERVICE
from pytest_kscen.embedded.indexes import pods_by_node
from pytest_kscen.embedded.node_matching import taints_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj

PERIOD, QUARANTINE = 20.0, 40.0
TERMINATED_POD_THRESHOLD = 12_500  # finished pods kept in a cluster
FINISHED = ("Succeeded", "Failed")
ORPHANED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class PodGarbageCollector:
    """Check every `PERIOD` seconds for pods to delete, but only if informer events have produced
    candidates.

    While there are none, the actor waits for an event and keeps the phase of its period, so skipped
    checks do not shift later ones.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        self._pods_by_node = pods_by_node(context.informers)
        self._missing_nodes: dict[str, float | None] = {}
        """Missing nodes that still have pods, with the end of their quarantine; None until the
        first check.
        """
        self._terminating: dict[Ref, None] = {}
        self._finished: dict[Ref, None] = {}
        self._has_candidates = asyncio.Event()

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            pod = new or old
            if pod is None:
                return
            ref = Ref.of(pod)
            if new is None:
                self._terminating.pop(ref, None)
                self._finished.pop(ref, None)
                return
            node = new["spec"].get("nodeName")
            if node and self._nodes.get(node) is None:
                self._missing_nodes.setdefault(node, None)
            if new["metadata"].get("deletionTimestamp"):
                self._terminating[ref] = None
            if (new.get("status") or {}).get("phase") in FINISHED:
                self._finished[ref] = None
            if self._may_have_garbage():
                self._has_candidates.set()

        self._pods.on_change(pod_changed)

        def node_changed(new: Obj | None, old: Obj | None) -> None:
            if new is None and old and self._pods_by_node.of(old["metadata"]["name"]):
                self._missing_nodes.setdefault(old["metadata"]["name"], None)
                self._has_candidates.set()

        self._nodes.on_change(node_changed)

    async def run(self) -> Never:
        await self._nodes.synced()
        await self._pods.synced()
        while True:
            for pod, disruption in [
                *self._excess_terminated(),
                *(
                    (pod, None)
                    for pod in self._terminating_pods()
                    if (node := self._nodes.get(pod["spec"].get("nodeName") or ""))
                    and not is_true(node, "Ready")
                    and any(taint["key"] == OUT_OF_SERVICE for taint in taints_of(node))
                ),
                *await self._orphans(),
                *(
                    (pod, None)
                    for pod in self._terminating_pods()
                    if not pod["spec"].get("nodeName")
                ),
            ]:
                try:
                    await self._delete(pod, disruption)
                except (ApiError, OSError):
                    continue  # retried in the next period
            # Without candidates, wait for an event; keep the phase of the period.
            cycle_end = self._context.now()
            if not self._may_have_garbage():
                self._has_candidates.clear()
                await self._has_candidates.wait()
            waited = self._context.now() - cycle_end
            await self._context.clock.sleep(PERIOD - waited % PERIOD, background=True)

    def _may_have_garbage(self) -> bool:
        return bool(
            self._missing_nodes
            or self._terminating
            or len(self._finished) > TERMINATED_POD_THRESHOLD
        )

    def _excess_terminated(self) -> list[tuple[Obj, Obj | None]]:
        if len(self._finished) <= TERMINATED_POD_THRESHOLD:
            return []
        pods = [pod for ref in self._finished if (pod := self._pods.objects.get(ref))]
        pods.sort(
            key=lambda pod: (
                (phase(pod), (pod.get("status") or {}).get("reason")) != ("Failed", "Evicted"),
                pod["metadata"]["creationTimestamp"],
                pod["metadata"]["name"],
            )
        )
        return [(pod, None) for pod in pods[: len(pods) - TERMINATED_POD_THRESHOLD]]

    def _terminating_pods(self) -> list[Obj]:
        return [pod for ref in self._terminating if (pod := self._pods.objects.get(ref))]

    async def _orphans(self) -> list[tuple[Obj, Obj | None]]:
        """Return the pods of nodes that have been missing for longer than the quarantine. The
        API has to confirm that the node is missing.
        """
        now = self._context.now()
        found: list[tuple[Obj, Obj | None]] = []
        for name, due in list(self._missing_nodes.items()):
            if self._nodes.get(name):
                del self._missing_nodes[name]
            elif due is None:
                self._missing_nodes[name] = now + QUARANTINE
            elif due <= now:
                with contextlib.suppress(NotFound):
                    await self._context.api.get(NODES, name)
                    continue
                del self._missing_nodes[name]
                found += [(pod, ORPHANED) for pod in self._pods_by_node.of(name)]
        return found

    async def _delete(self, pod: Obj, disruption: Obj | None) -> None:
        """Set the pod's phase to Failed, unless it has finished, and delete it without a grace
        period. No kubelet is left to do either.
        """
        metadata, status = pod["metadata"], pod.get("status") or {}
        if status.get("phase") not in FINISHED:
            generation = metadata.get("generation", 1)
            conditions = status.get("conditions") or []
            if disruption:
                conditions = set_condition(
                    conditions,
                    {**disruption, "observedGeneration": generation},
                    self._context.timestamp(),
                )
            failed = {
                **status,
                "phase": "Failed",
                "observedGeneration": generation,
                "conditions": conditions,
            }
            await self._context.write_status(PODS, pod, failed)
        await self._context.api.delete(
            PODS, metadata["name"], metadata["namespace"], grace_period=0
        )
