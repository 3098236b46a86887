"""Hands for a Deployment's ReplicaSets: find or make the new one, scale, and forget the old ones beyond the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import DEPLOYMENTS, REPLICA_SETS
from pytest_kscen.simulation.workloads.deployments import sets
from pytest_kscen.simulation.workloads.deployments.rolling import wanted
from pytest_kscen.simulation.workloads.owners import is_controlled_by
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.workloads.deployments import rolling
    from pytest_kscen.simulation.workloads.deployments.rollout import Rollout
    from pytest_kscen.simulation.workloads.deployments.voice import Voice


class Hands:
    """What they change they write into the rollout as well."""

    def __init__(self, bench: Bench, voice: Voice) -> None:
        self._bench = bench
        self._voice = voice

    async def find_new(self, rollout: Rollout, *, create: bool) -> None:
        """Bring what is written on the new ReplicaSet up to date, or make it if it is wanted."""
        if rollout.new is None:
            if create:
                await self._create(rollout)
            return
        deployment, new = rollout.deployment, rollout.new
        annotations = sets.annotated(deployment, new, rollout.revision)
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if annotations != (new["metadata"].get("annotations") or {}) or min_ready != new["spec"].get("minReadySeconds", 0):
            changed = {"metadata": {**new["metadata"], "annotations": annotations}}
            new = {**new, **changed, "spec": {**new["spec"], "minReadySeconds": min_ready}}
            rollout.new = new = await self._bench.api.update(REPLICA_SETS, new)
        found = None if condition(deployment, "Progressing") else ("FoundNewReplicaSet", "Found new replica set")
        await self._voice.note_new(rollout, new, found)

    async def _create(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        new = sets.build(deployment, rollout.revision, sum(map(wanted, rollout.old)))
        name = new["metadata"]["name"]
        try:
            rollout.new = await self._bench.api.create(REPLICA_SETS, new, deployment["metadata"]["namespace"])
        except AlreadyExists:
            rollout.new = await self._claim_namesake(rollout, name)
        except ApiError as error:
            if not in_terminating_namespace(error):
                await self._voice.note_refusal(rollout, f'Failed to create new replica set "{name}": {error.message}')
            raise
        else:
            if wanted(rollout.new):
                message = f"Scaled up replica set {name} from 0 to {wanted(rollout.new)}"
                self._bench.recorder.normal(deployment, "ScalingReplicaSet", message)
        await self._voice.note_new(rollout, rollout.new, ("NewReplicaSetCreated", "Created new replica set"))

    async def _claim_namesake(self, rollout: Rollout, name: str) -> Obj:
        """The ReplicaSet that has our name already: ours, or the hash has collided and is drawn again."""
        deployment = rollout.deployment
        found = await self._bench.api.get(REPLICA_SETS, name, deployment["metadata"]["namespace"])
        template = deployment["spec"]["template"]
        if is_controlled_by(found, deployment) and sets.same_template(found["spec"]["template"], template):
            return found
        old = deployment.get("status") or {}
        collided = {**old, "collisionCount": old.get("collisionCount", 0) + 1}
        await self._bench.write_status(DEPLOYMENTS, deployment, collided)
        raise AlreadyExists(f'replicasets.apps "{name}" already exists')

    async def scale(self, rollout: Rollout, scaling: rolling.Scaling) -> None:
        for member, size in scaling:
            scaled = await self._scale_one(rollout.deployment, member, size)
            rollout.old = [scaled if other is member else other for other in rollout.old]
            rollout.new = scaled if rollout.new is member else rollout.new

    async def _scale_one(self, deployment: Obj, member: Obj, size: int) -> Obj:
        before, name = wanted(member), member["metadata"]["name"]
        annotations = {**(member["metadata"].get("annotations") or {}), **sets.sizes(deployment)}
        if size == before and annotations == member["metadata"].get("annotations"):
            return member
        metadata = {**member["metadata"], "annotations": annotations}
        scaled = await self._bench.api.update(
            REPLICA_SETS, {**member, "metadata": metadata, "spec": {**member["spec"], "replicas": size}}
        )
        if size != before:
            direction = "up" if size > before else "down"
            message = f"Scaled {direction} replica set {name} from {before} to {size}"
            self._bench.recorder.normal(deployment, "ScalingReplicaSet", message)
        return scaled

    async def forget_old(self, rollout: Rollout) -> None:
        for member in sets.outdated(rollout.deployment, rollout.old):
            try:
                await self._bench.api.delete(REPLICA_SETS, member["metadata"]["name"], member["metadata"]["namespace"])
            except NotFound:
                continue
