"""Sending victims away, beside the scheduler: it goes on with other pods meanwhile, but not with the one for which this is done.

A pod that waits for a permit is only turned away; every other is told why (DisruptionTarget) and deleted. Pods of lower
priority that were to come to this node lose their nomination, so that another place is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

PLUGIN = "DefaultPreemption"
TARGET, REASON = "DisruptionTarget", "PreemptionByScheduler"
SAME = ("status", "reason", "message")


class Evicting:
    """For one profile."""

    def __init__(self, handle: Handle) -> None:
        self._bench = handle.bench
        self._pods = handle.bench.informers.of(PODS)
        self._waiting = handle.waiting
        self._nominated = handle.nominated
        self._queue = handle.queue
        self._brood = handle.brood
        self._busy: dict[str, Ref | None] = {}
        """For whom room is being made just now, and the last one to go, once it is its turn."""

    def is_busy(self, uid: str) -> bool:
        if uid not in self._busy:
            return False
        last = self._busy[uid]
        live = self._pods.objects.get(last) if last else None
        return last is None or (live is not None and not is_going(live))

    def begin(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        staying = [victim for victim in victims if not is_going(victim.obj)]
        if staying:
            self._busy[pod.uid] = None
            self._nominated.preemptors |= {victim.uid: pod for victim in staying}
            self._brood.start(self._evict(pod, node, staying), f"preemption by {pod.namespace}/{pod.name}")

    async def _evict(self, pod: PodInfo, node: str, victims: list[PodInfo]) -> None:
        succeeded = await self._clear_nominations(pod, node)
        try:
            for victim in victims:
                if victim is victims[-1]:
                    self._busy[pod.uid] = victim.ref
                await self._send_away(pod, node, victim)
        except (ApiError, OSError):
            succeeded = False
        finally:
            del self._busy[pod.uid]
            for victim in victims:
                self._nominated.preemptors.pop(victim.uid, None)
            self._queue.look_again()
        if not succeeded:
            self._queue.activate(pod)

    async def _clear_nominations(self, pod: PodInfo, node: str) -> bool:
        try:
            for other in self._nominated.on(node):
                live = self._pods.objects.get(other.ref)
                if other.priority < pod.priority and live and (live.get("status") or {}).get("nominatedNodeName"):
                    status = {name: value for name, value in live["status"].items() if name != "nominatedNodeName"}
                    await self._bench.write_status(PODS, live, status)
        except (ApiError, OSError):
            return False
        return True

    async def _send_away(self, pod: PodInfo, node: str, victim: PodInfo) -> None:
        words = f"Preempted by pod {pod.uid} on node {node}"
        if waiting := self._waiting.get(victim.uid):
            waiting.reject(PLUGIN, "preempted")
            words += " (in kube-scheduler memory)."
        else:
            try:
                await self._tell(pod, self._pods.objects.get(victim.ref, victim.obj))
                await self._bench.api.delete(PODS, victim.name, victim.namespace)
            except NotFound:
                return
        self._bench.recorder.did(victim.obj, "Preempted", words, action="Preempting", related=pod.obj)

    async def _tell(self, pod: PodInfo, victim: Obj) -> None:
        new = {
            "type": TARGET,
            "observedGeneration": victim["metadata"].get("generation", 1),
            "status": "True",
            "reason": REASON,
            "message": f"{pod.spec['schedulerName']}: preempting to accommodate a higher priority pod",
        }
        old, status = condition(victim, TARGET) or {}, victim.get("status") or {}
        if any(old.get(name) != new[name] for name in SAME):
            conditions = set_condition(status.get("conditions"), new, self._bench.timestamp())
            await self._bench.write_status(PODS, victim, {**status, "conditions": conditions})


def is_going(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def was_sent_away(pod: Obj) -> bool:
    """It is on its way out because somebody else needs its place."""
    target = condition(pod, TARGET) or {}
    return is_going(pod) and target.get("status") == "True" and target.get("reason") == REASON
