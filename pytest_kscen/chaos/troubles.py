"""What is out of order in a cluster, as its API tells it: links, volumes, nodes and machines that were well and are not.

What has never been well is no trouble: it is only beginning. A link is due, though, when both ends say that they try it; whoever
is told of that says later whether that was too long ago, and then it is a trouble as well, until it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.chaos.replicas import node_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.storage import volume_of
from pytest_kscen.objects.virtualization import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.volume_health import Observed

Key: TypeAlias = tuple[str, ...]

LINK, VOLUME, NODE, MACHINE = "link", "volume", "node", "machine"
CONNECTED = "Connected"
REFUSING = ("StandAlone", "Disconnecting")
"""What an end says of a link that it does not try."""
NOT_MADE = "the link of {volume} from {nodes[0]} to {nodes[1]} is not made ({state})"
WORDS = {
    LINK: "the link of {volume} from {nodes[0]} to {nodes[1]} is {state}",
    VOLUME: "{key[2]} of the volume {volume} is {state}",
    NODE: "the node {key[1]} is not ready ({state})",
    MACHINE: "the machine {key[1]} is {state}",
}


class Aspect(NamedTuple):
    """One thing that an object says of itself. The key begins with its kind."""

    key: Key
    well: bool
    state: str
    nodes: tuple[str, ...]
    volume: str = ""
    excused: bool = False
    """Whether it may fail as it likes: its other end is going, or a node of a link that is to be made is down."""
    due: float | None = None
    """Since when it was to be made, if it is a link that has never been."""

    @property
    def kind(self) -> str:
        return self.key[0]

    @property
    def words(self) -> str:
        words = WORDS[self.kind] if self.due is None else NOT_MADE
        return words.format(key=self.key, state=self.state, nodes=self.nodes, volume=self.volume)

    @property
    def is_tried(self) -> bool:
        return self.kind == LINK and not self.well and self.state not in REFUSING


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """A link that was never made, as both of its ends tell it, who try."""

    ends: tuple[Aspect, Aspect]


class Troubles:
    """All troubles of one cluster, kept by the changes of its objects. Who listens hears of each beginning and each end.

    An end is that it is well again, or is asked of nobody any more; or that what was in trouble went before that. Who listens
    hears as well of each link that is due from now on.
    """

    def __init__(
        self,
        began: Callable[[Aspect], None],
        over: Callable[[Aspect], None],
        went: Callable[[Aspect], None],
        is_due: Callable[[Due], None] = lambda _: None,
    ) -> None:
        self._began = began
        self._over = over
        self._went = went
        self._is_due = is_due
        self._well: dict[Key, None] = {}
        self._troubles: dict[Key, Aspect] = {}
        self._tried: dict[Key, Aspect] = {}
        """The ends of links that were never made, by volume, node and peer."""
        self._tried_as: dict[Key, Key] = {}
        """Where each is among those: its peer may be called otherwise later."""
        self._due: dict[Key, Due] = {}
        """By either end."""

    def see(self, old: list[Aspect], new: list[Aspect], *, going: bool = False, gone: bool = False) -> None:
        """An object's aspects have changed; one that is being deleted may fail as it likes, one that is gone is well no more."""
        there = [aspect.key for aspect in new]
        for aspect in old:
            if aspect.key not in there:
                self._well.pop(aspect.key, None)
                self._end(aspect.key, self._went if gone else self._over)
                self._is_not_tried(aspect)
        for aspect in new:
            key, may_fail = aspect.key, going or aspect.excused
            if aspect.well:
                self._well[key] = None
                self._end(key, self._over)
            elif key in self._well and key not in self._troubles and not may_fail:
                self._troubles[key] = aspect
                self._began(aspect)
            if aspect.is_tried and key not in self._well and not may_fail:
                self._is_tried(aspect)
            else:
                self._is_not_tried(aspect)

    def is_still_due(self, due: Due) -> bool:
        """Neither end has said anything else since."""
        return self._due.get(_end_of(due.ends[0])) is due

    def never_came(self, due: Due, since: float) -> None:
        """It was due too long ago. While a node of it is down, nothing follows from that."""
        for end in due.ends:
            if end.key in self._troubles:
                continue
            down = any((kind, node) in self._troubles for kind in (NODE, MACHINE) for node in end.nodes)
            trouble = self._troubles[end.key] = end._replace(due=since, excused=down)
            self._began(trouble)

    def _end(self, key: Key, tell: Callable[[Aspect], None]) -> None:
        if key in self._troubles:
            tell(self._troubles.pop(key))

    def _is_tried(self, aspect: Aspect) -> None:
        here, there = _end_of(aspect), _other_end_of(aspect)
        if self._tried_as.get(aspect.key, here) != here:
            self._is_not_tried(aspect)
        self._tried[here], self._tried_as[aspect.key] = aspect, here
        if there in self._tried and here not in self._due:
            self._due[here] = self._due[there] = due = Due((self._tried[there], aspect))
            self._is_due(due)

    def _is_not_tried(self, aspect: Aspect) -> None:
        """By one end is enough: it is made, or is to be no more."""
        here = self._tried_as.pop(aspect.key, None)
        if here and self._tried[here].key == aspect.key:
            del self._tried[here]
            volume, node, peer = here
            for end in (here, (volume, peer, node)):
                self._due.pop(end, None)


