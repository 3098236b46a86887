"""Keep the wanted number of pods for each ReplicaSet.

Started by `actors`. Missing pods are created from the template; surplus ones are deleted by
deletion rank.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, StatusWriter
from pytest_kscen.embedded.controllers.ownership import (
    ControllerRefManager,
    OwnerEnqueuer,
    controller_index,
    controller_of,
)
from pytest_kscen.embedded.controllers.pod_control import (
    MAX_GENERATE_NAME,
    PodControl,
    in_terminating_namespace,
    pod_of,
)
from pytest_kscen.embedded.controllers.pod_state import (
    by_deletion_rank,
    is_active,
    is_ready,
    is_terminating,
    owner_relevant_state,
    seconds_until_available,
)
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS, REPLICA_SETS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj

BURST = 500  # pods created or deleted per reconciliation, at most


class ReplicaSets(Reconciler):
    """Reconcile each ReplicaSet: claim its pods, create or delete at most `BURST` of them, and
    write the status.

    A failure is first shown in the condition ReplicaFailure, then raised, so that the key is
    retried.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._sets = context.informers.of(REPLICA_SETS)
        self._informer = context.informers.of(PODS)
        self._ref_manager = ControllerRefManager(context, REPLICA_SETS, PODS)
        self._pods = PodControl(context)
        self._siblings = controller_index(self._sets)
        self._by_set = controller_index(self._informer)
        super().__init__(context, self._sets, self._informer)
        self._status_writer = StatusWriter(context, self._controller, REPLICA_SETS)
        OwnerEnqueuer(
            self._controller.enqueue,
            self._sets,
            self._informer,
            relevant_state=owner_relevant_state,
        )

    async def _reconcile(self, ref: Ref) -> float | None:
        owner = self._sets.objects.get(ref)
        if owner is None:
            return None
        claimed = await self._ref_manager.claim(owner, adoptable=is_active)
        pods = [pod for pod in claimed if is_active(pod)]
        failure = (
            None if owner["metadata"].get("deletionTimestamp") else await self._manage(owner, pods)
        )
        status = self._status(owner, pods, sum(map(is_terminating, claimed)), failure)
        if status != owner.get("status"):
            await self._status_writer.write(owner, status, failed=failure is not None)
        if failure:
            raise failure
        # Reconcile again when the next ready pod becomes available.
        min_ready, now = owner["spec"].get("minReadySeconds", 0), self._context.now()
        if not min_ready:
            return None
        waits = [wait for pod in pods if (wait := seconds_until_available(pod, min_ready, now))]
        return min(waits, default=None)

    async def _manage(self, owner: Obj, pods: list[Obj]) -> ApiError | None:
        missing = owner["spec"].get("replicas", 1) - len(pods)
        try:
            if missing > 0:
                pod = pod_of(owner["spec"]["template"], owner, REPLICA_SETS)
                prefix = f"{owner['metadata']['name']}-"
                pod["metadata"]["generateName"] = prefix[:MAX_GENERATE_NAME]
                for _ in range(min(missing, BURST)):
                    await self._pods.create(owner, pod)
            elif missing < 0:
                # Nodes with many active pods of the owner's ReplicaSets lose pods first.
                reference = controller_of(owner)
                family = self._siblings.of(reference["uid"]) if reference else [owner]
                neighbours = collections.Counter(
                    pod["spec"].get("nodeName") or ""
                    for member in family
                    for pod in self._by_set.of(member["metadata"]["uid"])
                    if is_active(pod)
                )
                ranked = by_deletion_rank(pods, neighbours, self._context.now())
                for pod in ranked[: min(-missing, BURST)]:
                    await self._pods.delete(owner, pod)
        except ApiError as error:
            return None if in_terminating_namespace(error) else error
        return None

    def _status(
        self, owner: Obj, pods: list[Obj], terminating: int, failure: ApiError | None
    ) -> Obj:
        spec, old = owner["spec"], owner.get("status") or {}
        wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        labels = [pod["metadata"].get("labels") or {} for pod in pods]
        min_ready, now = spec.get("minReadySeconds", 0), self._context.now()
        counts = {
            "fullyLabeledReplicas": sum(wanted.items() <= own.items() for own in labels),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(
                seconds_until_available(pod, min_ready, now) == 0 for pod in pods
            ),
        }
        conditions = old.get("conditions") or []
        if failure is None:
            conditions = [other for other in conditions if other["type"] != "ReplicaFailure"]
        elif not condition(owner, "ReplicaFailure"):
            new = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate" if len(pods) < spec.get("replicas", 1) else "FailedDelete",
                "message": failure.message,
            }
            conditions = set_condition(conditions, new, self._context.timestamp())
        return {
            "replicas": len(pods),
            **{name: count for name, count in counts.items() if count},
            "terminatingReplicas": terminating,
            "observedGeneration": max(
                owner["metadata"].get("generation", 0), old.get("observedGeneration", 0)
            ),
            **({"conditions": conditions} if conditions else {}),
        }
