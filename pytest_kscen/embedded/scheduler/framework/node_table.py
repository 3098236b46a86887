"""The nodes of a large cluster as columns of numbers, so that one operation looks at all of them.

A row belongs to a node for as long as it is there; a change of the node or of its pods is written
into its row when the next attempt begins. Only plugins that offer a `…_many` method ever see the
table, and only where it pays: a cluster of a few nodes has none, and numpy is not even imported for
it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo
    from pytest_kscen.objects.resources import Obj

    Rows: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]
    Scores: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    Truths: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

NONE = -1
"""The code of a node that has no such label."""


class Codes:
    """What nodes have in common, numbered: `codes[row]` is the number of the value that this
    node has in `values`.
    """

    def __init__(self, size: int, read: Callable[[NodeInfo], Any]) -> None:
        self.codes = np.full(size, NONE, np.intp)
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._read = read

    def number(self, value: Any) -> int:
        """The number of a value; NONE for one that no node has."""
        return self._numbers.get(value, NONE)

    def write(self, row: int, node: NodeInfo) -> None:
        value = self._read(node)
        if value is None:
            self.codes[row] = NONE
            return
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = number

    def grow(self, size: int) -> None:
        self.codes = np.concatenate((self.codes, np.full(size - len(self.codes), NONE, np.intp)))

    def judged(self, judge: Callable[[Any], bool], rows: Rows, *, absent: bool = False) -> Truths:
        """For each row what `judge` says of its value; `absent` for those that have none.

        Each value is judged once.
        """
        verdicts = np.fromiter((*map(judge, self.values), absent), np.bool_, len(self.values) + 1)
        return verdicts[self.codes[rows]]

    def rated(self, rate: Callable[[Any], int], rows: Rows, *, absent: int = 0) -> Scores:
        """The same with numbers."""
        rates = np.fromiter((*map(rate, self.values), absent), np.int64, len(self.values) + 1)
        return rates[self.codes[rows]]


class Amount:
    """One resource: what the nodes have to give, what their pods request, and what scoring takes
    them for.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.allocatable = np.zeros(size, np.int64)
        self.used = np.zeros(size, np.int64)
        self.scored = np.zeros(size, np.int64)

    def write(self, row: int, node: NodeInfo) -> None:
        self.allocatable[row] = node.allocatable.get(self.name, 0)
        self.write_load(row, node)

    def write_load(self, row: int, node: NodeInfo) -> None:
        load = node.load
        self.used[row] = load.used.get(self.name, 0)
        self.scored[row] = load.scored.get(self.name, 0)

    def grow(self, size: int) -> None:
        more = np.zeros(size - len(self.used), np.int64)
        self.allocatable = np.concatenate((self.allocatable, more))
        self.used = np.concatenate((self.used, more))
        self.scored = np.concatenate((self.scored, more))


class Table:
    """The columns.

    `nodes[row]` is the node of a row, `order` the rows in the order of the snapshot's nodes.
    """

    def __init__(self) -> None:
        self._size = 256
        self.nodes: list[NodeInfo | None] = []
        self._free: list[int] = []
        self.pods = np.zeros(self._size, np.int64)
        self.room = np.zeros(self._size, np.int64)
        """How many pods may be on the node."""
        self.unschedulable = np.zeros(self._size, np.bool_)
        self.taints = Codes(self._size, _taints)
        self.order: Rows = np.zeros(0, np.intp)
        self._amounts: dict[str, Amount] = {}
        self._labels: dict[str, Codes] = {}
        self.names = Codes(self._size, lambda node: node.name)
        self.changes = 0
        """Grows whenever a node comes, goes or changes, pods aside."""

    def amount(self, resource: str) -> Amount:
        """The columns of a resource."""
        if resource not in self._amounts:
            self._amounts[resource] = amount = Amount(resource, self._size)
            self._write_all(amount)
        return self._amounts[resource]

    def label(self, key: str) -> Codes:
        """The column of a label."""
        if key not in self._labels:
            self._labels[key] = codes = Codes(self._size, lambda node: node.labels.get(key))
            self._write_all(codes)
        return self._labels[key]

    def _write_all(self, column: Amount | Codes) -> None:
        for row, node in enumerate(self.nodes):
            if node is not None:
                column.write(row, node)

    # --- keeping it ---

    def arrange(self, nodes: Sequence[NodeInfo]) -> None:
        """These are the nodes now, in this order."""
        there = set(map(id, nodes))
        for row, old in enumerate(self.nodes):
            if old is not None and id(old) not in there:
                old.row = NONE
                self.nodes[row] = None
                self._free.append(row)
        for node in nodes:
            if node.row == NONE:
                self._place(node)
        self.order = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        self.changes += 1

    def _place(self, node: NodeInfo) -> None:
        if self._free:
            row = self._free.pop()
            self.nodes[row] = node
        else:
            row = len(self.nodes)
            self.nodes.append(node)
            if row >= self._size:
                self._grow()
        node.row = row
        self.write(node)

    def _grow(self) -> None:
        more = self._size
        self._size *= 2
        self.pods = np.concatenate((self.pods, np.zeros(more, np.int64)))
        self.room = np.concatenate((self.room, np.zeros(more, np.int64)))
        self.unschedulable = np.concatenate((self.unschedulable, np.zeros(more, np.bool_)))
        for column in self._columns():
            column.grow(self._size)

    def _columns(self) -> list[Amount | Codes]:
        return [self.taints, self.names, *self._amounts.values(), *self._labels.values()]

    def write(self, node: NodeInfo) -> None:
        """The node has changed."""
        row = node.row
        self.room[row] = node.allocatable.get("pods", 0)
        self.unschedulable[row] = node.unschedulable
        self.pods[row] = node.load.pods
        for column in self._columns():
            column.write(row, node)
        self.changes += 1

    def write_load(self, node: NodeInfo) -> None:
        """Its pods have changed."""
        row = node.row
        self.pods[row] = node.load.pods
        for amount in self._amounts.values():
            amount.write_load(row, node)


def rows_of(nodes: Iterable[NodeInfo]) -> Rows:
    return np.fromiter((node.row for node in nodes), np.intp)


def _taints(node: NodeInfo) -> tuple[tuple[str, str, str], ...]:
    """A node's taints as a value."""
    taints: list[Obj] = [*node.hard_taints, *node.soft_taints]
    return tuple((taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints)
