"""Roll out Deployments: one ReplicaSet per template, and pods moved from old sets to the new one.

Started by `actors`. Only ReplicaSets are written here; `replicasets` creates the pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, StatusWriter
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
    """Create, scale and delete a Deployment's ReplicaSets. Every result is stored in the
    rollout, and each scaling is recorded as an Event.
    """

    def __init__(self, context: ControllerContext, reporter: DeploymentReporter) -> None:
        self._context = context
        self._reporter = reporter

    async def sync_new_set(self, rollout: Rollout, *, create: bool) -> None:
        """Bring the annotations of the new ReplicaSet up to date. Create it if `create` is set
        and it does not exist.
        """
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
        await self._reporter.report_new_set(rollout, new, found)

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
            rollout.new = await self._resolve_name_collision(rollout, name)
        except ApiError as error:
            if not in_terminating_namespace(error):
                await self._reporter.report_create_error(
                    rollout, f'Failed to create new replica set "{name}": {error.message}'
                )
            raise
        else:
            if desired_replicas(rollout.new):
                message = f"Scaled up replica set {name} from 0 to {desired_replicas(rollout.new)}"
                self._context.recorder.normal(deployment, "ScalingReplicaSet", message)
        await self._reporter.report_new_set(
            rollout, rollout.new, ("NewReplicaSetCreated", "Created new replica set")
        )

    async def _resolve_name_collision(self, rollout: Rollout, name: str) -> Obj:
        """Return the existing ReplicaSet of this name if it has the template and the owner.

        Otherwise the hash has collided: count the collision in the status and raise AlreadyExists,
        so that the next attempt hashes anew.
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
        for replica_set, size in scaling:
            before, metadata = desired_replicas(replica_set), replica_set["metadata"]
            annotations = {
                **(metadata.get("annotations") or {}),
                **deployment_rollout.size_annotations(rollout.deployment),
            }
            if size == before and annotations == metadata.get("annotations"):
                continue
            scaled = await self._context.api.update(
                REPLICA_SETS,
                {
                    **replica_set,
                    "metadata": {**metadata, "annotations": annotations},
                    "spec": {**replica_set["spec"], "replicas": size},
                },
            )
            if size != before:
                direction = "up" if size > before else "down"
                message = (
                    f"Scaled {direction} replica set {metadata['name']} from {before} to {size}"
                )
                self._context.recorder.normal(rollout.deployment, "ScalingReplicaSet", message)
            rollout.old = [scaled if other is replica_set else other for other in rollout.old]
            rollout.new = scaled if rollout.new is replica_set else rollout.new

    async def delete_old_sets(self, rollout: Rollout) -> None:
        for replica_set in deployment_rollout.beyond_history_limit(rollout.deployment, rollout.old):
            try:
                await self._context.api.delete(
                    REPLICA_SETS,
                    replica_set["metadata"]["name"],
                    replica_set["metadata"]["namespace"],
                )
            except NotFound:
                continue


