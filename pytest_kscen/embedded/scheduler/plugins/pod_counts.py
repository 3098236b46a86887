"""Counts of pods per node, kept up to date with each change, for affinity and topology spreading.

`MatchingPodCounts` counts pods that match a selector; `affinity_terms` uses the same index for
terms of assigned pods. No plugin may be imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_kscen.embedded.scheduler.framework.snapshot import Watcher
from pytest_kscen.objects.selectors import Requirement, requirements_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

    PodSelectors = tuple["PodSelector", ...]
    EqualPodsKey = tuple[str, frozenset[tuple[str, str]], bool]


class PodCounts:
    """Number of something per node, as a dictionary and, once requested, as a column of the
    table.
    """

    __slots__ = ("_changes", "_column", "_table", "on")

    def __init__(self) -> None:
        self.on: dict[NodeInfo, int] = {}
        """Counts by node, without zeros. Nodes that do not exist but are named by pods count
        too.
        """
        self._column: Any = None
        self._table: NodeTable | None = None
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

    def column(self, table: NodeTable) -> Any:
        """Return the counts by row. The column is rebuilt when nodes have changed, as rows move
        only then.
        """
        if self._table is not table or self._changes != table.changes:
            import numpy as np

            self._column = np.zeros(len(table.pods), np.int64)
            for node, count in self.on.items():
                if node.row >= 0:
                    self._column[node.row] = count
            self._table, self._changes = table, table.changes
        return self._column


T = TypeVar("T")
LabelRequirements = tuple[Requirement, ...]


def selector_requirements(selector: Obj | None) -> LabelRequirements | None:
    """Return a LabelSelector's requirements. None matches nothing; an empty selector matches
    everything.
    """
    return None if selector is None else tuple(requirements_of(selector))


def requirements_hold(requirements: LabelRequirements | None, labels: Mapping[str, str]) -> bool:
    return requirements is not None and all(
        requirement.holds(labels) for requirement in requirements
    )


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selection of pods by namespaces and labels. Equal selectors share one count, so this is a
    value.
    """

    namespaces: frozenset[str] | None
    """Namespaces that match; None for all."""
    labels: LabelRequirements | None
    excludes_terminating: bool = False
    """Exclude pods that are being deleted."""

    def matches(
        self, namespace: str, labels: Mapping[str, str], *, terminating: bool = False
    ) -> bool:
        if self.excludes_terminating and terminating:
            return False
        return (self.namespaces is None or namespace in self.namespaces) and requirements_hold(
            self.labels, labels
        )


class LabelIndex(Generic[T]):
    """Index of items with a label selector, found by a pod's labels. Selectors with an In
    requirement are found by one dictionary lookup per label; others are returned for every pod.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[Hashable, T]] = {}
        self._others: dict[Hashable, T] = {}

    def add(self, key: Hashable, labels: LabelRequirements | None, item: T) -> None:
        for bucket in self._buckets(labels):
            bucket[key] = item

    def remove(self, key: Hashable, labels: LabelRequirements | None) -> None:
        for bucket in self._buckets(labels):
            bucket.pop(key, None)
        for label in _required_labels(labels) or ():
            if not self._by_label[label]:
                del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield things that may match such labels; the caller must still check each."""
        for label in labels.items():
            if label in self._by_label:
                yield from self._by_label[label].values()
        yield from self._others.values()

    def _buckets(self, labels: LabelRequirements | None) -> list[dict[Hashable, T]]:
        needed = _required_labels(labels)
        if needed is None:
            return [self._others]
        return [self._by_label.setdefault(label, {}) for label in needed]


def _required_labels(labels: LabelRequirements | None) -> list[tuple[str, str]] | None:
    """Return labels of which a matching pod has exactly one, taken from the first In requirement;
    None if the selector has none.
    """
    for requirement in labels or ():
        if requirement.operator == "In":
            return [(requirement.key, value) for value in sorted(requirement.values)]
    return None


MAX_COUNTS = 1024  # counts kept up to date at a time


class _EqualPods:
    """Assigned pods with equal namespace, labels and deletion state, counted together by node."""

    __slots__ = ("labels", "namespace", "on", "tallies", "terminating")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace, self.labels, self.terminating = (
            pod.namespace,
            pod.labels,
            _is_terminating(pod),
        )
        self.on: dict[NodeInfo, int] = {}
        self.tallies: dict[PodSelectors, PodCounts] = {}

    def matches(self, selectors: PodSelectors) -> bool:
        return all(
            selector.matches(self.namespace, self.labels, terminating=self.terminating)
            for selector in selectors
        )


class MatchingPodCounts(Watcher):
    """Counts of assigned pods by selector, shared by all plugins:
    `snapshot.shared(MatchingPodCounts).tally(selector, …)`.

    A count is made on first request and then kept up to date: a change of a pod touches only the
    counts that match it. The least recently requested counts are dropped above 1,024.
    """

    def __init__(self, max_counts: int = MAX_COUNTS) -> None:
        self._max_counts = max_counts
        self._groups: dict[EqualPodsKey, _EqualPods] = {}
        self._by_labels: dict[tuple[str, str], dict[EqualPodsKey, _EqualPods]] = {}
        self._tallies: dict[PodSelectors, PodCounts] = {}
        self._by_selector: LabelIndex[tuple[PodSelectors, PodCounts]] = LabelIndex()

    def tally(self, *selectors: PodSelector) -> PodCounts:
        """Return the counts by node of pods that match all of these selectors; live, and valid
        until 1,024 others were requested.
        """
        tally = self._tallies.pop(selectors, None)
        if tally is None:
            tally = PodCounts()
            self._by_selector.add(selectors, selectors[0].labels, (selectors, tally))
            for group in self._candidates(selectors[0]).values():
                if group.matches(selectors):
                    tally.add_all(group.on)
                    group.tallies[selectors] = tally
        self._tallies[selectors] = tally
        if len(self._tallies) > self._max_counts:
            oldest = next(iter(self._tallies))
            del self._tallies[oldest]
            self._by_selector.remove(oldest, oldest[0].labels)
            for group in self._groups.values():
                group.tallies.pop(oldest, None)
        return tally

    def _candidates(self, selector: PodSelector) -> Mapping[EqualPodsKey, _EqualPods]:
        for requirement in selector.labels or ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return self._by_labels.get((requirement.key, next(iter(requirement.values))), {})
        return self._groups

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None:
        alike = pod.memo("alike", _equal_pods_key)
        group = self._groups.get(alike)
        if group is None:
            group = self._groups[alike] = _EqualPods(pod)
            for label in group.labels.items():
                self._by_labels.setdefault(label, {})[alike] = group
            group.tallies = {
                selectors: tally
                for selectors, tally in self._by_selector.candidates(group.labels)
                if group.matches(selectors)
            }
        group.on[node] = group.on.get(node, 0) + 1
        for tally in group.tallies.values():
            tally.add(node, 1)

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None:
        alike = pod.memo("alike", _equal_pods_key)
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


def _equal_pods_key(pod: PodInfo) -> EqualPodsKey:
    return pod.namespace, frozenset(pod.labels.items()), _is_terminating(pod)


def _is_terminating(pod: PodInfo) -> bool:
    return bool(pod.obj["metadata"].get("deletionTimestamp"))
