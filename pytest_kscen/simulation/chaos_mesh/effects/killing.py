"""pod-kill: the pod is deleted, and it is done when the API has forgotten it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.chaos_mesh.effects.effect import GONE, Gone, Wait

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.chaos_mesh.targets import Target


class PodKill:
    """What it has asked for is remembered, so that nobody else's deletion passes for its own."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked: dict[str, dict[Target, None]] = {}

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:
        asked = self._asked.setdefault(chaos["metadata"]["uid"], {})
        if target in asked:
            return Wait() if pod else None
        if pod is None:
            return GONE
        grace = chaos["spec"].get("gracePeriod") or 0
        try:
            await self._bench.api.plain.delete(
                PODS, target.pod, target.namespace, grace_period=grace, precondition_uid=pod["metadata"]["uid"]
            )
        except (NotFound, Conflict):
            return GONE
        asked[target] = None
        return Wait()

    def unseen(self, chaos: Obj, target: Target) -> str:  # noqa: ARG002  # it was seen to be gone
        return ""

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> Wait | Gone | None:  # noqa: ARG002  # nothing brings it back
        self._asked.get(chaos["metadata"]["uid"], {}).pop(target, None)
        return None

    def forget(self, chaos: Obj) -> None:
        self._asked.pop(chaos["metadata"]["uid"], None)
