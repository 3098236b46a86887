"""Pods for which there was no node, found again by the plugins that turned them down."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.simulation.scheduler.queueing.queued import QueuedPod


class Parked:
    """A shelf. While a pod is on it, nobody changes who turned it down."""

    def __init__(self) -> None:
        self._pods: dict[Ref, QueuedPod] = {}
        self._by_plugin: dict[str, dict[Ref, QueuedPod]] = {}

    def add(self, queued: QueuedPod) -> None:
        ref = queued.pod.ref
        self._pods[ref] = queued
        for plugin in queued.rejectors | queued.pending:
            self._by_plugin.setdefault(plugin, {})[ref] = queued

    def pop(self, ref: Ref, default: None = None) -> QueuedPod | None:
        queued = self._pods.pop(ref, default)
        if queued is not None:
            for plugin in queued.rejectors | queued.pending:
                self._by_plugin.get(plugin, {}).pop(ref, None)
        return queued

    def get(self, ref: Ref) -> QueuedPod | None:
        return self._pods.get(ref)

    def turned_down_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """By any of these, in the order in which they came back."""
        found = {ref: queued for plugin in plugins for ref, queued in self._by_plugin.get(plugin, {}).items()}
        return sorted(found.values(), key=lambda queued: queued.turn)

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
