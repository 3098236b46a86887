"""Troubles of replicas, links, volumes, nodes and machines as the API shows them, and their
attribution to incidents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, volume_of
from pytest_kscen.objects.virtualization import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kscen.chaos.clients import ClusterClients
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.storage import Observed


@dataclass(frozen=True, slots=True)
class ReplicaLink:
    """Replication link between two replicas of a volume.

    Each end listens on a port of its own, and either may connect.
    """

    volume: str
    node: str
    peer: str
    ports: tuple[int, int]


async def links_of(clients: ClusterClients, node: str) -> list[ReplicaLink]:
    """Return the links with an end on this node, sorted by their volumes' keys.

    Volume names hold a salt, so their order would differ between runs of one seed.
    """
    try:
        replicas = (await clients.nested.api.list(REPLICATED_VOLUME_REPLICAS)).items
    except NotFound:  # the cluster has no replicated storage
        return []
    return list(
        links(sorted(replicas, key=lambda replica: _without_salt(replica, clients.keys)), node)
    )


def _without_salt(replica: Obj, keys: Mapping[str, str]) -> str:
    """Return the replica's name with its volume's key in place of the salted name."""
    volume, name = volume_of(replica), str(replica["metadata"]["name"])
    return keys.get(volume, volume) + name.removeprefix(volume)


def links(replicas: Iterable[Obj], node: str) -> Iterator[ReplicaLink]:
    placed = [replica for replica in replicas if node_of(replica) and port_of(replica)]
    for own in placed:
        if node_of(own) == node:
            for other in placed:
                if volume_of(other) == volume_of(own) and node_of(other) != node:
                    yield ReplicaLink(
                        volume_of(own), node, node_of(other), (port_of(own), port_of(other))
                    )


def node_of(replica: Obj) -> str:
    return str((replica.get("spec") or {}).get("nodeName") or "")


def port_of(replica: Obj) -> int:
    """Return the port on which a replica listens; 0 if it does not listen."""
    status = replica.get("status") or {}
    config = (status.get("drbd") or {}).get("config") or {}
    places = [
        config.get("address") or {},
        *(each.get("address") or {} for each in status.get("addresses") or ()),
    ]
    return next((int(place["port"]) for place in places if place.get("port")), 0)


Key: TypeAlias = tuple[str, ...]

LINK, VOLUME, NODE, MACHINE = "link", "volume", "node", "machine"
CONNECTED = "Connected"
REFUSING = ("StandAlone", "Disconnecting")
"""Connection states of a replica that does not try to connect."""
NOT_MADE = "the link of {volume} from {nodes[0]} to {nodes[1]} is not made ({state})"
WORDS = {
    LINK: "the link of {volume} from {nodes[0]} to {nodes[1]} is {state}",
    VOLUME: "{key[2]} of the volume {volume} is {state}",
    NODE: "the node {key[1]} is not ready ({state})",
    MACHINE: "the machine {key[1]} is {state}",
}


class ObservedState(NamedTuple):
    """State of one aspect of an object, read from its status. The key begins with the kind."""

    key: Key
    healthy: bool
    state: str
    nodes: tuple[str, ...]
    volume: str = ""
    excused: bool = False
    """True if a failure is no trouble: the peer is being deleted, or a node of a missing link is
    down.
    """
    due: float | None = None
    """Time from which a link that was never made is missing; None for other states."""

    @property
    def kind(self) -> str:
        return self.key[0]

    @property
    def words(self) -> str:
        words = WORDS[self.kind] if self.due is None else NOT_MADE
        return words.format(key=self.key, state=self.state, nodes=self.nodes, volume=self.volume)

    @property
    def is_tried(self) -> bool:
        return self.kind == LINK and not self.healthy and self.state not in REFUSING


@dataclass(frozen=True, slots=True, eq=False)
class MissingLink:
    """Link that was never made, although both of its ends try to connect."""

    ends: tuple[ObservedState, ObservedState]


class Troubles:
    """Troubles of one cluster, updated as objects change.

    Listeners are notified when a trouble begins, when it ends, when its object is deleted, and when
    a link is found missing.
    """

    def __init__(
        self,
        began: Callable[[ObservedState], None],
        over: Callable[[ObservedState], None],
        deleted: Callable[[ObservedState], None],
        is_due: Callable[[MissingLink], None] = lambda _: None,
    ) -> None:
        self._began = began
        self._over = over
        self._deleted = deleted
        self._is_due = is_due
        self._healthy: dict[Key, None] = {}
        self._troubles: dict[Key, ObservedState] = {}
        self._tried: dict[Key, ObservedState] = {}
        """The ends of links that were never made, by volume, node and peer."""
        self._tried_as: dict[Key, Key] = {}
        """Key in `_tried` of each: the peer's name may change later."""
        self._due: dict[Key, MissingLink] = {}
        """Missing links by either of their ends."""

    def update(
        self,
        old: list[ObservedState],
        new: list[ObservedState],
        *,
        deleting: bool = False,
        is_deleted: bool = False,
    ) -> None:
        """Compare the aspects of an object before and after a change, and notify the listeners.

        A failure of an object that is being deleted (`deleting`) is no trouble. The troubles of a
        deleted object (`is_deleted`) are reported as deleted and not as over.
        """
        there = [aspect.key for aspect in new]
        for aspect in old:
            if aspect.key not in there:
                self._healthy.pop(aspect.key, None)
                self._end(aspect.key, self._deleted if is_deleted else self._over)
                self._drop_tried(aspect)
        for aspect in new:
            key, may_fail = aspect.key, deleting or aspect.excused
            if aspect.healthy:
                self._healthy[key] = None
                self._end(key, self._over)
            elif key in self._healthy and key not in self._troubles and not may_fail:
                self._troubles[key] = aspect
                self._began(aspect)
            if aspect.is_tried and key not in self._healthy and not may_fail:
                self._add_tried(aspect)
            else:
                self._drop_tried(aspect)

    def is_still_due(self, due: MissingLink) -> bool:
        """Return True if neither end has changed its state since."""
        return self._due.get(_end_of(due.ends[0])) is due

    def report_missing(self, due: MissingLink, since: float) -> None:
        """Report a link that was not connected in time, unless one of its nodes is down."""
        for end in due.ends:
            if end.key in self._troubles:
                continue
            down = any(
                (kind, node) in self._troubles for kind in (NODE, MACHINE) for node in end.nodes
            )
            trouble = self._troubles[end.key] = end._replace(due=since, excused=down)
            self._began(trouble)

    def _end(self, key: Key, notify: Callable[[ObservedState], None]) -> None:
        if key in self._troubles:
            notify(self._troubles.pop(key))

    def _add_tried(self, aspect: ObservedState) -> None:
        here, there = _end_of(aspect), (aspect.volume, *reversed(aspect.nodes))
        if self._tried_as.get(aspect.key, here) != here:
            self._drop_tried(aspect)
        self._tried[here], self._tried_as[aspect.key] = aspect, here
        if there in self._tried and here not in self._due:
            self._due[here] = self._due[there] = due = MissingLink((self._tried[there], aspect))
            self._is_due(due)

    def _drop_tried(self, aspect: ObservedState) -> None:
        """Drop a link that is connected or no longer wanted; called for either end."""
        here = self._tried_as.pop(aspect.key, None)
        if here and self._tried[here].key == aspect.key:
            del self._tried[here]
            volume, node, peer = here
            for end in (here, (volume, peer, node)):
                self._due.pop(end, None)


