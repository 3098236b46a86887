"""When a scheduler can do no more: it has looked at every pod that is its own, and none is in its queue or on its way.

What it has looked at is to be seen in the pods. Whether one of those that it has turned down comes again, it knows alone; of
one that cannot be asked, all are believed to come again until the longest back-off is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from pytest_kscen.kube.picture import Index, Picture
    from pytest_kscen.objects.resources import Obj, Resource

SCHEDULER = "kube-scheduler"
DEFAULT = "default-scheduler"
UNSEEN = "was not looked at"
BACK_OFF = 12.5  # seconds: ten, to the end of a window of one, the round that finds it, and a little more


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerWaiter:
    """One scheduler's."""

    name: str = SCHEDULER
    profiles: Collection[str] = (DEFAULT,)
    """The schedulerNames of its pods, as of now."""
    back_off: float = BACK_OFF
    """Seconds without a change after which none that was turned down comes again."""
    idle: Callable[[], Awaitable[bool]] | None = None
    doing: Callable[[Obj], str] = lambda _: UNSEEN
    """What it says itself of a pod whose status says nothing yet; empty if it can do no more with it."""

    @property
    def resources(self) -> Sequence[Resource]:
        return PODS, NODES

    def unfinished(self, cluster: Mapping[Resource, Picture]) -> Iterator[str]:
        for pod in self._own(cluster[PODS].index("was not looked at, by its scheduler", _not_looked_at)):
            if words := self.doing(pod):
                yield f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']} {words}"

    def quiet(self, cluster: Mapping[Resource, Picture]) -> float:
        waits = any(self._own(cluster[PODS].index("wants a node, by its scheduler", _wanting)))
        return self.back_off if waits else 0.0

    async def is_idle(self) -> bool:
        return self.idle is None or await self.idle()

    def _own(self, index: Index) -> Iterator[Obj]:
        for profile in tuple(self.profiles):
            yield from index.of(profile)


def scheduler_of(pod: Obj) -> str:
    """Who is to place it."""
    return pod["spec"].get("schedulerName") or DEFAULT


def has_ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


ENDED = ("Succeeded", "Failed")


def _wanting(pod: Obj) -> list[str]:
    spec = pod["spec"]
    needs_none = spec.get("nodeName") or spec.get("schedulingGates") or pod["metadata"].get("deletionTimestamp") or has_ended(pod)
    return [] if needs_none else [scheduler_of(pod)]


def _not_looked_at(pod: Obj) -> list[str]:
    told = condition(pod, "PodScheduled")
    return [] if told and told["status"] == "False" and told.get("reason") != "SchedulingGated" else _wanting(pod)
