"""What is out of order in a cluster, as its API tells it: links, volumes, nodes and machines that were well and are not.

What has never been well is no trouble: it is only beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.chaos.replicas import node_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, volume_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.volume_health import HealthSource

Key: TypeAlias = tuple[str, ...]

LINK, VOLUME, NODE, MACHINE = "link", "volume", "node", "machine"
CONNECTED, RUNNING = "Connected", "Running"


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
    """Whether it may fail as it likes: its other end is going."""

    @property
    def kind(self) -> str:
        return self.key[0]

    @property
    def words(self) -> str:
        return WORDS[self.kind].format(key=self.key, state=self.state, nodes=self.nodes, volume=self.volume)


class Troubles:
    """All troubles of one cluster, kept by the changes of its objects. Who listens hears of each beginning and each end."""

    def __init__(self, began: Callable[[Aspect], None], over: Callable[[Aspect], None]) -> None:
        self._began = began
        self._over = over
        self._well: dict[Key, None] = {}
        self._troubles: dict[Key, Aspect] = {}

    def see(self, old: list[Aspect], new: list[Aspect], *, going: bool) -> None:
        """An object's aspects have changed; one that is being deleted may fail as it likes."""
        there = {aspect.key: None for aspect in new}
        for aspect in old:
            if aspect.key not in there:
                self._well.pop(aspect.key, None)
                self._end(aspect.key)
        for aspect in new:
            if aspect.well:
                self._well[aspect.key] = None
                self._end(aspect.key)
            elif aspect.key in self._well and aspect.key not in self._troubles and not (going or aspect.excused):
                self._troubles[aspect.key] = aspect
                self._began(aspect)

    def _end(self, key: Key) -> None:
        if trouble := self._troubles.pop(key, None):
            self._over(trouble)


# --- what objects say ---


def of_node(node: Obj) -> Iterator[Aspect]:
    name = node["metadata"]["name"]
    if ready := condition(node, "Ready"):
        yield Aspect((NODE, name), ready["status"] == "True", ready.get("reason") or ready["status"], (name,))


def of_machine(machine: Obj) -> Iterator[Aspect]:
    name = machine["metadata"]["name"]
    if phase := (machine.get("status") or {}).get("phase"):
        yield Aspect((MACHINE, name), phase == RUNNING, phase, (name,))


def of_volume(volume: Obj, health: HealthSource, nodes: tuple[str, ...]) -> Iterator[Aspect]:
    name = volume["metadata"]["name"]
    for which, seen in health.read(volume).items():
        state = f"{seen.status} ({seen.reason})" if seen.reason else seen.status
        yield Aspect((VOLUME, name, which), seen.holds, state, nodes, name)


def of_replica(replica: Obj, siblings: Iterable[Obj]) -> Iterator[Aspect]:
    """Its links to others of its volume. A peer goes by its replica's name or by its node's, as the generation has it."""
    name, volume, node = replica["metadata"]["name"], volume_of(replica), node_of(replica)
    if connections := list(_connections(replica.get("status") or {})):
        nodes = {}
        for each in siblings:
            if not each["metadata"].get("deletionTimestamp"):
                nodes[node_of(each)] = nodes[each["metadata"]["name"]] = node_of(each)
        for peer, state in connections:
            ends = (node, nodes.get(peer, peer))
            yield Aspect((LINK, name, peer), state == CONNECTED, state, ends, volume, excused=peer not in nodes)


def says_the_same(new: Obj, old: Obj) -> bool:
    """Whether a replica that stays says nothing else of its links than it did."""
    if new.get("kind") != REPLICATED_VOLUME_REPLICAS.kind or new["metadata"].get("deletionTimestamp"):
        return False
    now, before = new.get("status") or {}, old.get("status") or {}
    if _of_drbd(now) is _of_drbd(before) and now.get("peers") is before.get("peers"):
        return True  # what was left alone is the same object
    return list(_connections(now)) == list(_connections(before))


def _of_drbd(status: Obj) -> Obj | None:
    return (status.get("drbd") or {}).get("status")


def _connections(status: Obj) -> Iterator[tuple[str, str]]:
    of_drbd = _of_drbd(status) or {}
    for each in (*(of_drbd.get("connections") or ()), *(status.get("peers") or ())):
        if each.get("name") and each.get("connectionState"):
            yield each["name"], each["connectionState"]