def _end_of(link: ObservedState) -> Key:
    return link.volume, *link.nodes


def readiness(node: Obj) -> Obj | None:
    return condition(node, "Ready")


def of_node(node: Obj, ready: Obj) -> list[ObservedState]:
    name = node["metadata"]["name"]
    return [
        ObservedState(
            (NODE, name), ready["status"] == "True", ready.get("reason") or ready["status"], (name,)
        )
    ]


def of_machine(machine: Obj, phase: str) -> list[ObservedState]:
    name = machine["metadata"]["name"]
    return [ObservedState((MACHINE, name), phase == RUNNING, phase, (name,))]


def of_volume(
    volume: Obj, health: dict[str, Observed], nodes: tuple[str, ...]
) -> list[ObservedState]:
    name = volume["metadata"]["name"]
    return [
        ObservedState(
            (VOLUME, name, which),
            seen.holds,
            f"{seen.status} ({seen.reason})" if seen.reason else seen.status,
            nodes,
            name,
        )
        for which, seen in health.items()
    ]


def connections(replica: Obj) -> list[tuple[str, str]]:
    """Return a replica's peers with the states of the connections."""
    status = replica.get("status") or {}
    of_drbd = _of_drbd(status) or {}
    return [
        (each["name"], each["connectionState"])
        for each in (*(of_drbd.get("connections") or ()), *(status.get("peers") or ()))
        if each.get("name") and each.get("connectionState")
    ]


