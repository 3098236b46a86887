"""The pods on nodes, counted by what somebody is looking for.

Pods of one namespace with the same labels are one group. Who looks for pods asks for a tally once; from then on it is
kept: a pod that comes or goes changes the tallies of its group alone. A tally that nobody has asked for in a long time is
given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.counting.selecting import Catalogue, Choice
from pytest_kscen.simulation.scheduler.counting.tally import Tally
from pytest_kscen.simulation.scheduler.framework.snapshot import Watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

    Choices = tuple[Choice, ...]
    Alike = tuple[str, frozenset[tuple[str, str]], bool]

MOST = 1024  # tallies that are kept


class _Group:
    """Pods that are alike."""

    __slots__ = ("going", "labels", "namespace", "on", "tallies")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace, self.labels, self.going = pod.namespace, pod.labels, _is_going(pod)
        self.on: dict[NodeInfo, int] = {}
        self.tallies: dict[Choices, Tally] = {}

    def is_meant(self, choices: Choices) -> bool:
        return all(choice.means(self.namespace, self.labels, going=self.going) for choice in choices)


class Crowd(Watcher):
    """`snapshot.shared(Crowd).tally(choice, …)`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._groups: dict[Alike, _Group] = {}
        self._by_labels: dict[tuple[str, str], dict[Alike, _Group]] = {}
        self._tallies: dict[Choices, Tally] = {}
        self._wanted: Catalogue[tuple[Choices, Tally]] = Catalogue()

    def tally(self, *choices: Choice) -> Tally:
        """The pods that all of these choices mean, by node."""
        tally = self._tallies.pop(choices, None)
        if tally is None:
            tally = self._begin(choices)
        self._tallies[choices] = tally
        if len(self._tallies) > self._most:
            self._give_up(next(iter(self._tallies)))
        return tally

    def _begin(self, choices: Choices) -> Tally:
        tally = Tally()
        self._wanted.add(choices, choices[0].labels, (choices, tally))
        for group in self._candidates(choices[0]).values():
            if group.is_meant(choices):
                tally.add_all(group.on)
                group.tallies[choices] = tally
        return tally

    def _candidates(self, choice: Choice) -> Mapping[Alike, _Group]:
        for requirement in choice.labels or ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return self._by_labels.get((requirement.key, next(iter(requirement.values))), {})
        return self._groups

    def _give_up(self, choices: Choices) -> None:
        del self._tallies[choices]
        self._wanted.remove(choices, choices[0].labels)
        for group in self._groups.values():
            group.tallies.pop(choices, None)

    # --- what happens ---

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None:
        alike = pod.memo("alike", _alike)
        group = self._groups.get(alike) or self._join(alike, _Group(pod))
        group.on[node] = group.on.get(node, 0) + 1
        for tally in group.tallies.values():
            tally.add(node, 1)

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None:
        alike = pod.memo("alike", _alike)
        group = self._groups[alike]
        for tally in group.tallies.values():
            tally.add(node, -1)
        group.on[node] -= 1
        if not group.on[node]:
            del group.on[node]
        if not group.on:
            self._leave(alike, group)

    def _join(self, alike: Alike, group: _Group) -> _Group:
        self._groups[alike] = group
        for label in group.labels.items():
            self._by_labels.setdefault(label, {})[alike] = group
        group.tallies = {choices: tally for choices, tally in self._wanted.about(group.labels) if group.is_meant(choices)}
        return group

    def _leave(self, alike: Alike, group: _Group) -> None:
        del self._groups[alike]
        for label in group.labels.items():
            del self._by_labels[label][alike]
            if not self._by_labels[label]:
                del self._by_labels[label]


def _alike(pod: PodInfo) -> Alike:
    return pod.namespace, frozenset(pod.labels.items()), _is_going(pod)


def _is_going(pod: PodInfo) -> bool:
    return bool(pod.obj["metadata"].get("deletionTimestamp"))
