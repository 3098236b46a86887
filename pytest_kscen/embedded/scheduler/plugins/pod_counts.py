"""How many pods of a kind are on each node, kept with each change: what affinity and spreading ask
again and again.

`crowd.Crowd` counts the pods that somebody is looking for, `standing.Standing` the wishes of the
pods that are there;
`domains` adds up what is on the nodes by the value of a topology key. Nothing in here knows a
plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_kscen.embedded.scheduler.framework.snapshot import Watcher
from pytest_kscen.objects.selectors import Requirement, requirements_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from pytest_kscen.embedded.scheduler.framework.node_table import Table
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

    Choices = tuple["Choice", ...]
    Alike = tuple[str, frozenset[tuple[str, str]], bool]


# How many of something are on each node.


class Tally:
    """By node; and, once somebody has asked for it, as a column of the table."""

    __slots__ = ("_changes", "_column", "_table", "on")

    def __init__(self) -> None:
        self.on: dict[NodeInfo, int] = {}
        """Nodes with none are not in it; some may not be there, only pods that say they are on
        them.
        """
        self._column: Any = None
        self._table: Table | None = None
        self._changes = -1

    def add(self, node: NodeInfo, amount: int) -> None:
        count = self.on.get(node, 0) + amount
        if count:
            self.on[node] = count
        else:
            del self.on[node]
        if self._column is not None and 0 <= node.row < len(self._column):
            self._column[node.row] += amount

    def add_all(self, counts: Mapping[NodeInfo, int]) -> None:
        for node, count in counts.items():
            self.add(node, count)

    def column(self, table: Table) -> Any:
        """The numbers by row. Rows move only when nodes change, and the table counts that."""
        if self._table is not table or self._changes != table.changes:
            import numpy as np

            self._column = np.zeros(len(table.pods), np.int64)
            for node, count in self.on.items():
                if node.row >= 0:
                    self._column[node.row] = count
            self._table, self._changes = table, table.changes
        return self._column


# Which pods are meant: those of some namespaces with certain labels. Choices are values; equal
# ones share a count.


T = TypeVar("T")
Labels = tuple[Requirement, ...]


def labels_of(selector: Obj | None) -> Labels | None:
    """A LabelSelector; None is one that matches nothing, as opposed to one that is empty and
    matches everything.
    """
    return None if selector is None else tuple(requirements_of(selector))


def hold(requirements: Labels | None, labels: Mapping[str, str]) -> bool:
    return requirements is not None and all(
        requirement.holds(labels) for requirement in requirements
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """These pods."""

    namespaces: frozenset[str] | None
    """None: all of them."""
    labels: Labels | None
    living: bool = False
    """Not those that are being deleted."""

    def means(self, namespace: str, labels: Mapping[str, str], *, going: bool = False) -> bool:
        if self.living and going:
            return False
        return (self.namespaces is None or namespace in self.namespaces) and hold(
            self.labels, labels
        )


class Catalogue(Generic[T]):
    """Things that are about certain labels, found by those of a pod without looking at all of
    them.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Hashable, T]] = {}
        self._others: dict[Hashable, T] = {}

    def add(self, key: Hashable, labels: Labels | None, thing: T) -> None:
        for shelf in self._shelves(labels):
            shelf[key] = thing

    def remove(self, key: Hashable, labels: Labels | None) -> None:
        for shelf in self._shelves(labels):
            shelf.pop(key, None)
        for label in _needed(labels) or ():
            if not self._by_label[label]:
                del self._by_label[label]

    def about(self, labels: Mapping[str, str]) -> Iterator[T]:
        """What may be about such a pod; whether it is, is still to be seen."""
        for label in labels.items():
            if label in self._by_label:
                yield from self._by_label[label].values()
        yield from self._others.values()

    def _shelves(self, labels: Labels | None) -> list[dict[Hashable, T]]:
        needed = _needed(labels)
        if needed is None:
            return [self._others]
        return [self._by_label.setdefault(label, {}) for label in needed]


def _needed(labels: Labels | None) -> list[tuple[str, str]] | None:
    """Labels of which a pod needs one, if the choice says so; they exclude each other."""
    for requirement in labels or ():
        if requirement.operator == "In":
            return [(requirement.key, value) for value in sorted(requirement.values)]
    return None


# The pods on nodes, counted by what somebody is looking for. Pods of one namespace with the
# same labels are one group. Who looks for pods asks for a tally once; from then on it is kept:
# a pod that comes or goes changes the tallies of its group alone. A tally that nobody has asked
# for in a long time is given up.


MOST = 1024  # tallies that are kept


class _Group:
    """Pods that are alike."""

    __slots__ = ("going", "labels", "namespace", "on", "tallies")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace, self.labels, self.going = pod.namespace, pod.labels, _is_going(pod)
        self.on: dict[NodeInfo, int] = {}
        self.tallies: dict[Choices, Tally] = {}

    def is_meant(self, choices: Choices) -> bool:
        return all(
            choice.means(self.namespace, self.labels, going=self.going) for choice in choices
        )


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
            del self._groups[alike]
            for label in group.labels.items():
                del self._by_labels[label][alike]
                if not self._by_labels[label]:
                    del self._by_labels[label]

    def _join(self, alike: Alike, group: _Group) -> _Group:
        self._groups[alike] = group
        for label in group.labels.items():
            self._by_labels.setdefault(label, {})[alike] = group
        group.tallies = {
            choices: tally
            for choices, tally in self._wanted.about(group.labels)
            if group.is_meant(choices)
        }
        return group


def _alike(pod: PodInfo) -> Alike:
    return pod.namespace, frozenset(pod.labels.items()), _is_going(pod)


def _is_going(pod: PodInfo) -> bool:
    return bool(pod.obj["metadata"].get("deletionTimestamp"))
