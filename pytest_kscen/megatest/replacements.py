"""Whether what the replica destroyer took is replaced: noted when the volume has as many disks again, and all are up to date.

It is looked at again and again, for as long as the volume lacks something. Newer storage replaces no disk of a volume that was
complete: there those suffice that it has left, as are those that it cannot let go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    import asyncio

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj

LOOK_AGAIN = 10.0  # seconds


@dataclass(slots=True)
class Replacements:
    """Those that one volume is to get."""

    rv: Subject
    actor: Actor
    patience: float
    crew: asyncio.TaskGroup
    wanted: int = 0
    """So many disks it has to have again; none if it lacks none."""
    taken: set[str] = field(default_factory=set)
    """The uids of replicas that the API has taken away, which may not be seen yet."""

    def disks(self) -> list[Obj]:
        """Those that count."""
        disks = [replica for replica in self.rv.view.replicas(self.rv.name) if replica["spec"].get("type") == DISKFUL]
        return disks if self.rv.health.is_of_newer_storage else [disk for disk in disks if not self._goes(disk)]

    def expect(self, before: int) -> None:
        """As many as there were before one was taken, or perhaps taken."""
        if not self.wanted:
            self.crew.create_task(self._watch(), name=f"what replaces disks of {self.rv.name}")
        self.wanted = max(self.wanted, 1 if self.rv.health.is_of_newer_storage else before)
        self.rv.season.lacking[self.rv.name] = self.actor.clock.now() + self.patience + LOOK_AGAIN  # which is seen that late

    async def _watch(self) -> None:
        while self._stays():
            await self.actor.clock.sleep(LOOK_AGAIN)
            if self._stays() and self._is_whole():
                self.actor.note("whole", volume=self.rv.name)
                break
        self.wanted = 0
        self.taken.clear()
        self.rv.season.lacking.pop(self.rv.name, None)

    def _stays(self) -> bool:
        """Nobody replaces anything of a volume that goes."""
        return self.rv.volume is not None and not self.rv.volume["metadata"].get("deletionTimestamp")

    def _is_whole(self) -> bool:
        disks = self.disks()
        return len(disks) >= self.wanted and all(map(self.rv.health.is_up_to_date, disks))

    def _goes(self, disk: Obj) -> bool:
        metadata = disk["metadata"]
        return bool(metadata.get("deletionTimestamp")) or metadata["uid"] in self.taken
