"""Run StatefulSets: pods with stable names and volume claims, created and deleted in order.

Started by `actors`; decisions are in `statefulset_plan`. Claims are created here and bound by the
persistent volume controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.controllers.ownership import (
    ControllerRefManager,
    OwnerEnqueuer,
    reference_to,
)
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.pod_state import seconds_until_available
from pytest_kscen.embedded.controllers.workloads.revisions import Revisions
from pytest_kscen.embedded.controllers.workloads.statefulset_plan import (
    StatefulSetState,
    StatefulSetStep,
    StepKind,
    build_claims,
    build_pod,
    is_running_and_ready,
    is_terminating,
    labels_of,
    name_of,
    ordinal_of,
    plan_steps,
    revision_for,
    revision_of,
)
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound, conflict
from pytest_kscen.objects.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


class StatefulSetClaims:
    """Create the volume claims of a StatefulSet's pods, and keep their owner references equal
    to the retention policy.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def create_missing(self, owner: Obj, ordinal: int) -> None:
        """Create the claims that a pod needs and that do not exist. Raise Conflict if one is
        under deletion.
        """
        for claim in build_claims(owner, ordinal):
            metadata = claim["metadata"]
            existing = self._claims.get(metadata["name"], metadata["namespace"])
            if existing is None:
                await self._create(owner, ordinal, claim)
            elif existing["metadata"].get("deletionTimestamp"):
                raise conflict(
                    PERSISTENT_VOLUME_CLAIMS,
                    metadata["name"],
                    f"pvc {metadata['name']} is being deleted",
                )

    async def _create(self, owner: Obj, ordinal: int, claim: Obj) -> None:
        action = (
            f"Create Claim {claim['metadata']['name']} Pod {name_of(owner, ordinal)} in "
            f"StatefulSet {owner['metadata']['name']}"
        )
        references = _retention_owners(owner, None, condemned=False)
        owned = {
            **claim,
            "metadata": {
                **claim["metadata"],
                **({"ownerReferences": references} if references else {}),
            },
        }
        try:
            await self._context.api.create(
                PERSISTENT_VOLUME_CLAIMS, owned, claim["metadata"]["namespace"]
            )
        except AlreadyExists:
            return
        except ApiError as error:
            self._context.recorder.warning(
                owner, "FailedCreate", f"{action} failed error: {error.message}"
            )
            raise
        self._context.recorder.normal(owner, "SuccessfulCreate", f"{action} success")

    async def update_owner_references(
        self, owner: Obj, ordinal: int, pod: Obj, *, condemned: bool
    ) -> None:
        """Set the owners of a pod's claims as the retention policy requires: the set, the pod
        (if `condemned`), or neither.
        """
        wanted = _retention_owners(owner, pod, condemned=condemned)
        uids = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
        for claim in build_claims(owner, ordinal):
            existing = self._claims.get(claim["metadata"]["name"], claim["metadata"]["namespace"])
            if existing is None:
                continue
            references = existing["metadata"].get("ownerReferences") or []
            current_references = [reference for reference in references if reference["uid"] in uids]
            if [reference["uid"] for reference in current_references] != [
                reference["uid"] for reference in wanted
            ]:
                kept = [reference for reference in references if reference["uid"] not in uids]
                metadata = {**existing["metadata"], "ownerReferences": [*kept, *wanted]}
                await self._context.api.update(
                    PERSISTENT_VOLUME_CLAIMS, {**existing, "metadata": metadata}
                )


def _retention_owners(owner: Obj, pod: Obj | None, *, condemned: bool) -> list[Obj]:
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if condemned and pod and policy.get("whenScaled") == "Delete":
        return [reference_to(pod, PODS)]
    if policy.get("whenDeleted") == "Delete":
        return [reference_to(owner, STATEFUL_SETS)]
    return []


def status_of(state: StatefulSetState, collisions: int) -> Obj:
    owner, pods = state.owner, list(state.pods.values())
    current, update = state.current["metadata"]["name"], state.update["metadata"]["name"]
    staying = [revision_of(pod) for pod in pods if not is_terminating(pod)]
    counts = {
        "readyReplicas": sum(map(is_running_and_ready, pods)),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
    }
    total = len(pods)
    rolling = (owner["spec"].get("updateStrategy") or {}).get(
        "type", "RollingUpdate"
    ) == "RollingUpdate"
    size = owner["spec"].get("replicas", 1)
    if bool(rolling and total == counts["updatedReplicas"] == counts["readyReplicas"] == size):
        current, counts["currentReplicas"] = update, counts["updatedReplicas"]
    old = (owner.get("status") or {}).get("observedGeneration", 0)
    return {
        "observedGeneration": max(owner["metadata"].get("generation", 0), old),
        "replicas": len(pods),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collisions,
        "availableReplicas": sum(map(state.is_available, pods)),
    }