class Deployments(Reconciler):
    """Reconcile each Deployment: find its ReplicaSets, take one step of the rollout, write the
    status.

    A reconciliation takes one step only; the change that it makes enqueues the Deployment again.
    One that is paused or has just been resized is scaled, not rolled.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._deployments = context.informers.of(DEPLOYMENTS)
        self._sets = context.informers.of(REPLICA_SETS)
        self._pods = context.informers.of(PODS)
        self._pods_of = controller_index(self._pods)
        self._ref_manager = ControllerRefManager(context, DEPLOYMENTS, REPLICA_SETS)
        super().__init__(context, self._deployments, self._sets, self._pods)
        self._reporter = DeploymentReporter(
            context, StatusWriter(context, self._controller, DEPLOYMENTS)
        )
        self._set_writer = ReplicaSetWriter(context, self._reporter)
        OwnerEnqueuer(self._controller.enqueue, self._deployments, self._sets)

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            """Enqueue a Recreate Deployment when one of its pods is gone. Its new set waits for the
            last old pod.
            """
            if new is not None or not (reference := controller_of(old)) or old is None:
                return
            owner = controller_of(self._sets.get(reference["name"], old["metadata"]["namespace"]))
            deployment = owner and self._deployments.get(
                owner["name"], old["metadata"]["namespace"]
            )
            if deployment and not deployment_rollout.is_rolling(deployment):
                self._controller.enqueue(Ref.of(deployment))

        self._pods.on_change(pod_changed)

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
        replica_sets = deployment_rollout.by_age(await self._ref_manager.claim(deployment))
        new = deployment_rollout.find_new_set(deployment, replica_sets)
        rollout = Rollout(
            deployment, [replica_set for replica_set in replica_sets if replica_set is not new], new
        )
        if deployment["metadata"].get("deletionTimestamp"):
            return await self._reporter.write_status(rollout)
        await self._reporter.report_pause(rollout)
        size = str(desired_replicas(rollout.deployment))
        active = (
            replica_set["metadata"].get("annotations") or {}
            for replica_set in rollout.all_sets
            if desired_replicas(replica_set)
        )
        if deployment["spec"].get("paused") or any(
            annotations.get(deployment_rollout.DESIRED_REPLICAS, size) != size
            for annotations in active
        ):
            await self._set_writer.sync_new_set(rollout, create=False)
            await self._set_writer.scale(rollout, self._plan_scaling(rollout))
            if rollout.deployment["spec"].get("paused"):
                await self._set_writer.delete_old_sets(rollout)
            return await self._reporter.write_status(rollout)
        return await (
            self._roll(rollout)
            if deployment_rollout.is_rolling(deployment)
            else self._recreate(rollout)
        )

    async def _roll(self, rollout: Rollout) -> float | None:
        """Grow the new set as far as the surge allows; otherwise shrink old sets as far as
        availability allows.
        """
        await self._set_writer.sync_new_set(rollout, create=True)
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            return None
        size = min(
            desired_replicas(deployment),
            deployment_rollout.new_set_size(
                deployment, desired_replicas(new), sum(map(desired_replicas, rollout.all_sets))
            ),
        )
        await self._set_writer.scale(
            rollout,
            [(new, size)]
            if size != desired_replicas(new)
            else deployment_rollout.scale_down_old(deployment, new, rollout.old),
        )
        return await self._finish_step(rollout)

    async def _recreate(self, rollout: Rollout) -> float | None:
        """Scale old sets to 0, and create the new set only after the last old pod is gone."""
        await self._set_writer.sync_new_set(rollout, create=False)
        if active := [replica_set for replica_set in rollout.old if desired_replicas(replica_set)]:
            await self._set_writer.scale(rollout, [(replica_set, 0) for replica_set in active])
        elif not any(
            not is_finished(pod)
            for replica_set in rollout.old
            for pod in self._pods_of.of(replica_set["metadata"]["uid"])
        ):
            await self._set_writer.sync_new_set(rollout, create=True)
            if rollout.new and desired_replicas(rollout.new) != desired_replicas(
                rollout.deployment
            ):
                await self._set_writer.scale(
                    rollout, [(rollout.new, desired_replicas(rollout.deployment))]
                )
        return await self._finish_step(rollout)

    def _plan_scaling(self, rollout: Rollout) -> deployment_rollout.Scaling:
        deployment, new = rollout.deployment, rollout.new
        active = [replica_set for replica_set in rollout.all_sets if desired_replicas(replica_set)]
        if len(active) <= 1:
            latest = active or ([new] if new else rollout.old[-1:])
            return [(replica_set, desired_replicas(deployment)) for replica_set in latest]
        if new and deployment_rollout.is_saturated(deployment, new):
            return [(replica_set, 0) for replica_set in active if replica_set is not new]
        return (
            deployment_rollout.scale_proportionally(deployment, active)
            if deployment_rollout.is_rolling(deployment)
            else []
        )

    async def _finish_step(self, rollout: Rollout) -> float | None:
        again = await self._reporter.write_status(rollout, progress=True)
        if deployment_status.is_complete(rollout.deployment, rollout.deployment["status"]):
            await self._set_writer.delete_old_sets(rollout)
        return again
