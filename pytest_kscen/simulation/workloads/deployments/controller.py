"""The life of a Deployment: find or make the ReplicaSet of its template, take one step of the rollout, tell how it stands.

Each look takes one step only; what the step changes brings the Deployment back. A Deployment that is paused, or whose
size has just changed, is scaled but not rolled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads.claims import Claims
from pytest_kscen.simulation.workloads.deployments import rolling, sets, status
from pytest_kscen.simulation.workloads.deployments.rolling import wanted
from pytest_kscen.simulation.workloads.owners import Dependents, controlled, controller_of, is_controlled_by
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace
from pytest_kscen.simulation.workloads.podstate import is_finished

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


@dataclass(slots=True)
class Rollout:
    """One look at a Deployment: what it wants and what there is."""

    deployment: Obj
    old: list[Obj]
    new: Obj | None

    @property
    def everyone(self) -> list[Obj]:
        return [*self.old, *([self.new] if self.new else [])]

    @property
    def revision(self) -> int:
        """The number that the newest template should have."""
        return max(map(sets.revision_of, self.old), default=0) + 1


class Deployments:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._deployments = bench.informers.of(DEPLOYMENTS)
        self._sets = bench.informers.of(REPLICA_SETS)
        self._pods = bench.informers.of(PODS)
        self._pods_of = controlled(self._pods)
        self._claims = Claims(bench, DEPLOYMENTS, REPLICA_SETS)
        self._controller = bench.controller(self._reconcile, self._deployments, self._sets, self._pods)
        follow(self._controller, self._deployments)
        Dependents(self._controller.enqueue, self._deployments, self._sets)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        """A Deployment that recreates waits for its last old pod to go."""
        if new is not None or not (reference := controller_of(old)) or old is None:
            return
        owner = controller_of(self._sets.get(reference["name"], old["metadata"]["namespace"]))
        deployment = owner and self._deployments.get(owner["name"], old["metadata"]["namespace"])
        if deployment and not rolling.is_rolling(deployment):
            self._controller.enqueue(Ref.of(deployment))

    async def _reconcile(self, ref: Ref) -> float | None:
        deployment = self._deployments.objects.get(ref)
        if deployment is None:
            return None
        if deployment["spec"].get("selector") == {}:
            self._bench.recorder.warning(
                deployment, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required."
            )
            return None
        members = sets.by_age(await self._claims.of(deployment))
        new = sets.newest(deployment, members)
        rollout = Rollout(deployment, [member for member in members if member is not new], new)
        if deployment["metadata"].get("deletionTimestamp"):
            return await self._tell(rollout)
        await self._note_pause(rollout)
        if deployment["spec"].get("paused") or self._was_resized(rollout):
            return await self._resize(rollout)
        return await (self._roll(rollout) if rolling.is_rolling(deployment) else self._recreate(rollout))

    # --- the kinds of steps ---

    async def _roll(self, rollout: Rollout) -> float | None:
        """Grow the new set as far as the surge allows, else shrink the old ones as far as availability allows."""
        await self._find_new(rollout, create=True)
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            return None
        size = min(wanted(deployment), rolling.size_of_new(deployment, wanted(new), sum(map(wanted, rollout.everyone))))
        await self._scale(rollout, [(new, size)] if size != wanted(new) else rolling.shrink_old(deployment, new, rollout.old))
        return await self._settle(rollout)

    async def _recreate(self, rollout: Rollout) -> float | None:
        """Nothing of the new while there is anything of the old."""
        await self._find_new(rollout, create=False)
        if active := [member for member in rollout.old if wanted(member)]:
            await self._scale(rollout, [(member, 0) for member in active])
        elif not self._has_old_pods(rollout):
            await self._find_new(rollout, create=True)
            if rollout.new and wanted(rollout.new) != wanted(rollout.deployment):
                await self._scale(rollout, [(rollout.new, wanted(rollout.deployment))])
        return await self._settle(rollout)

    async def _resize(self, rollout: Rollout) -> float | None:
        await self._find_new(rollout, create=False)
        await self._scale(rollout, self._resized(rollout))
        if rollout.deployment["spec"].get("paused"):
            await self._forget_old(rollout)
        return await self._tell(rollout)

    def _resized(self, rollout: Rollout) -> rolling.Scaling:
        deployment, new = rollout.deployment, rollout.new
        active = [member for member in rollout.everyone if wanted(member)]
        if len(active) <= 1:
            latest = active or ([new] if new else rollout.old[-1:])
            return [(member, wanted(deployment)) for member in latest]
        if new and rolling.is_saturated(deployment, new):
            return [(member, 0) for member in active if member is not new]
        return rolling.spread(deployment, active) if rolling.is_rolling(deployment) else []

    async def _settle(self, rollout: Rollout) -> float | None:
        if status.is_complete(rollout.deployment, {"observedGeneration": 0, **(rollout.deployment.get("status") or {})}):
            await self._forget_old(rollout)
        return await self._tell(rollout, progress=True)

    # --- looking ---

    def _was_resized(self, rollout: Rollout) -> bool:
        size = str(wanted(rollout.deployment))
        active = (member["metadata"].get("annotations") or {} for member in rollout.everyone if wanted(member))
        return any(annotations.get(rolling.DESIRED, size) != size for annotations in active)

    def _has_old_pods(self, rollout: Rollout) -> bool:
        return any(not is_finished(pod) for member in rollout.old for pod in self._pods_of.of(member["metadata"]["uid"]))

    # --- acting ---

    async def _find_new(self, rollout: Rollout, *, create: bool) -> None:
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
        await self._note_new(rollout, new, found)

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
                await self._note_refusal(rollout, f'Failed to create new replica set "{name}": {error.message}')
            raise
        else:
            if wanted(rollout.new):
                message = f"Scaled up replica set {name} from 0 to {wanted(rollout.new)}"
                self._bench.recorder.normal(deployment, "ScalingReplicaSet", message)
        await self._note_new(rollout, rollout.new, ("NewReplicaSetCreated", "Created new replica set"))

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

    async def _scale(self, rollout: Rollout, scaling: rolling.Scaling) -> None:
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

    async def _forget_old(self, rollout: Rollout) -> None:
        for member in sets.outdated(rollout.deployment, rollout.old):
            try:
                await self._bench.api.delete(REPLICA_SETS, member["metadata"]["name"], member["metadata"]["namespace"])
            except NotFound:
                continue

    # --- telling ---

    async def _tell(self, rollout: Rollout, *, progress: bool = False) -> float | None:
        deployment, now = rollout.deployment, self._bench.now()
        told = status.with_availability(deployment, status.counts(deployment, rollout.new, rollout.everyone), now)
        if progress:
            told = status.with_progress(deployment, told, rollout.new, now)
            told = status.with_failure(told, rollout.new, rollout.everyone)
        if told != deployment.get("status"):
            rollout.deployment = await self._bench.write_status(DEPLOYMENTS, deployment, told)
        return (status.overdue_in(deployment, told, now) or None) if progress else None

    async def _note_pause(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        progressing = condition(deployment, "Progressing")
        reason = progressing["reason"] if progressing else ""
        if not status.has_deadline(deployment) or reason == status.TIMED_OUT:
            return
        paused = bool(deployment["spec"].get("paused"))
        if paused != (reason == status.PAUSED[1]):
            await self._note(rollout, deployment, status.PAUSED if paused else status.RESUMED)

    async def _note_new(self, rollout: Rollout, new: Obj, what: tuple[str, str] | None) -> None:
        """The newest revision's number on the Deployment, and that its ReplicaSet was made or found."""
        deployment, metadata = rollout.deployment, rollout.deployment["metadata"]
        revision = (new["metadata"].get("annotations") or {}).get(sets.REVISION, "")
        annotations = {**(metadata.get("annotations") or {}), sets.REVISION: revision}
        told = what and status.has_deadline(deployment)
        if told or annotations != metadata.get("annotations"):
            marked = {**deployment, "metadata": {**metadata, "annotations": annotations}}
            words = ("True", what[0], f'{what[1]} "{new["metadata"]["name"]}"') if what and told else None
            await self._note(rollout, marked, words)

    async def _note_refusal(self, rollout: Rollout, message: str) -> None:
        await self._note(rollout, rollout.deployment, ("False", "ReplicaSetCreateError", message))
        self._bench.recorder.warning(rollout.deployment, "ReplicaSetCreateError", message)

    async def _note(self, rollout: Rollout, deployment: Obj, words: status.Words | None) -> None:
        told = deployment.get("status") or {}
        if words:
            told = status.with_condition(told, "Progressing", words, self._bench.now())
        rollout.deployment = await self._bench.api.update(DEPLOYMENTS, {**deployment, "status": told}, subresource="status")
