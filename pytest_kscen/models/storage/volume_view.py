"""What one look at a volume sees: the volume, its replicas and attachments, and the nodes, read
from the API's objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.models.storage.nodes import NODE_NOT_READY
from pytest_kscen.objects.storage import ACCESS, DISKFUL, REPLICAS, TIE_BREAKER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.models.storage.nodes import StorageNode, StorageNodes
    from pytest_kscen.objects.resources import Obj


CONTROLLER_FINALIZER = "sds-replicated-volume.deckhouse.io/controller"
AGENT_FINALIZER = "sds-replicated-volume.deckhouse.io/agent"


class ConditionValue(NamedTuple):
    """Whether something is so, and why."""

    holds: bool | None
    """None: nobody can tell."""
    reason: str
    message: str = ""


ONLINE = ConditionValue(holds=True, reason="Online")
IO_READY = ConditionValue(holds=True, reason="IOReady")
OUT_OF_SYNC = ConditionValue(holds=False, reason="OutOfSync", message="its data is not up to date")


def _offline(reason: str, message: str) -> tuple[ConditionValue, ConditionValue]:
    """Neither online nor ready."""
    return ConditionValue(False, reason, message), ConditionValue(
        False, "Offline", f"it is not online: {reason}"
    )


UNSCHEDULED = _offline("Unscheduled", "no node has been found for it")
UNINITIALIZED = _offline("Uninitialized", "it has never had the volume's data")
QUORUM_LOST = _offline("QuorumLost", "its kernel has no quorum")


class ReplicaAddress(NamedTuple):
    """Where a replica listens."""

    ipv4: str
    port: int


@dataclass(slots=True)
class VolumeReplica:
    """A ReplicatedVolumeReplica, whichever generation wrote it.

    Nobody changes one; it is not frozen, for many are made.
    """

    obj: Obj = field(compare=False)
    name: str
    node: str
    type: str
    leaving: bool
    """Its deletion was asked for."""
    held: bool
    """The controller has its finalizer on it."""
    tended: bool = field(default=False, compare=False)
    """The agent has its own."""
    address: ReplicaAddress | None = None
    initialized: bool = False
    in_quorum: bool = False
    in_sync: bool = False
    primary: bool = False
    """Its kernel was Primary when its agent last told."""
    asked_primary: bool = field(default=False, compare=False)
    """By the leader, who knows."""
    two_primaries: bool = False
    """Its kernel lets two be Primary."""
    actual_type: str = ""
    size: int = 0
    """Bytes, as its kernel told."""
    linked: tuple[str, ...] = ()
    """The peers that its kernel was connected with, as its generation names them, if it goes by
    that.
    """
    revision: int = 0
    """Of the orders that its agent has seen."""
    up_to_date: bool = False
    """Its data was UpToDate when its agent last told."""
    online: ConditionValue = field(init=False)
    io_ready: ConditionValue = field(init=False)
    number: int = field(init=False, compare=False)
    is_diskful: bool = field(init=False, compare=False)
    in_mesh: bool = field(init=False, compare=False)
    """Whether it has a node, and has not been let go."""

    def __post_init__(self) -> None:
        self.number = int(self.name.rpartition("-")[2])
        self.is_diskful = self.type == DISKFUL
        self.in_mesh = bool(self.node) and (self.held or not self.leaving)
        # What follows from what its agent has told: is it online, is it ready.
        if not self.node:
            self.online, self.io_ready = UNSCHEDULED
        elif not self.initialized:
            self.online, self.io_ready = UNINITIALIZED
        elif not self.in_quorum:
            self.online, self.io_ready = QUORUM_LOST
        else:
            self.online, self.io_ready = ONLINE, IO_READY if self.in_sync else OUT_OF_SYNC

    def unheard(self, trouble: str) -> VolumeReplica:
        """The same on a node where nobody speaks for it."""
        unheard = VolumeReplica(*_init_values(self))
        unheard.online = unheard.io_ready = ConditionValue(
            holds=False, reason=trouble, message=f"nobody speaks for {self.node}"
        )
        return unheard

    @property
    def is_tie_breaker(self) -> bool:
        return self.type == TIE_BREAKER


_init_values = attrgetter(*[each.name for each in fields(VolumeReplica) if each.init])
"""All that it is made of, in the fields' order."""


