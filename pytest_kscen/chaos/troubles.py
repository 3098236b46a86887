"""What is out of order in a cluster, as its API tells it: links, volumes, nodes and machines that were well and are not.

What has never been well is no trouble: it is only beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.chaos.replicas import node_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.storage import volume_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.volume_health import Observed

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
        there = [aspect.key for aspect in new]
        for aspect in old:
            if aspect.key not in there:
                self._well.pop(aspect.key, None)
                self._end(aspect.key)
        for aspect in new:
            key = aspect.key
            if aspect.well:
                self._well[key] = None
                self._end(key)
            elif key in self._well and key not in self._troubles and not (going or aspect.excused):
                self._troubles[key] = aspect
                self._began(aspect)

    def _end(self, key: Key) -> None:
        if key in self._troubles:
            self._over(self._troubles.pop(key))


# --- what objects say ---


def readiness(node: Obj) -> Obj | None:
    return condition(node, "Ready")


def of_node(node: Obj, ready: Obj) -> list[Aspect]:
    name = node["metadata"]["name"]
    return [Aspect((NODE, name), ready["status"] == "True", ready.get("reason") or ready["status"], (name,))]


def phase(machine: Obj) -> str | None:
    return (machine.get("status") or {}).get("phase")


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
