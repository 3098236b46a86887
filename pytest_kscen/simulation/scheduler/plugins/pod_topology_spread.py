"""Siblings are better spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status
from pytest_kscen.simulation.scheduler.plugins.scaling import turned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class PodTopologySpread(Plugin):
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        return None if _family(pod) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        family = _family(pod)
        return sum(other.memo("family", _family) == family for other in node.pods.values())

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return turned(scores)

    def events(self) -> Sequence[Interest]:
        return ()


def _family(pod: PodInfo) -> str:
    """Who made the pod."""
    owners = pod.obj["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")