class StatefulSets(Reconciler):
    """Reconcile each StatefulSet: get the revisions, take the planned steps one by one, and write
    the status.

    The first failing step ends the sequence; its error is raised after the status is written.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._sets = context.informers.of(STATEFUL_SETS)
        pods = context.informers.of(PODS)
        revisions, volume_claims = map(
            context.informers.of, (CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS)
        )
        self._ref_manager = ControllerRefManager(context, STATEFUL_SETS, PODS)
        self._revisions = Revisions(context, STATEFUL_SETS, "controller.kubernetes.io/hash")
        self._pod_claims = StatefulSetClaims(context)
        super().__init__(context, self._sets, pods, revisions, volume_claims)
        follow(self._controller, self._sets)
        OwnerEnqueuer(self._controller.enqueue, self._sets, pods)

    async def _reconcile(self, ref: Ref) -> float | None:
        owner = self._sets.objects.get(ref)
        if owner is None:
            return None
        history = await self._revisions.of(owner)
        update, collisions = await self._revisions.latest(owner, history)
        named = (owner.get("status") or {}).get("currentRevision")
        current = next(
            (revision for revision in history if revision["metadata"]["name"] == named), update
        )
        claimed = await self._ref_manager.claim(
            owner, adoptable=lambda pod: ordinal_of(pod["metadata"]["name"], owner) is not None
        )
        numbered = {ordinal_of(pod["metadata"]["name"], owner): pod for pod in claimed}
        pods = {ordinal: pod for ordinal, pod in numbered.items() if ordinal is not None}
        state = StatefulSetState(owner, pods, current, update, self._context.now())
        failure = None
        try:
            if not owner["metadata"].get("deletionTimestamp"):
                for step in list(plan_steps(state)):
                    match step.verb:
                        case StepKind.CREATE:
                            await self._create(state, step.ordinal)
                        case StepKind.KEEP:
                            await self._keep(state, step)
                        case StepKind.DELETE | StepKind.CONDEMN:
                            await self._delete(state, step)
        except ApiError as error:
            failure = error
        status = status_of(state, collisions)
        if status != owner.get("status"):
            await self._context.write_status(STATEFUL_SETS, owner, status)
        if failure and not in_terminating_namespace(failure):
            raise failure
        in_use = {
            *map(revision_of, state.pods.values()),
            status["currentRevision"],
            status["updateRevision"],
        }
        await self._revisions.truncate_history(owner, history, in_use)
        min_ready = state.owner["spec"].get("minReadySeconds", 0)
        ready = filter(is_running_and_ready, state.pods.values())
        return min(
            (wait for pod in ready if (wait := seconds_until_available(pod, min_ready, state.now))),
            default=None,
        )

    async def _create(self, state: StatefulSetState, ordinal: int) -> None:
        owner, name = state.owner, name_of(state.owner, ordinal)
        action = f"Create Pod {name} in StatefulSet {owner['metadata']['name']}"
        await self._pod_claims.create_missing(owner, ordinal)
        pod = build_pod(owner, ordinal, revision_for(state, ordinal))
        try:
            state.pods[ordinal] = await self._context.api.create(
                PODS, pod, owner["metadata"]["namespace"]
            )
        except AlreadyExists:
            raise
        except ApiError as error:
            self._context.recorder.warning(
                owner, "FailedCreate", f"{action} failed error: {error.message}"
            )
            raise
        self._context.recorder.normal(owner, "SuccessfulCreate", f"{action} successful")

    async def _keep(self, state: StatefulSetState, step: StatefulSetStep) -> None:
        owner, pod = state.owner, state.pods[step.ordinal]
        await self._pod_claims.create_missing(owner, step.ordinal)
        await self._pod_claims.update_owner_references(owner, step.ordinal, pod, condemned=False)
        labels, identity = pod["metadata"].get("labels") or {}, labels_of(owner, step.ordinal)
        if not identity.items() <= labels.items():
            target = (
                pod["metadata"]["name"],
                {"metadata": {"labels": identity}},
                pod["metadata"]["namespace"],
            )
            state.pods[step.ordinal] = await self._context.api.patch(PODS, *target)
            action = f"Update Pod {target[0]} in StatefulSet {owner['metadata']['name']} successful"
            self._context.recorder.normal(owner, "SuccessfulUpdate", action)

    async def _delete(self, state: StatefulSetState, step: StatefulSetStep) -> None:
        owner, pod = state.owner, state.pods[step.ordinal]
        metadata = pod["metadata"]
        action = f"Delete Pod {metadata['name']} in StatefulSet {owner['metadata']['name']}"
        await self._pod_claims.update_owner_references(
            owner, step.ordinal, pod, condemned=step.verb is StepKind.CONDEMN
        )
        try:
            await self._context.api.delete(
                PODS, metadata["name"], metadata["namespace"], precondition_uid=metadata["uid"]
            )
        except NotFound:
            return
        except ApiError as error:
            self._context.recorder.warning(
                owner, "FailedDelete", f"{action} failed error: {error.message}"
            )
            raise
        state.pods[step.ordinal] = {
            **pod,
            "metadata": {**metadata, "deletionTimestamp": self._context.timestamp()},
        }
        self._context.recorder.normal(owner, "SuccessfulDelete", f"{action} successful")