@dataclass(slots=True)
class VolumeAttachment:
    """A ReplicatedVolumeAttachment. Nobody changes one; it is not frozen, for many are made."""

    obj: Obj = field(compare=False)
    name: str
    node: str
    leaving: bool
    held: bool

    @classmethod
    def of(cls, obj: Obj) -> VolumeAttachment:
        metadata = obj["metadata"]
        held = CONTROLLER_FINALIZER in metadata.get("finalizers", ())
        return cls(
            obj, metadata["name"], obj["spec"]["nodeName"], "deletionTimestamp" in metadata, held
        )


class PreviousDecisions(NamedTuple):
    """What was decided of a volume before."""

    desired: list[str]
    """The nodes where it was to be attached."""
    minor: int | None
    secret: str
    size: int
    """Bytes."""


NOTHING_DECIDED = PreviousDecisions([], None, "", 0)


@dataclass
class VolumeView:
    """One volume and all that concerns it, at one instant.

    Nobody changes one; it is not frozen, for many are made.
    """

    name: str
    volume: Obj
    layout: VolumeLayout
    replicas: list[VolumeReplica]
    """One at most on each node."""
    attachments: list[VolumeAttachment]
    """In the order in which they came."""
    fleet: StorageNodes
    past: PreviousDecisions = NOTHING_DECIDED
    doubles: list[VolumeReplica] = field(default_factory=list)
    """Those on nodes that others had before: nobody tends them."""
    leaving: bool = field(init=False)
    living: list[VolumeReplica] = field(init=False)
    diskful: list[VolumeReplica] = field(init=False)
    """Those that live and have a disk."""
    homeless: list[VolumeReplica] = field(init=False)
    """Those that live and have no node."""
    mesh: list[VolumeReplica] = field(init=False)
    silent: list[VolumeReplica] = field(init=False)
    """Those of the mesh that have not told an address."""
    seats: list[tuple[str, str, ReplicaAddress | None, str]] = field(init=False)
    """Who is where, as the others of the mesh know them."""
    going: list[VolumeReplica] = field(init=False)
    """Those that were deleted, and have not been let go."""
    actual: list[str] = field(init=False)
    """The nodes where it is attached."""
    desired: list[str] = field(init=False)
    """The nodes where it is to be attached."""

    def __post_init__(self) -> None:
        self.leaving = "deletionTimestamp" in self.volume["metadata"]
        self.living, self.diskful, self.homeless, self.mesh = [], [], [], []
        self.silent, self.seats, self.going, self.actual = [], [], [], []
        for replica in self.replicas:  # once for all of these: every look asks for them
            if not replica.leaving:
                self.living.append(replica)
                if replica.is_diskful:
                    self.diskful.append(replica)
                if not replica.node:
                    self.homeless.append(replica)
            elif replica.held:
                self.going.append(replica)
            if replica.in_mesh:
                self.mesh.append(replica)
                self.seats.append((replica.name, replica.node, replica.address, replica.type))
                if not replica.address:
                    self.silent.append(replica)
            if replica.primary:
                self.actual.append(replica.node)
        self.desired = self._desired() if self.attachments else []

    def _desired(self) -> list[str]:
        """Who was served stays, else first come, first served; if the volume goes, nobody else."""
        wanted = [
            attachment.node
            for attachment in self.attachments
            if not attachment.leaving and self.may_be_on(attachment.node)
        ]
        desired = [node for node in self.past.desired if node in wanted]
        if not self.leaving:
            new = [node for node in dict.fromkeys(wanted) if node not in desired]
            desired += new[: max(0, self.layout.attachments - len(desired))]
        return desired

    def may_be_on(self, node: str) -> bool:
        """Whether it can be used there, by its class."""
        if not self.layout.is_local:
            return True
        replica = self.on(node)
        return replica is not None and replica.is_diskful

    @cached_property
    def speaking(self) -> list[VolumeReplica]:
        """Those of the mesh whose agents work, so that what they tell is so."""
        return [replica for replica in self.mesh if not self.host(replica).trouble]

    def on(self, node: str) -> VolumeReplica | None:
        for replica in self.replicas:
            if replica.node == node:
                return replica
        return None

    def host(self, replica: VolumeReplica) -> StorageNode:
        return self.fleet.host(replica.node)


