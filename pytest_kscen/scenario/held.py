"""How a scheduler that knows nothing of scenarios sees one pod after the other: all are made with a scheduling gate of ours.

A pod's gate is opened when it is its turn, by priority and then by arrival, and nobody is looked at any more. It cannot be
closed again: the scheduler's whole process stands still where that would matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.picture import Ref
from pytest_kscen.kube.requests import STRATEGIC_PATCH
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import GROUP
from pytest_kscen.scenario.schedulers import DEFAULT, scheduler_of

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj

HELD = f"{GROUP}/held"


class HeldPods:
    """Those that wait for their turn."""

    def __init__(self, api: Api, pods: Informer) -> None:
        self._api = api
        self._pods = pods
        self._arrived: dict[str, int] = {}
        self._count = 0
        pods.on_change(self._changed)

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        if new is None and old is not None:
            self._arrived.pop(old["metadata"]["uid"], None)
        elif new is not None and new["metadata"]["uid"] not in self._arrived:
            self._count += 1
            self._arrived[new["metadata"]["uid"]] = self._count

    async def release_next(self) -> bool:
        """Open the gate of whoever is next; False if nobody waits."""
        waiting = [pod for pod in self._pods if gates_of(pod) == [HELD] and not pod["metadata"].get("deletionTimestamp")]
        if not waiting:
            return False
        pod = min(waiting, key=self._turn)
        try:
            released = await self._release(pod)
        except NotFound:
            await self._pods.lost(Ref.of(pod), pod["metadata"]["uid"])
        else:
            await self._pods.reached(released["metadata"]["resourceVersion"])
        return True

    async def release_all(self) -> None:
        """Nobody plays any more: every gate of ours is opened, whether or not its pod was heard of."""
        refused: ApiError | None = None
        for pod in (await self._api.list(PODS)).items:
            if HELD in gates_of(pod):
                try:
                    await self._release(pod)
                except NotFound:
                    continue
                except ApiError as error:
                    refused = error
        if refused:
            raise refused

    async def _release(self, pod: Obj) -> Obj:
        metadata = pod["metadata"]
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": HELD}]}}
        return await self._api.patch(PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH)

    def _turn(self, pod: Obj) -> tuple[int, int]:
        return -int(pod["spec"].get("priority") or 0), self._arrived[pod["metadata"]["uid"]]


def gates_of(pod: Obj) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def held(pod: Obj) -> list[Obj]:
    """The JSON patch that makes a new pod wait for its turn; nothing for one that has a node, or another scheduler."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName") or scheduler_of(pod) != DEFAULT:
        return []
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [*(spec.get("schedulingGates") or ()), {"name": HELD}]}]
