"""The life of a Deployment: find or make the ReplicaSet of its template, take one step of the rollout, tell how it stands.

Each look takes one step only; what the step changes brings the Deployment back. A Deployment that is paused, or whose
size has just changed, is scaled but not rolled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from pytest_kscen.simulation.workloads.claims import Claims
from pytest_kscen.simulation.workloads.deployments import rolling, sets, status
from pytest_kscen.simulation.workloads.deployments.hands import Hands
from pytest_kscen.simulation.workloads.deployments.rolling import wanted
from pytest_kscen.simulation.workloads.deployments.rollout import Rollout
from pytest_kscen.simulation.workloads.deployments.voice import Voice
from pytest_kscen.simulation.workloads.owners import Dependents, controlled, controller_of
from pytest_kscen.simulation.workloads.podstate import is_finished
from pytest_kscen.simulation.workloads.telling import Telling

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


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
        self._voice = Voice(bench, Telling(bench, self._controller, DEPLOYMENTS))
        self._hands = Hands(bench, self._voice)
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
            return await self._voice.tell(rollout)
        await self._voice.note_pause(rollout)
        if deployment["spec"].get("paused") or self._was_resized(rollout):
            return await self._resize(rollout)
        return await (self._roll(rollout) if rolling.is_rolling(deployment) else self._recreate(rollout))

    # --- the kinds of steps ---

    async def _roll(self, rollout: Rollout) -> float | None:
        """Grow the new set as far as the surge allows, else shrink the old ones as far as availability allows."""
        await self._hands.find_new(rollout, create=True)
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            return None
        size = min(wanted(deployment), rolling.size_of_new(deployment, wanted(new), sum(map(wanted, rollout.everyone))))
        await self._hands.scale(rollout, [(new, size)] if size != wanted(new) else rolling.shrink_old(deployment, new, rollout.old))
        return await self._settle(rollout)

    async def _recreate(self, rollout: Rollout) -> float | None:
        """Nothing of the new while there is anything of the old."""
        await self._hands.find_new(rollout, create=False)
        if active := [member for member in rollout.old if wanted(member)]:
            await self._hands.scale(rollout, [(member, 0) for member in active])
        elif not self._has_old_pods(rollout):
            await self._hands.find_new(rollout, create=True)
            if rollout.new and wanted(rollout.new) != wanted(rollout.deployment):
                await self._hands.scale(rollout, [(rollout.new, wanted(rollout.deployment))])
        return await self._settle(rollout)

    async def _resize(self, rollout: Rollout) -> float | None:
        await self._hands.find_new(rollout, create=False)
        await self._hands.scale(rollout, self._resized(rollout))
        if rollout.deployment["spec"].get("paused"):
            await self._hands.forget_old(rollout)
        return await self._voice.tell(rollout)

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
        again = await self._voice.tell(rollout, progress=True)
        if status.is_complete(rollout.deployment, rollout.deployment["status"]):
            await self._hands.forget_old(rollout)
        return again

    # --- looking ---

    def _was_resized(self, rollout: Rollout) -> bool:
        size = str(wanted(rollout.deployment))
        active = (member["metadata"].get("annotations") or {} for member in rollout.everyone if wanted(member))
        return any(annotations.get(rolling.DESIRED, size) != size for annotations in active)

    def _has_old_pods(self, rollout: Rollout) -> bool:
        return any(not is_finished(pod) for member in rollout.old for pod in self._pods_of.of(member["metadata"]["uid"]))
