"""Sums of counts by topology domain, that is, by the value of a node label.

Small clusters use dictionaries, large ones sum columns of the table. Trial changes of preemption
are kept apart and added on reading, never written into the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.node_table import (
        CodeColumn,
        NodeTable,
        Rows,
        Scores,
    )
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import PodCounts

    WeightedCounts = tuple[PodCounts, int]


MAX_NODES_ONE_BY_ONE = 256  # up to here one by one is faster than whole columns


class DomainSums(Protocol):
    """Sums of one topology key by domain, whatever holds them: a dictionary, or columns of the
    table.
    """

    total: int
    """Sum over all domains."""

    def get(self, value: str) -> int: ...

    def many(self, rows: Rows) -> Scores:
        """Return the sum of each row's domain; 0 for a node without the label."""

    def lowest(self, trial: Mapping[str, int]) -> int | None:
        """Return the smallest sum of any domain, with these trial changes by value; None without
        domains.
        """

    def __len__(self) -> int:
        """Return the number of domains."""


class DictDomainSums:
    """Sums in a dictionary, for clusters without a table."""

    def __init__(self, sums: dict[str, int]) -> None:
        self._sums = sums
        self.total = sum(sums.values())
        self._lowest = min(sums.values(), default=None)

    def get(self, value: str) -> int:
        return self._sums.get(value, 0)

    def many(self, rows: Rows) -> Scores:
        raise NotImplementedError

    def lowest(self, trial: Mapping[str, int]) -> int | None:
        if not trial:
            return self._lowest
        return min(
            (count + trial.get(value, 0) for value, count in self._sums.items()), default=None
        )

    def __len__(self) -> int:
        return len(self._sums)


class TableDomainSums:
    """Sums by code of a label's column. `present` masks the codes that are domains; without it
    neither `lowest` nor the number of domains is available.
    """

    def __init__(self, codes: CodeColumn, sums: Any, present: Any = None) -> None:
        self._codes = codes
        self._sums = sums
        self._present = present
        self.total = int(sums.sum())
        self._lowest: int | None = None

    def get(self, value: str) -> int:
        number = self._codes.number(value)
        return int(self._sums[number]) if 0 <= number < len(self._sums) - 1 else 0

    def many(self, rows: Rows) -> Scores:
        found: Scores = self._sums[self._codes.codes[rows]]
        return found

    def lowest(self, trial: Mapping[str, int]) -> int | None:
        if not len(self):
            return None
        if not trial:
            if self._lowest is None:
                self._lowest = int(self._sums[:-1][self._present].min())
            return self._lowest
        sums = self._sums.copy()
        for value, amount in trial.items():
            sums[self._codes.number(value)] += amount
        return int(sums[:-1][self._present].min())

    def __len__(self) -> int:
        return int(self._present.sum())


def sum_by_domain(
    key: str, tallies: Iterable[WeightedCounts], table: NodeTable | None
) -> DomainSums:
    """Return the sums of these counts in each domain of a topology key, each count times its
    weight.
    """
    if table is None:
        sums: dict[str, int] = {}
        for tally, weight in tallies:
            for node, count in tally.on.items():
                if node.obj is not None and key in node.labels:
                    value = node.labels[key]
                    sums[value] = sums.get(value, 0) + weight * count
        return DictDomainSums(sums)
    codes = table.label(key)
    return TableDomainSums(codes, sum_by_code(codes, list(tallies), table))


def sum_by_code(
    codes: CodeColumn, tallies: Sequence[WeightedCounts], table: NodeTable, rows: Rows | None = None
) -> Any:
    """Return sums by code of a column, over these rows or all, with a final 0 for nodes without the
    label. Few counts are added one by one, many as whole columns.
    """
    import numpy as np

    if sum(len(tally.on) for tally, _ in tallies) <= MAX_NODES_ONE_BY_ONE:
        return _sum_by_code_one_by_one(codes, tallies, rows)
    column = sum(weight * tally.column(table) for tally, weight in tallies)
    own = codes.codes if rows is None else codes.codes[rows]
    weights = column if rows is None else column[rows]
    sums = np.bincount(own + 1, weights, len(codes.values) + 1).astype(np.int64)
    return np.append(sums[1:], 0)


def _sum_by_code_one_by_one(
    codes: CodeColumn, tallies: Sequence[WeightedCounts], rows: Rows | None
) -> Any:
    import numpy as np

    sums = np.zeros(len(codes.values) + 1, np.int64)
    counts: Any = None
    if rows is not None:
        counts = np.zeros(len(codes.codes), np.bool_)
        counts[rows] = True
    for tally, weight in tallies:
        for node, count in tally.on.items():
            if node.row >= 0 and (counts is None or counts[node.row]):
                sums[codes.codes[node.row]] += weight * count
    sums[-1] = 0
    return sums


class TrialChanges:
    """Changes of counts by topology key and value that preemption tries out on a cloned state."""

    __slots__ = ("changes",)

    def __init__(self, changes: dict[str, dict[str, int]] | None = None) -> None:
        self.changes = changes or {}

    def add(self, key: str, value: str, amount: int) -> None:
        here = self.changes.setdefault(key, {})
        here[value] = here.get(value, 0) + amount

    def get(self, key: str, value: str) -> int:
        return self.changes[key].get(value, 0) if key in self.changes else 0

    @property
    def total(self) -> int:
        return sum(sum(here.values()) for here in self.changes.values())

    def clone(self) -> TrialChanges:
        return TrialChanges({key: dict(here) for key, here in self.changes.items()})
