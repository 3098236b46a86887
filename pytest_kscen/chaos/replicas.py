"""Where volumes' replicas are, and the links between them, as the storage's API tells it in each of its generations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj


@dataclass(frozen=True, slots=True)
class Link:
    """What joins a replica to another of the same volume. Each end listens on a port of its own, and either may dial."""

    volume: str
    node: str
    peer: str
    ports: tuple[int, int]


async def links_of(actor: Actor, node: str) -> list[Link]:
    """The links that have an end on this node."""
    try:
        replicas = (await actor.api.list(REPLICATED_VOLUME_REPLICAS)).items
    except NotFound:  # there is no such storage here
        return []
    return list(links(replicas, node))


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
