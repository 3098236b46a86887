"""A pod with scheduling gates is not looked at until they are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.events import POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class SchedulingGates(Plugin):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.spec.get("schedulingGates")
        if not gates:
            return None
        names = " ".join(gate["name"] for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events(self) -> Sequence[Interest]:
        return (Interest(POD, Action.POD_GATES_GONE, _is_itself),)


def _is_itself(pod: PodInfo, _: Obj | None, new: Obj | None) -> bool:
    return new is not None and new["metadata"]["uid"] == pod.uid
