"""What belongs to one attempt to place one pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.profile import Profile
    from pytest_kscen.simulation.scheduler.queueing.queued import QueuedPod


class Try(NamedTuple):
    """It is over when the pod is bound or back in the queue."""

    profile: Profile
    queued: QueuedPod
    pod: PodInfo
    state: CycleState
