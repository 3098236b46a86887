"""What a StatefulSet says of itself. Pure: counted from its pods after the steps of this look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.workloads.statefulsets.identity import revision_of
from pytest_kscen.simulation.workloads.statefulsets.plan import is_running_and_ready, is_terminating

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.workloads.statefulsets.plan import View


def status_of(view: View, collisions: int) -> Obj:
    owner, pods = view.owner, list(view.pods.values())
    current, update = view.current["metadata"]["name"], view.update["metadata"]["name"]
    staying = [revision_of(pod) for pod in pods if not is_terminating(pod)]
    counts = {
        "readyReplicas": sum(map(is_running_and_ready, pods)),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
    }
    if _is_rolled_out(owner, len(pods), counts):
        current, counts["currentReplicas"] = update, counts["updatedReplicas"]
    old = (owner.get("status") or {}).get("observedGeneration", 0)
    return {
        "observedGeneration": max(owner["metadata"].get("generation", 0), old),
        "replicas": len(pods),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collisions,
        "availableReplicas": sum(map(view.is_available, pods)),
    }


def _is_rolled_out(owner: Obj, total: int, counts: dict[str, int]) -> bool:
    rolling = (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    size = owner["spec"].get("replicas", 1)
    return bool(rolling and total == counts["updatedReplicas"] == counts["readyReplicas"] == size)