def of_replica(
    replica: Obj, connections: Iterable[tuple[str, str]], siblings: Iterable[Obj]
) -> Iterator[ObservedState]:
    """Yield the states of a replica's links to other replicas of its volume.

    The generation decides whether a peer has its replica's name or its node's.
    """
    name, volume, node = replica["metadata"]["name"], volume_of(replica), node_of(replica)
    nodes = {}
    for each in siblings:
        if not each["metadata"].get("deletionTimestamp"):
            nodes[node_of(each)] = nodes[each["metadata"]["name"]] = node_of(each)
    for peer, state in connections:
        ends = (node, nodes.get(peer, peer))
        yield ObservedState(
            (LINK, name, peer), state == CONNECTED, state, ends, volume, excused=peer not in nodes
        )


def has_same_links(new: Obj, old: Obj) -> bool:
    """Return True if a replica's links were not written: unchanged parts are the same objects."""
    now, before = new.get("status") or {}, old.get("status") or {}
    return now is before or (
        _of_drbd(now) is _of_drbd(before) and now.get("peers") is before.get("peers")
    )


def _of_drbd(status: Obj) -> Obj | None:
    return (status.get("drbd") or {}).get("status")


DETECTION_TIME = 6.0  # seconds, DRBD's `timeout`: a shorter interruption does not disconnect a link
SETTLED = 5.0  # seconds without trouble


class ExplanatoryPower(IntEnum):
    """Rank of explanations: of several incidents, the highest one explains a trouble."""

    DEGRADES = 0
    """Slow or lossy network, which storage often tolerates."""
    OVER = 1
    """Incident that has ended, and whose effects still continue."""
    STOPS = 2
    """Blocked packets, or stopped services of a node."""
    POWERS_OFF = 3
    """Machine that was powered off or deleted, once that is observed."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Troubles that an incident may cause, by kind and node.

    With `against`: between `nodes` and `against`. With `volume`: of that volume only.
    """

    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    against: tuple[str, ...] = ()
    volume: str = ""
    power: ExplanatoryPower = ExplanatoryPower.STOPS

    @property
    def detected_after(self) -> float:
        """Return the seconds until DRBD detects a network cut: its timeout."""
        return DETECTION_TIME if self.against else 0.0

    def covers(self, aspect: ObservedState) -> bool:
        if aspect.kind not in self.kinds or (self.volume and aspect.volume != self.volume):
            return False
        sides = (self.nodes, self.against) if self.against else (self.nodes,)
        return all(any(node in side for node in aspect.nodes) for side in sides)

    def may_isolate(self, aspect: ObservedState) -> bool:
        """Return True if a network cut may separate a node from the control plane.

        The control plane may run on one of the nodes of the cut.
        """
        return (
            aspect.kind == NODE
            and bool(self.against)
            and not self.volume
            and aspect.key[1] in (*self.nodes, *self.against)
        )


NOWHERE = Reach((), ())


