"""Pods' statuses on their way to the API: what has changed is written, newest state only, while the machine is reachable."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, Conflict, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.simulation.kubelet.kubelet import Kubelet
    from pytest_kscen.simulation.kubelet.pod import PodLife

logger = logging.getLogger(__name__)

RETRY, REFUSED_RETRY = 1.0, 10.0
PASSING = (429, 500, 503, 504)


class Statuses:
    """The writer of one kubelet; it lives while there is something to write."""

    def __init__(self, host: Kubelet) -> None:
        self._host = host
        self._changed: dict[PodLife, None] = {}
        self._task: asyncio.Task[None] | None = None

    def mark(self, pod: PodLife) -> None:
        """This pod's status is not what it was."""
        self._changed[pod] = None
        self.flush()

    def flush(self) -> None:
        """Write what has changed, if the API is within reach."""
        if self._changed and self._host.machine.reachable and (self._task is None or self._task.done()):
            self._task = self._host.brood.start(self._write_all(), f"pod statuses of {self._host.machine.name}")

    def clear(self) -> None:
        """Nothing of this is true any more."""
        self._changed.clear()

    async def _write_all(self) -> None:
        await self._host.clock.sleep(0)  # what else happens in this instant is told with it
        while self._changed and self._host.machine.reachable:
            pod = next(iter(self._changed))
            del self._changed[pod]
            try:
                await self._write(pod)
            except (ApiError, OSError) as error:
                logger.warning("%s: the status of %s/%s: %s", self._host.machine.name, pod.namespace, pod.name, error)
                if may_pass(error):
                    self._changed[pod] = None
                    await self._host.clock.sleep(RETRY)
                else:
                    self._host.brood.start(self._mark_later(pod), f"what was refused of {pod.namespace}/{pod.name}")

    async def _mark_later(self, pod: PodLife) -> None:
        """Whoever refuses may think better of it: a real kubelet goes through all that is not told every ten seconds."""
        await self._host.clock.sleep(REFUSED_RETRY, background=True)
        if self._host.knows(pod):
            self.mark(pod)

    async def _write(self, life: PodLife) -> None:
        if not self._host.knows(life):
            return
        status = life.status()
        try:
            if status != life.pod.get("status"):
                live = await self._host.api.update(PODS, {**life.pod, "status": status}, subresource="status")
                life.see(live, is_told=live["status"] == status)
            if life.is_done and life.pod["metadata"].get("deletionTimestamp"):
                metadata = life.pod["metadata"]
                await self._host.api.delete(PODS, life.name, life.namespace, grace_period=0, precondition_uid=metadata["uid"])
        except NotFound:
            self._host.gone(life)
        except Conflict:
            await self._refresh(life)

    async def _refresh(self, life: PodLife) -> None:
        """Somebody else has written the pod meanwhile: once more on top of that."""
        live = await self._host.api.get(PODS, life.name, life.namespace)
        if live["metadata"]["uid"] != life.uid:
            self._host.gone(life)
        else:
            life.see(live)
            self._changed[life] = None


def may_pass(error: ApiError | OSError) -> bool:
    """Whether the same may go well when it is asked once more."""
    return not isinstance(error, ApiError) or error.code in PASSING
