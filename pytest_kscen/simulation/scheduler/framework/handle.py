"""What a plugin holds: the cluster as the scheduler sees it, and the means to act."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.brood import Brood
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.extending import Extender
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.preempting import Nominated
    from pytest_kscen.simulation.scheduler.framework.profile import Profile
    from pytest_kscen.simulation.scheduler.framework.snapshot import Snapshot
    from pytest_kscen.simulation.scheduler.framework.status import Status
    from pytest_kscen.simulation.scheduler.framework.ties import Ties
    from pytest_kscen.simulation.scheduler.framework.waiting import WaitingPods
    from pytest_kscen.simulation.scheduler.queueing.queue import Queue


@dataclass(kw_only=True)
class Handle:
    """One for each profile; all share what is in it, but for the profile."""

    bench: Bench
    """`bench.api`, `bench.clock`, `bench.informers`, `bench.recorder`."""
    chance: Stream
    ties: Ties
    """`ties.decide(pod, names)`: one of several nodes that are equally good."""
    snapshot: Snapshot
    nominated: Nominated
    waiting: WaitingPods
    """Pods that a permit plugin has told to wait."""
    queue: Queue
    """`queue.activate(pod)`: look at this pod at once."""
    brood: Brood
    """Where to start what must not hold up the scheduler; with `background=True`, if it never ends."""
    extenders: Sequence[Extender] = ()
    profile: Profile = field(init=False)
    """The plugins beside this one."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """What all filters say of one node, a copy with other pods on it included. For preemption."""
        return self.profile.filter(state, pod, node)