@dataclass(slots=True, eq=False)
class SuspectedIncident:
    """Incident that is active or has not recovered."""

    reach: Reach
    since: float
    until: float | None = None
    unanswered: bool = False
    """True while its request has no answer: it may be active or not."""
    active: bool = field(init=False)
    """True once it is active. A controller powers a machine off later, or never."""
    own_troubles: dict[Key, ObservedState] = field(default_factory=dict)
    """Troubles that this incident explains, and that are not over."""
    possible_troubles: dict[Key, ObservedState] = field(default_factory=dict)
    """Troubles that this incident possibly explains, and that are not over."""
    inherited_from: dict[Key, str] = field(default_factory=dict)
    """Earlier incident from which this one took over a trouble, by the trouble's key."""
    volumes: dict[str, None] = field(default_factory=dict)
    """Volumes with a link that this incident has affected."""

    def __post_init__(self) -> None:
        self.active = self.reach.power is not ExplanatoryPower.POWERS_OFF

    @property
    def power(self) -> ExplanatoryPower:
        return (
            self.reach.power if self.until is None else min(self.reach.power, ExplanatoryPower.OVER)
        )

    def reaches(self, reach: Reach) -> None:
        """Set the reach, and drop possible troubles outside of it."""
        self.reach = reach
        self.possible_troubles = {
            key: one
            for key, one in self.possible_troubles.items()
            if reach.covers(one) or reach.may_isolate(one)
        }
        self.inherited_from = {
            key: incident
            for key, incident in self.inherited_from.items()
            if key in self.possible_troubles
        }

    def mark_active(self, at: float) -> None:
        """Record that it is active since this time."""
        if not self.active:
            self.active, self.since = True, at

    def add_trouble(self, trouble: ObservedState, at: float) -> None:
        """Add a trouble that it explains; a machine that is down proves that it is active."""
        self.own_troubles[trouble.key] = trouble
        self.possible_troubles.pop(trouble.key, None)
        self.inherited_from.pop(trouble.key, None)
        if trouble.kind == LINK:
            self.volumes[trouble.volume] = None
        if trouble.kind == MACHINE:
            self.mark_active(at)

    def has(self, trouble: ObservedState) -> bool:
        """Return True if this incident explains the trouble, or possibly does."""
        return trouble.key in self.own_troubles or trouble.key in self.possible_troubles

    @property
    def open_troubles(self) -> list[ObservedState]:
        """Return the troubles that this incident explains, or possibly does."""
        return [*self.own_troubles.values(), *self.possible_troubles.values()]

    def drop_trouble(self, trouble: ObservedState) -> bool:
        """Drop a trouble that is over, and return True if this incident had it."""
        own, possible = (
            self.own_troubles.pop(trouble.key, None),
            self.possible_troubles.pop(trouble.key, None),
        )
        self.inherited_from.pop(trouble.key, None)
        return bool(own or possible)

    def explains(self, trouble: ObservedState, at: float) -> bool:
        if (
            self.unanswered
            or not self.reach.covers(trouble)
            or not (self.active or trouble.kind == MACHINE)
        ):
            return False
        if trouble.due is not None and self.since > trouble.due:
            return False  # the link was missing before the incident began
        if trouble.kind == VOLUME and self.reach.against and trouble.volume not in self.volumes:
            return False  # packets reach a volume through its links
        begun = self.since if trouble.due is None else trouble.due
        if self.until is None:
            return at - begun >= self.reach.detected_after
        return self.until - begun >= self.reach.detected_after and (
            at - self.until <= SETTLED or trouble.volume in self.volumes
        )

    def may_explain(self, trouble: ObservedState) -> bool:
        was_on = self.until is None or (trouble.due is not None and self.until > trouble.due)
        return was_on and (self.reach.covers(trouble) or self.reach.may_isolate(trouble))

    def may_hold_up(self, link: ObservedState) -> bool:
        """Return True if an end of the link may not work because of it."""
        return (
            self.active
            and not self.reach.against
            and any(node in self.reach.nodes for node in link.nodes)
        )


AnySuspect = TypeVar("AnySuspect", bound=SuspectedIncident)


def attribute_trouble(
    trouble: ObservedState, suspects: Iterable[AnySuspect], at: float
) -> tuple[AnySuspect | None, list[AnySuspect]]:
    """Return the incident that explains a trouble, and those that possibly do.

    An incident explains a trouble if its reach covers it, and if it has been active for long enough
    to be detected. Of several, the highest ExplanatoryPower decides, then the earliest start;
    earlier ones possibly explain it too. A volume's trouble with several explanations has no single
    owner. A missing link is explained by an incident that was active before the link was due,
    unless one of its nodes may not be working.
    """
    suspects = list(suspects)
    able = sorted(
        (each for each in suspects if each.explains(trouble, at)),
        key=lambda each: (-each.power, each.since),
    )
    if not able or (
        trouble.due is not None
        and (trouble.excused or any(each.may_hold_up(trouble) for each in suspects))
    ):
        return None, [each for each in suspects if each.may_explain(trouble)]
    best = able[0]
    if trouble.kind == VOLUME:
        needed = min(best.power, ExplanatoryPower.STOPS)
        together = [each for each in able if each.power >= needed]
        if len(together) > 1:
            return None, together
    return best, [each for each in able if each.since < best.since]
