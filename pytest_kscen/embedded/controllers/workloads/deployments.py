"""Deployments: one ReplicaSet for each template, and pods moved from the old ones to the new one.

No pod is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import StatusWriter
from pytest_kscen.embedded.controllers.ownership import (
    ControllerRefManager,
    OwnerEnqueuer,
    controller_index,
    controller_of,
    is_controlled_by,
)
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.pod_state import is_finished
from pytest_kscen.embedded.controllers.workloads import deployment_rollout, deployment_status
from pytest_kscen.embedded.controllers.workloads.deployment_rollout import Rollout, desired_replicas
from pytest_kscen.embedded.controllers.workloads.deployment_status import DeploymentReporter
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import DEPLOYMENTS, PODS, REPLICA_SETS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


class ReplicaSetWriter:
    """What they change they write into the rollout as well."""

    def __init__(self, context: ControllerContext, voice: DeploymentReporter) -> None:
        self._context = context
        self._voice = voice

    async def find_new(self, rollout: Rollout, *, create: bool) -> None:
        """Bring what is written on the new ReplicaSet up to date, or make it if it is wanted."""
        if rollout.new is None:
            if create:
                await self._create(rollout)
            return
        deployment, new = rollout.deployment, rollout.new
        annotations = deployment_rollout.new_set_annotations(deployment, new, rollout.revision)
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if annotations != (new["metadata"].get("annotations") or {}) or min_ready != new[
            "spec"
        ].get("minReadySeconds", 0):
            changed = {"metadata": {**new["metadata"], "annotations": annotations}}
            new = {**new, **changed, "spec": {**new["spec"], "minReadySeconds": min_ready}}
            rollout.new = new = await self._context.api.update(REPLICA_SETS, new)
        found = (
            None
            if condition(deployment, "Progressing")
            else ("FoundNewReplicaSet", "Found new replica set")
        )
        await self._voice.note_new(rollout, new, found)

    async def _create(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        new = deployment_rollout.build_replica_set(
            deployment, rollout.revision, sum(map(desired_replicas, rollout.old))
        )
        name = new["metadata"]["name"]
        try:
            rollout.new = await self._context.api.create(
                REPLICA_SETS, new, deployment["metadata"]["namespace"]
            )
        except AlreadyExists:
            rollout.new = await self._claim_namesake(rollout, name)
        except ApiError as error:
            if not in_terminating_namespace(error):
                await self._voice.note_refusal(
                    rollout, f'Failed to create new replica set "{name}": {error.message}'
                )
            raise
        else:
            if desired_replicas(rollout.new):
                message = f"Scaled up replica set {name} from 0 to {desired_replicas(rollout.new)}"
                self._context.recorder.normal(deployment, "ScalingReplicaSet", message)
        await self._voice.note_new(
            rollout, rollout.new, ("NewReplicaSetCreated", "Created new replica set")
        )

    async def _claim_namesake(self, rollout: Rollout, name: str) -> Obj:
        """The ReplicaSet that has our name already: ours, or the hash has collided and is drawn
        again.
        """
        deployment = rollout.deployment
        found = await self._context.api.get(REPLICA_SETS, name, deployment["metadata"]["namespace"])
        template = deployment["spec"]["template"]
        if is_controlled_by(found, deployment) and deployment_rollout.same_template(
            found["spec"]["template"], template
        ):
            return found
        old = deployment.get("status") or {}
        collided = {**old, "collisionCount": old.get("collisionCount", 0) + 1}
        await self._context.write_status(DEPLOYMENTS, deployment, collided)
        raise AlreadyExists(f'replicasets.apps "{name}" already exists')

    async def scale(self, rollout: Rollout, scaling: deployment_rollout.Scaling) -> None:
        for member, size in scaling:
            scaled = await self._scale_one(rollout.deployment, member, size)
            rollout.old = [scaled if other is member else other for other in rollout.old]
            rollout.new = scaled if rollout.new is member else rollout.new

    async def _scale_one(self, deployment: Obj, member: Obj, size: int) -> Obj:
        before, name = desired_replicas(member), member["metadata"]["name"]
        annotations = {
            **(member["metadata"].get("annotations") or {}),
            **deployment_rollout.size_annotations(deployment),
        }
        if size == before and annotations == member["metadata"].get("annotations"):
            return member
        metadata = {**member["metadata"], "annotations": annotations}
        scaled = await self._context.api.update(
            REPLICA_SETS,
            {**member, "metadata": metadata, "spec": {**member["spec"], "replicas": size}},
        )
        if size != before:
            direction = "up" if size > before else "down"
            message = f"Scaled {direction} replica set {name} from {before} to {size}"
            self._context.recorder.normal(deployment, "ScalingReplicaSet", message)
        return scaled

    async def forget_old(self, rollout: Rollout) -> None:
        for member in deployment_rollout.beyond_history_limit(rollout.deployment, rollout.old):
            try:
                await self._context.api.delete(
                    REPLICA_SETS, member["metadata"]["name"], member["metadata"]["namespace"]
                )
            except NotFound:
                continue


class Deployments:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deployments = context.informers.of(DEPLOYMENTS)
        self._sets = context.informers.of(REPLICA_SETS)
        self._pods = context.informers.of(PODS)
        self._pods_of = controller_index(self._pods)
        self._claims = ControllerRefManager(context, DEPLOYMENTS, REPLICA_SETS)
        self._controller = context.controller(
            self._reconcile, self._deployments, self._sets, self._pods
        )
        self._voice = DeploymentReporter(
            context, StatusWriter(context, self._controller, DEPLOYMENTS)
        )
        self._hands = ReplicaSetWriter(context, self._voice)
        OwnerEnqueuer(self._controller.enqueue, self._deployments, self._sets)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        """A Deployment that recreates waits for its last old pod to go."""
        if new is not None or not (reference := controller_of(old)) or old is None:
            return
        owner = controller_of(self._sets.get(reference["name"], old["metadata"]["namespace"]))
        deployment = owner and self._deployments.get(owner["name"], old["metadata"]["namespace"])
        if deployment and not deployment_rollout.is_rolling(deployment):
            self._controller.enqueue(Ref.of(deployment))

    async def _reconcile(self, ref: Ref) -> float | None:
        deployment = self._deployments.objects.get(ref)
        if deployment is None:
            return None
        if deployment["spec"].get("selector") == {}:
            self._context.recorder.warning(
                deployment,
                "SelectingAll",
                "This deployment is selecting all pods. A non-empty selector is required.",
            )
            return None
        members = deployment_rollout.by_age(await self._claims.of(deployment))
        new = deployment_rollout.find_new_set(deployment, members)
        rollout = Rollout(deployment, [member for member in members if member is not new], new)
        if deployment["metadata"].get("deletionTimestamp"):
            return await self._voice.tell(rollout)
        await self._voice.note_pause(rollout)
        if deployment["spec"].get("paused") or self._was_resized(rollout):
            await self._hands.find_new(rollout, create=False)
            await self._hands.scale(rollout, self._resized(rollout))
            if rollout.deployment["spec"].get("paused"):
                await self._hands.forget_old(rollout)
            return await self._voice.tell(rollout)
        return await (
            self._roll(rollout)
            if deployment_rollout.is_rolling(deployment)
            else self._recreate(rollout)
        )

    async def _roll(self, rollout: Rollout) -> float | None:
        """Grow the new set as far as the surge allows, else shrink the old ones as far as
        availability allows.
        """
        await self._hands.find_new(rollout, create=True)
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            return None
        size = min(
            desired_replicas(deployment),
            deployment_rollout.new_set_size(
                deployment, desired_replicas(new), sum(map(desired_replicas, rollout.everyone))
            ),
        )
        await self._hands.scale(
            rollout,
            [(new, size)]
            if size != desired_replicas(new)
            else deployment_rollout.scale_down_old(deployment, new, rollout.old),
        )
        return await self._settle(rollout)

    async def _recreate(self, rollout: Rollout) -> float | None:
        """Nothing of the new while there is anything of the old."""
        await self._hands.find_new(rollout, create=False)
        if active := [member for member in rollout.old if desired_replicas(member)]:
            await self._hands.scale(rollout, [(member, 0) for member in active])
        elif not self._has_old_pods(rollout):
            await self._hands.find_new(rollout, create=True)
            if rollout.new and desired_replicas(rollout.new) != desired_replicas(
                rollout.deployment
            ):
                await self._hands.scale(
                    rollout, [(rollout.new, desired_replicas(rollout.deployment))]
                )
        return await self._settle(rollout)

    def _resized(self, rollout: Rollout) -> deployment_rollout.Scaling:
        deployment, new = rollout.deployment, rollout.new
        active = [member for member in rollout.everyone if desired_replicas(member)]
        if len(active) <= 1:
            latest = active or ([new] if new else rollout.old[-1:])
            return [(member, desired_replicas(deployment)) for member in latest]
        if new and deployment_rollout.is_saturated(deployment, new):
            return [(member, 0) for member in active if member is not new]
        return (
            deployment_rollout.scale_proportionally(deployment, active)
            if deployment_rollout.is_rolling(deployment)
            else []
        )

    async def _settle(self, rollout: Rollout) -> float | None:
        again = await self._voice.tell(rollout, progress=True)
        if deployment_status.is_complete(rollout.deployment, rollout.deployment["status"]):
            await self._hands.forget_old(rollout)
        return again

    def _was_resized(self, rollout: Rollout) -> bool:
        size = str(desired_replicas(rollout.deployment))
        active = (
            member["metadata"].get("annotations") or {}
            for member in rollout.everyone
            if desired_replicas(member)
        )
        return any(
            annotations.get(deployment_rollout.DESIRED_REPLICAS, size) != size
            for annotations in active
        )

    def _has_old_pods(self, rollout: Rollout) -> bool:
        return any(
            not is_finished(pod)
            for member in rollout.old
            for pod in self._pods_of.of(member["metadata"]["uid"])
        )
