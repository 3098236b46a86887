"""Where a volume lives: noted from its creation on, whenever other nodes have its replicas than before, and when it goes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.megatest.view import REPLICA, VOLUME
from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj


@contextlib.contextmanager
def placement_noted(rv: Subject, actor: Actor) -> Iterator[None]:
    life = _Life(rv, actor)
    with rv.view.listening(rv.name, life.look, to=(VOLUME, REPLICA)):
        life.look()
        yield


@dataclass(slots=True)
class _Life:
    """What was seen and noted last."""

    rv: Subject
    actor: Actor
    specs: list[Obj] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    volume: Obj | None = None

    def look(self) -> None:
        """Either the volume has changed or a replica of it."""
        before, self.volume = self.volume, self.rv.volume
        if before is None or self.volume is before:
            specs = [replica["spec"] for replica in self.rv.view.replicas(self.rv.name)]
            if specs != self.specs:
                self.specs = specs
                self._compare(_ranked(specs))
        if _stays(before) and not _stays(self.volume):
            self.actor.note("volume-went", volume=self.rv.name)

    def _compare(self, nodes: list[str]) -> None:
        if set(nodes) != set(self.nodes):
            self.nodes = nodes
            self.actor.note("volume-placed", volume=self.rv.name, nodes=nodes)


def _stays(volume: Obj | None) -> bool:
    return volume is not None and not volume["metadata"].get("deletionTimestamp")


def nodes_of(replicas: Iterable[Obj]) -> list[str]:
    """The nodes, those with data first."""
    return _ranked(replica["spec"] for replica in replicas)


def _ranked(specs: Iterable[Obj]) -> list[str]:
    placed = [spec for spec in specs if spec.get("nodeName")]
    ranked = sorted(placed, key=lambda spec: (spec.get("type") != DISKFUL, spec["nodeName"]))
    return list(dict.fromkeys(spec["nodeName"] for spec in ranked))
