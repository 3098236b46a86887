"""Binds a pod by asking the API to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import Status, failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class DefaultBinder(Plugin):
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.handle.bench.api.create(PODS, binding, pod.namespace, name=pod.name, subresource="binding")
        except (ApiError, OSError) as error:
            return failure(str(error))
        return None

    def events(self) -> Sequence[Interest]:
        return ()
