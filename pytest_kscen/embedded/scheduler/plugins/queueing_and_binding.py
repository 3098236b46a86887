"""Plugins PrioritySort, SchedulingGates and DefaultBinder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.scheduler.framework.events import POD, Action, Interest, is_same_pod
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import Status, failure, unresolvable
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo, QueuedPod


class PrioritySort(Plugin):
    """Queue order: the highest priority first; among equals, the pod that has waited longest."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.pod.priority, queued.since

    def events(self) -> Sequence[Interest]:
        return ()


class SchedulingGates(Plugin):
    """Gate that keeps pods with schedulingGates out of the active queue until all gates are
    removed.
    """

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.spec.get("schedulingGates")
        if not gates:
            return None
        names = " ".join(gate["name"] for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events(self) -> Sequence[Interest]:
        return (Interest(POD, Action.POD_GATES_GONE, is_same_pod),)


class DefaultBinder(Plugin):
    """Binder that creates the pod's Binding through the API; a failed request is an error of the
    attempt.
    """

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.handle.context.api.create(
                PODS, binding, pod.namespace, name=pod.name, subresource="binding"
            )
        except (ApiError, OSError) as error:
            return failure(str(error))
        return None

    def events(self) -> Sequence[Interest]:
        return ()
