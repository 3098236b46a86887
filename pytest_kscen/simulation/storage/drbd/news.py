"""What listeners hear: once for each instant in which a node's view of a resource has become another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd.report import face

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.simulation.storage.drbd.volume import Volume
    from pytest_kscen.simulation.storage.drbd.words import Status

    Listener = Callable[[str, str], None]


class News:
    """Collects what has changed, and tells it when the instant's other work is begun."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._listeners: list[Listener] = []
        self._touched: dict[str, Volume] = {}
        self._told: dict[str, dict[str, Status]] = {}

    def join(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def of(self, volume: Volume) -> None:
        if not self._touched:
            self._soon(self._tell)
        self._touched[volume.name] = volume

    def _tell(self) -> None:
        touched, self._touched = self._touched, {}
        for name, volume in touched.items():
            told = self._told.pop(name, {})
            faces = {node: seen for node in volume.replicas if (seen := face(volume, node))}
            if faces:
                self._told[name] = faces
            for node in {**told, **faces}:
                if told.get(node) != faces.get(node):
                    for listener in self._listeners:
                        listener(node, name)
