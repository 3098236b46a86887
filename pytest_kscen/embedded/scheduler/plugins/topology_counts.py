"""Numbers by topology: what is on the nodes, added up by the value that they have of a label.

In a small cluster a dictionary does; in a large one a table's columns are added up at once. What is
only thought of, such as a pod that would be gone, is put on top and never into the sums themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.node_table import Codes, Rows, Scores, Table
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import Tally

    Weighted = tuple[Tally, int]


FEW = 256  # nodes that are quicker looked at one by one than all nodes at once


class Sums(Protocol):
    """The sums of one topology key."""

    total: int
    """Of all domains."""

    def get(self, value: str) -> int: ...

    def many(self, rows: Rows) -> Scores:
        """For each row the sum of its domain; 0 for a node that has no such label."""

    def lowest(self, thought: Mapping[str, int]) -> int | None:
        """The smallest sum of any domain; None if there is no domain."""

    def __len__(self) -> int:
        """How many domains there are."""


class FewSums:
    """In a dictionary."""

    def __init__(self, sums: dict[str, int]) -> None:
        self._sums = sums
        self.total = sum(sums.values())
        self._lowest = min(sums.values(), default=None)

    def get(self, value: str) -> int:
        return self._sums.get(value, 0)

    def many(self, rows: Rows) -> Scores:
        raise NotImplementedError

    def lowest(self, thought: Mapping[str, int]) -> int | None:
        if not thought:
            return self._lowest
        return min(
            (count + thought.get(value, 0) for value, count in self._sums.items()), default=None
        )

    def __len__(self) -> int:
        return len(self._sums)


class ManySums:
    """By the numbers of a table's label; `present` says which domains there are."""

    def __init__(self, codes: Codes, sums: Any, present: Any = None) -> None:
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

    def lowest(self, thought: Mapping[str, int]) -> int | None:
        if not len(self):
            return None
        if not thought:
            if self._lowest is None:
                self._lowest = int(self._sums[:-1][self._present].min())
            return self._lowest
        sums = self._sums.copy()
        for value, amount in thought.items():
            sums[self._codes.number(value)] += amount
        return int(sums[:-1][self._present].min())

    def __len__(self) -> int:
        return int(self._present.sum())


def by_domain(key: str, tallies: Iterable[Weighted], table: Table | None) -> Sums:
    """What these tallies have in each domain of a topology, each number times its tally's
    weight.
    """
    if table is None:
        sums: dict[str, int] = {}
        for tally, weight in tallies:
            for node, count in tally.on.items():
                if node.obj is not None and key in node.labels:
                    value = node.labels[key]
                    sums[value] = sums.get(value, 0) + weight * count
        return FewSums(sums)
    codes = table.label(key)
    return ManySums(codes, summed(codes, list(tallies), table))


def summed(
    codes: Codes, tallies: Sequence[Weighted], table: Table, rows: Rows | None = None
) -> Any:
    """The sums by code, of these rows or of all; after them a zero for nodes that have none."""
    import numpy as np

    if sum(len(tally.on) for tally, _ in tallies) <= FEW:
        return _summed_one_by_one(codes, tallies, rows)
    column = sum(weight * tally.column(table) for tally, weight in tallies)
    own = codes.codes if rows is None else codes.codes[rows]
    weights = column if rows is None else column[rows]
    sums = np.bincount(own + 1, weights, len(codes.values) + 1).astype(np.int64)
    return np.append(sums[1:], 0)


def _summed_one_by_one(codes: Codes, tallies: Sequence[Weighted], rows: Rows | None) -> Any:
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


class Thought:
    """What is only thought of: changes by topology key and value."""

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

    def clone(self) -> Thought:
        return Thought({key: dict(here) for key, here in self.changes.items()})