def duplicates_of(replicas: list[VolumeReplica]) -> list[VolumeReplica]:
    """Those that came to a node which another one had."""
    if len({one.node for one in replicas}) == len(replicas):
        return []
    taken: dict[str, VolumeReplica] = {}
    by_arrival = sorted(
        (one for one in replicas if one.node), key=lambda one: not (one.held or one.leaving)
    )
    return [one for one in by_arrival if taken.setdefault(one.node, one) is not one]


# How many replicas of which kind a volume has, and where they go: pure rules.


LOCAL, ANY = "Local", "Any"
ZONAL, TRANS_ZONAL = "Zonal", "TransZonal"


@dataclass(frozen=True, slots=True)
class VolumeLayout:
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


class QuorumSettings(NamedTuple):
    """What the kernels are told."""

    votes: int
    redundancy: int


class ReplicaChanges(NamedTuple):
    """What is wrong with a volume's replicas."""

    tie_breakers: int
    access: int
    converted: list[VolumeReplica]
    """Tie-breakers that are to give access."""
    surplus: list[VolumeReplica]


def plan_changes(
    view: VolumeView, homes: Sequence[str], tie_breakers: Callable[[VolumeLayout, int, int], int]
) -> ReplicaChanges:
    """With disks that come to these homes; `tie_breakers` tells how many belong to so many
    diskful and so many access replicas.
    """
    remote = [] if view.layout.is_local else view.desired
    access: list[VolumeReplica] = []
    kept: list[VolumeReplica] = []
    converted: list[VolumeReplica] = []
    for replica in view.living:
        if replica.type == ACCESS:
            access.append(replica)
        elif replica.type == TIE_BREAKER:
            (converted if replica.node in remote else kept).append(replica)
    bare = [node for node in remote if view.on(node) is None and node not in homes]
    waiting = [replica for replica in access if not replica.node][: len(bare)] if bare else []
    idle = [
        one
        for one in access
        if one.node not in view.desired and one.node not in view.actual and one not in waiting
    ]
    new = len(bare) - len(waiting)
    needed = tie_breakers(
        view.layout, len(view.diskful) + len(homes), len(access) - len(idle) + len(converted) + new
    )
    spare = []
    if len(kept) > needed:
        spare = sorted(kept, key=lambda replica: (bool(replica.node), -replica.number))[
            : len(kept) - needed
        ]
    return ReplicaChanges(max(0, needed - len(kept)), new, converted, [*idle, *spare])


def free_number(taken: Sequence[int]) -> int | None:
    return next((number for number in range(REPLICAS) if number not in taken), None)


def choose_node(
    view: VolumeView, type_: str, taken: Sequence[str], load: Callable[[str], int], chance: Stream
) -> str:
    """A node for a new replica: ready, without another one, the least loaded; empty if there is
    none.
    """
    if type_ == ACCESS:
        return next((node for node in view.desired if node not in taken), "")
    free = [
        host
        for name, host in sorted(view.fleet.hosts.items())
        if name not in taken and _takes(host)
    ]
    free = _by_zones(view, free, taken)
    if type_ == DISKFUL and view.layout.access != ANY:
        free = [host for host in free if host.name in view.desired] or free
    elif type_ == TIE_BREAKER:
        free = [host for host in free if host.name not in view.desired] or free
    if not free:
        return ""
    loads = [load(host.name) for host in free]
    least = min(loads)
    return chance.choice(
        [host for host, much in zip(free, loads, strict=True) if much == least]
    ).name


def _takes(host: StorageNode) -> bool:
    return host.takes_replicas and host.trouble != NODE_NOT_READY


def _by_zones(view: VolumeView, free: list[StorageNode], taken: Sequence[str]) -> list[StorageNode]:
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
