"""An attempt that came to nothing: the pod goes back into the queue, and says why in its status and in an event."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.scheduler.diagnosis import noted
from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.preempting import Nomination
    from pytest_kscen.simulation.scheduler.queueing.queued import QueuedPod

SAME = ("status", "reason", "message")


class Failing:
    """Tells."""

    def __init__(self, handle: Handle) -> None:
        self._bench = handle.bench
        self._queue = handle.queue
        self._nominated = handle.nominated
        self._pods = handle.bench.informers.of(PODS)

    async def tell(self, queued: QueuedPod, words: str, nomination: Nomination | None, *, unschedulable: bool) -> None:
        """With a nomination that is empty, the pod loses the one that it has; with none, it keeps it."""
        pod = queued.pod
        live = self._pods.objects.get(pod.ref)
        if live is None or live["spec"].get("nodeName") or live["metadata"].get("uid") != pod.uid:
            self._queue.done(pod.uid)
            return
        if live is not pod.obj:
            queued.pod = PodInfo(live)
        self._queue.give_back(queued)
        node = queued.pod.nominated if nomination is None else nomination.node
        if node:
            self._nominated.add(queued.pod, node)
        else:
            self._nominated.remove(pod.uid)
        self._bench.recorder.did(live, "FailedScheduling", noted(words), action="Scheduling", kind="Warning")
        reason = "Unschedulable" if unschedulable else "SchedulerError"
        try:
            await self._write(live, reason, words, node)
        except NotFound:
            self._queue.remove(pod.ref, pod.uid)
        except (ApiError, OSError):
            return  # it is said again with the next attempt

    async def expect(self, pod: PodInfo, node: str) -> None:
        """The pod is going to be bound to this node, but not at once: its status says so."""
        live = self._pods.objects.get(pod.ref)
        if live is None or live["metadata"].get("uid") != pod.uid or PodInfo(live).nominated == node:
            return
        self._nominated.expected.add(pod.uid)
        status = {**(live.get("status") or {}), "nominatedNodeName": node}
        with contextlib.suppress(ApiError, OSError):  # it is only said
            await self._bench.write_status(PODS, live, status)

    async def _write(self, pod: Obj, reason: str, words: str, node: str) -> None:
        new = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "reason": reason,
            "message": words,
        }
        old, status = condition(pod, "PodScheduled") or {}, pod.get("status") or {}
        if all(old.get(name) == new[name] for name in SAME) and (status.get("nominatedNodeName") or "") == node:
            return
        status = {**status, "conditions": set_condition(status.get("conditions"), new, self._bench.timestamp())}
        status.pop("nominatedNodeName", None)
        if node:
            status["nominatedNodeName"] = node
        await self._bench.write_status(PODS, pod, status)
