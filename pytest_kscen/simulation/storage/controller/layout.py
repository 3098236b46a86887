"""How many replicas of which kind a volume has, and where they go: pure rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.storage import ACCESS, DISKFUL, REPLICAS, TIE_BREAKER
from pytest_kscen.simulation.storage.fleet import NODE_NOT_READY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.simulation.storage.controller.view import Replica, View
    from pytest_kscen.simulation.storage.fleet import Host

LOCAL, ANY = "Local", "Any"
ZONAL, TRANS_ZONAL = "Zonal", "TransZonal"


@dataclass(frozen=True, slots=True)
class Layout:
    """What a volume's class asks for."""

    diskful: int
    io_ready: int
    """So many replicas with disks have to be ready for I/O."""
    redundancy: int
    """So many copies have to be UpToDate for a write."""
    failures: int
    """So many replicas may fail."""
    access: str = "PreferablyLocal"
    topology: str = "Ignored"
    zones: tuple[str, ...] = ()
    attachments: int = 2
    guards_diskless: bool = True
    """Whether a replica without a disk stays, too, until the others can do without it."""

    @property
    def is_local(self) -> bool:
        return self.access == LOCAL


class Quorum(NamedTuple):
    """What the kernels are told."""

    votes: int
    redundancy: int


class Changes(NamedTuple):
    """What is wrong with a volume's replicas."""

    tie_breakers: int
    access: int
    converted: list[Replica]
    """Tie-breakers that are to give access."""
    surplus: list[Replica]


def changes(view: View, homes: Sequence[str], tie_breakers: Callable[[Layout, int, int], int]) -> Changes:
    """With disks that come to these homes; `tie_breakers` tells how many belong to so many diskful and so many access replicas."""
    remote = [] if view.layout.is_local else view.desired
    access: list[Replica] = []
    kept: list[Replica] = []
    converted: list[Replica] = []
    for replica in view.living:
        if replica.type == ACCESS:
            access.append(replica)
        elif replica.type == TIE_BREAKER:
            (converted if replica.node in remote else kept).append(replica)
    bare = [node for node in remote if view.on(node) is None and node not in homes]
    waiting = [replica for replica in access if not replica.node][: len(bare)] if bare else []
    idle = [one for one in access if one.node not in view.desired and one.node not in view.actual and one not in waiting]
    new = len(bare) - len(waiting)
    needed = tie_breakers(view.layout, len(view.diskful) + len(homes), len(access) - len(idle) + len(converted) + new)
    spare = []
    if len(kept) > needed:
        spare = sorted(kept, key=lambda replica: (bool(replica.node), -replica.number))[: len(kept) - needed]
    return Changes(max(0, needed - len(kept)), new, converted, [*idle, *spare])


def free_number(taken: Sequence[int]) -> int | None:
    return next((number for number in range(REPLICAS) if number not in taken), None)


def place(view: View, type_: str, taken: Sequence[str], load: Callable[[str], int], chance: Stream) -> str:
    """A node for a new replica: ready, without another one, the least loaded; empty if there is none."""
    if type_ == ACCESS:
        return next((node for node in view.desired if node not in taken), "")
    free = [host for name, host in sorted(view.fleet.hosts.items()) if name not in taken and _takes(host)]
    free = _by_zones(view, free, taken)
    if type_ == DISKFUL and view.layout.access != ANY:
        free = [host for host in free if host.name in view.desired] or free
    elif type_ == TIE_BREAKER:
        free = [host for host in free if host.name not in view.desired] or free
    if not free:
        return ""
    loads = [load(host.name) for host in free]
    least = min(loads)
    return chance.choice([host for host, much in zip(free, loads, strict=True) if much == least]).name


def _takes(host: Host) -> bool:
    return host.takes_replicas and host.trouble != NODE_NOT_READY


def _by_zones(view: View, free: list[Host], taken: Sequence[str]) -> list[Host]:
    layout = view.layout
    if layout.zones:
        free = [host for host in free if host.zone in layout.zones]
    used = [view.fleet.host(node).zone for node in taken]
    if layout.topology == ZONAL and used:
        return [host for host in free if host.zone == used[0]]
    if layout.topology == TRANS_ZONAL and free:
        fewest = min(used.count(host.zone) for host in free)
        return [host for host in free if used.count(host.zone) == fewest]
    return free
