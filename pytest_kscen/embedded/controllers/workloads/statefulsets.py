"""StatefulSets: pods with names and volumes that stay, brought up and taken down in order.

No volume is bound here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import follow
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
    """Hands for claims."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def provide(self, owner: Obj, ordinal: int) -> None:
        """Make the claims that a pod needs and does not have."""
        for claim in build_claims(owner, ordinal):
            metadata = claim["metadata"]
            there = self._claims.get(metadata["name"], metadata["namespace"])
            if there is None:
                await self._create(owner, ordinal, claim)
            elif there["metadata"].get("deletionTimestamp"):
                raise conflict(
                    PERSISTENT_VOLUME_CLAIMS,
                    metadata["name"],
                    f"pvc {metadata['name']} is being deleted",
                )

    async def _create(self, owner: Obj, ordinal: int, claim: Obj) -> None:
        what = (
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
                owner, "FailedCreate", f"{what} failed error: {error.message}"
            )
            raise
        self._context.recorder.normal(owner, "SuccessfulCreate", f"{what} success")

    async def bequeath(self, owner: Obj, ordinal: int, pod: Obj, *, condemned: bool) -> None:
        """Write on a pod's claims whose end is theirs, as the retention policy says."""
        wanted = _retention_owners(owner, pod, condemned=condemned)
        heirs = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
        for claim in build_claims(owner, ordinal):
            there = self._claims.get(claim["metadata"]["name"], claim["metadata"]["namespace"])
            if there is None:
                continue
            references = there["metadata"].get("ownerReferences") or []
            ours = [reference for reference in references if reference["uid"] in heirs]
            if [reference["uid"] for reference in ours] != [
                reference["uid"] for reference in wanted
            ]:
                kept = [reference for reference in references if reference["uid"] not in heirs]
                metadata = {**there["metadata"], "ownerReferences": [*kept, *wanted]}
                await self._context.api.update(
                    PERSISTENT_VOLUME_CLAIMS, {**there, "metadata": metadata}
                )


def _retention_owners(owner: Obj, pod: Obj | None, *, condemned: bool) -> list[Obj]:
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if condemned and pod and policy.get("whenScaled") == "Delete":
        return [reference_to(pod, PODS)]
    if policy.get("whenDeleted") == "Delete":
        return [reference_to(owner, STATEFUL_SETS)]
    return []


def status_of(view: StatefulSetState, collisions: int) -> Obj:
    owner, pods = view.owner, list(view.pods.values())
    current, update = view.current["metadata"]["name"], view.update["metadata"]["name"]
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
        "availableReplicas": sum(map(view.is_available, pods)),
    }


class StatefulSets:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._sets = context.informers.of(STATEFUL_SETS)
        pods = context.informers.of(PODS)
        revisions, volume_claims = map(
            context.informers.of, (CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS)
        )
        self._claims = ControllerRefManager(context, STATEFUL_SETS, PODS)
        self._revisions = Revisions(context, STATEFUL_SETS, "controller.kubernetes.io/hash")
        self._storage = StatefulSetClaims(context)
        self._controller = context.controller(
            self._reconcile, self._sets, pods, revisions, volume_claims
        )
        follow(self._controller, self._sets)
        OwnerEnqueuer(self._controller.enqueue, self._sets, pods)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        owner = self._sets.objects.get(ref)
        if owner is None:
            return None
        view, history, collisions = await self._look(owner)
        failure = None
        try:
            if not owner["metadata"].get("deletionTimestamp"):
                for step in list(plan_steps(view)):
                    match step.verb:
                        case StepKind.CREATE:
                            await self._create(view, step.ordinal)
                        case StepKind.KEEP:
                            await self._keep(view, step)
                        case StepKind.DELETE | StepKind.CONDEMN:
                            await self._delete(view, step)
        except ApiError as error:
            failure = error
        status = status_of(view, collisions)
        if status != owner.get("status"):
            await self._context.write_status(STATEFUL_SETS, owner, status)
        if failure and not in_terminating_namespace(failure):
            raise failure
        in_use = {
            *map(revision_of, view.pods.values()),
            status["currentRevision"],
            status["updateRevision"],
        }
        await self._revisions.forget(owner, history, in_use)
        min_ready = view.owner["spec"].get("minReadySeconds", 0)
        ready = filter(is_running_and_ready, view.pods.values())
        return min(
            (wait for pod in ready if (wait := seconds_until_available(pod, min_ready, view.now))),
            default=None,
        )

    async def _look(self, owner: Obj) -> tuple[StatefulSetState, list[Obj], int]:
        history = await self._revisions.of(owner)
        update, collisions = await self._revisions.latest(owner, history)
        named = (owner.get("status") or {}).get("currentRevision")
        current = next(
            (revision for revision in history if revision["metadata"]["name"] == named), update
        )
        claimed = await self._claims.of(
            owner, adoptable=lambda pod: ordinal_of(pod["metadata"]["name"], owner) is not None
        )
        numbered = {ordinal_of(pod["metadata"]["name"], owner): pod for pod in claimed}
        pods = {ordinal: pod for ordinal, pod in numbered.items() if ordinal is not None}
        return (
            StatefulSetState(owner, pods, current, update, self._context.now()),
            history,
            collisions,
        )

    async def _create(self, view: StatefulSetState, ordinal: int) -> None:
        owner, name = view.owner, name_of(view.owner, ordinal)
        what = f"Create Pod {name} in StatefulSet {owner['metadata']['name']}"
        await self._storage.provide(owner, ordinal)
        pod = build_pod(owner, ordinal, revision_for(view, ordinal))
        try:
            view.pods[ordinal] = await self._context.api.create(
                PODS, pod, owner["metadata"]["namespace"]
            )
        except AlreadyExists:
            raise
        except ApiError as error:
            self._context.recorder.warning(
                owner, "FailedCreate", f"{what} failed error: {error.message}"
            )
            raise
        self._context.recorder.normal(owner, "SuccessfulCreate", f"{what} successful")

    async def _keep(self, view: StatefulSetState, step: StatefulSetStep) -> None:
        owner, pod = view.owner, view.pods[step.ordinal]
        await self._storage.provide(owner, step.ordinal)
        await self._storage.bequeath(owner, step.ordinal, pod, condemned=False)
        labels, identity = pod["metadata"].get("labels") or {}, labels_of(owner, step.ordinal)
        if not identity.items() <= labels.items():
            place = (
                pod["metadata"]["name"],
                {"metadata": {"labels": identity}},
                pod["metadata"]["namespace"],
            )
            view.pods[step.ordinal] = await self._context.api.patch(PODS, *place)
            what = f"Update Pod {place[0]} in StatefulSet {owner['metadata']['name']} successful"
            self._context.recorder.normal(owner, "SuccessfulUpdate", what)

    async def _delete(self, view: StatefulSetState, step: StatefulSetStep) -> None:
        owner, pod = view.owner, view.pods[step.ordinal]
        metadata = pod["metadata"]
        what = f"Delete Pod {metadata['name']} in StatefulSet {owner['metadata']['name']}"
        await self._storage.bequeath(
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
                owner, "FailedDelete", f"{what} failed error: {error.message}"
            )
            raise
        view.pods[step.ordinal] = {
            **pod,
            "metadata": {**metadata, "deletionTimestamp": self._context.timestamp()},
        }
        self._context.recorder.normal(owner, "SuccessfulDelete", f"{what} successful")
