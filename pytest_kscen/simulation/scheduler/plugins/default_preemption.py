"""Whether sending other pods away would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.diagnosis import counted
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.preempting import Nomination
from pytest_kscen.simulation.scheduler.framework.status import Code, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

HELPLESS = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class DefaultPreemption(Plugin):
    async def post_filter(self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]) -> Nomination | Status:
        if pod.spec.get("preemptionPolicy") == "Never":
            return unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
        words = counted(HELPLESS if status.code is Code.UNRESOLVABLE else NO_VICTIMS for status in statuses.values())
        return Nomination("", f"preemption: 0/{len(statuses)} nodes are available: {words}.")

    def events(self) -> Sequence[Interest]:
        return ()
