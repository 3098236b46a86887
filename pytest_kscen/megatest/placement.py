"""Where a volume lives: noted from its creation on, whenever other nodes have its replicas than before."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj


@contextlib.contextmanager
def placement_noted(rv: Subject, actor: Actor) -> Iterator[None]:
    last: list[str] = []

    def look() -> None:
        nodes = nodes_of(rv.view.replicas(rv.name))
        if sorted(nodes) != sorted(last):
            last[:] = nodes
            actor.note("volume-placed", volume=rv.name, nodes=nodes)

    with rv.view.listening(rv.name, look):
        look()
        yield


def nodes_of(replicas: Iterable[Obj]) -> list[str]:
    """The nodes, those with data first."""
    specs = [replica["spec"] for replica in replicas if replica["spec"].get("nodeName")]
    ranked = sorted(specs, key=lambda spec: (spec.get("type") != DISKFUL, spec["nodeName"]))
    return list(dict.fromkeys(spec["nodeName"] for spec in ranked))
