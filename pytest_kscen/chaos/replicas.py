"""Where volumes' replicas are, and the links between them, as the storage's API tells it in each of its generations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kscen.chaos.hands import Hands
    from pytest_kscen.objects.resources import Obj


@dataclass(frozen=True, slots=True)
class Link:
    """What joins a replica to another of the same volume. Each end listens on a port of its own, and either may dial."""

    volume: str
    node: str
    peer: str
    ports: tuple[int, int]


async def links_of(hands: Hands, node: str) -> list[Link]:
    """The links that have an end on this node, in the order of their volumes' keys: that of the names is a salt's."""
    try:
        replicas = (await hands.nested.api.list(REPLICATED_VOLUME_REPLICAS)).items
    except NotFound:  # there is no such storage here
        return []
    return list(links(sorted(replicas, key=lambda replica: _without_salt(replica, hands.keys)), node))


def _without_salt(replica: Obj, keys: Mapping[str, str]) -> str:
    """The replica's name with its volume's key."""
    volume, name = volume_of(replica), str(replica["metadata"]["name"])
    return keys.get(volume, volume) + name.removeprefix(volume)


def links(replicas: Iterable[Obj], node: str) -> Iterator[Link]:
    placed = [replica for replica in replicas if node_of(replica) and port_of(replica)]
    for own in placed:
        if node_of(own) == node:
            for other in placed:
                if volume_of(other) == volume_of(own) and node_of(other) != node:
                    yield Link(volume_of(own), node, node_of(other), (port_of(own), port_of(other)))


def node_of(replica: Obj) -> str:
    return str((replica.get("spec") or {}).get("nodeName") or "")


def port_of(replica: Obj) -> int:
    """Where it listens; 0 as long as it does not."""
    status = replica.get("status") or {}
    config = (status.get("drbd") or {}).get("config") or {}
    places = [config.get("address") or {}, *(each.get("address") or {} for each in status.get("addresses") or ())]
    return next((int(place["port"]) for place in places if place.get("port")), 0)