def _end_of(link: Aspect) -> Key:
    return link.volume, *link.nodes


def _other_end_of(link: Aspect) -> Key:
    return link.volume, *reversed(link.nodes)


# --- what objects say ---


def readiness(node: Obj) -> Obj | None:
    return condition(node, "Ready")


def of_node(node: Obj, ready: Obj) -> list[Aspect]:
    name = node["metadata"]["name"]
    return [Aspect((NODE, name), ready["status"] == "True", ready.get("reason") or ready["status"], (name,))]


def of_machine(machine: Obj, phase: str) -> list[Aspect]:
    name = machine["metadata"]["name"]
    return [Aspect((MACHINE, name), phase == RUNNING, phase, (name,))]


def of_volume(volume: Obj, health: dict[str, Observed], nodes: tuple[str, ...]) -> list[Aspect]:
    name = volume["metadata"]["name"]
    return [
        Aspect((VOLUME, name, which), seen.holds, f"{seen.status} ({seen.reason})" if seen.reason else seen.status, nodes, name)
        for which, seen in health.items()
    ]


def connections(replica: Obj) -> list[tuple[str, str]]:
    """Its peers, and how it is connected with each."""
    status = replica.get("status") or {}
    of_drbd = _of_drbd(status) or {}
    return [
        (each["name"], each["connectionState"])
        for each in (*(of_drbd.get("connections") or ()), *(status.get("peers") or ()))
        if each.get("name") and each.get("connectionState")
    ]


def of_replica(replica: Obj, connections: Iterable[tuple[str, str]], siblings: Iterable[Obj]) -> Iterator[Aspect]:
    """Its links to others of its volume. A peer goes by its replica's name or by its node's, as the generation has it."""
    name, volume, node = replica["metadata"]["name"], volume_of(replica), node_of(replica)
    nodes = {}
    for each in siblings:
        if not each["metadata"].get("deletionTimestamp"):
            nodes[node_of(each)] = nodes[each["metadata"]["name"]] = node_of(each)
    for peer, state in connections:
        ends = (node, nodes.get(peer, peer))
        yield Aspect((LINK, name, peer), state == CONNECTED, state, ends, volume, excused=peer not in nodes)


def has_same_links(new: Obj, old: Obj) -> bool:
    """Whether a replica's links were not written at all, told at a glance: what is left alone is the same object."""
    now, before = new.get("status") or {}, old.get("status") or {}
    return now is before or (_of_drbd(now) is _of_drbd(before) and now.get("peers") is before.get("peers"))


def _of_drbd(status: Obj) -> Obj | None:
    return (status.get("drbd") or {}).get("status")
