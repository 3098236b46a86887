"""What a Deployment says: its status after each look, and in between that it is paused, or has a new ReplicaSet or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import DEPLOYMENTS
from pytest_kscen.simulation.workloads.deployments import sets, status

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.workloads.deployments.rollout import Rollout
    from pytest_kscen.simulation.workloads.telling import Telling


class Voice:
    """Writes a Deployment's status."""

    def __init__(self, bench: Bench, telling: Telling) -> None:
        self._bench = bench
        self._telling = telling

    async def tell(self, rollout: Rollout, *, progress: bool = False) -> float | None:
        deployment, now = rollout.deployment, self._bench.now()
        told = status.with_availability(deployment, status.counts(deployment, rollout.new, rollout.everyone), now)
        if progress:
            told = status.with_progress(deployment, told, rollout.new, now)
            told = status.with_failure(told, rollout.new, rollout.everyone)
        if told != deployment.get("status"):
            rollout.deployment = await self._telling.tell(deployment, told)
        return (status.overdue_in(deployment, told, now) or None) if progress else None

    async def note_pause(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        progressing = condition(deployment, "Progressing")
        reason = progressing["reason"] if progressing else ""
        if not status.has_deadline(deployment) or reason == status.TIMED_OUT:
            return
        paused = bool(deployment["spec"].get("paused"))
        if paused != (reason == status.PAUSED[1]):
            await self._note(rollout, deployment, status.PAUSED if paused else status.RESUMED)

    async def note_new(self, rollout: Rollout, new: Obj, what: tuple[str, str] | None) -> None:
        """The newest revision's number on the Deployment, and that its ReplicaSet was made or found."""
        deployment, metadata = rollout.deployment, rollout.deployment["metadata"]
        revision = (new["metadata"].get("annotations") or {}).get(sets.REVISION, "")
        annotations = {**(metadata.get("annotations") or {}), sets.REVISION: revision}
        told = what and status.has_deadline(deployment)
        if told or annotations != metadata.get("annotations"):
            marked = {**deployment, "metadata": {**metadata, "annotations": annotations}}
            words = ("True", what[0], f'{what[1]} "{new["metadata"]["name"]}"') if what and told else None
            await self._note(rollout, marked, words)

    async def note_refusal(self, rollout: Rollout, message: str) -> None:
        await self._note(rollout, rollout.deployment, ("False", "ReplicaSetCreateError", message))
        self._bench.recorder.warning(rollout.deployment, "ReplicaSetCreateError", message)

    async def _note(self, rollout: Rollout, deployment: Obj, words: status.Words | None) -> None:
        told = deployment.get("status") or {}
        if words:
            told = status.with_condition(told, "Progressing", words, self._bench.now())
        rollout.deployment = await self._bench.api.update(DEPLOYMENTS, {**deployment, "status": told}, subresource="status")
