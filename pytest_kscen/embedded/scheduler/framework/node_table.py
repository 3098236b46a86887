"""Nodes of a large cluster as columns of numbers, for filtering and scoring in bulk.

A node keeps its row while it exists; changes are written at the start of the next attempt. Only
plugins with a `…_many` method see the table. Small clusters have none, and numpy is then never
imported, which keeps their start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo

    Rows: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]
    Scores: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

NO_CODE = -1
"""Code of a node without a value in the column."""


class CodeColumn:
    """Column of values that several nodes share, as a label's: `codes[row]` is an index into
    `values`. Predicates are evaluated once per value instead of once per node.
    """

    def __init__(self, size: int, read: Callable[[NodeInfo], Any]) -> None:
        self.codes = np.full(size, NO_CODE, np.intp)
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._read = read

    def number(self, value: Any) -> int:
        return self._numbers.get(value, NO_CODE)

    def write(self, row: int, node: NodeInfo) -> None:
        value = self._read(node)
        if value is None:
            self.codes[row] = NO_CODE
            return
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = number

    def grow(self, size: int) -> None:
        self.codes = np.concatenate((self.codes, np.full(size - len(self.codes), NO_CODE, np.intp)))

    def evaluate(self, judge: Callable[[Any], bool], rows: Rows, *, absent: bool = False) -> Mask:
        """Return a mask with the result of `judge` for each row's value; `absent` is the result for
        rows without one. Each value is evaluated once.
        """
        verdicts = np.fromiter((*map(judge, self.values), absent), np.bool_, len(self.values) + 1)
        return verdicts[self.codes[rows]]

    def evaluate_scores(self, rate: Callable[[Any], int], rows: Rows, *, absent: int = 0) -> Scores:
        """Return an array with the number that `rate` gives to each row's value; `absent` for rows
        without one.
        """
        rates = np.fromiter((*map(rate, self.values), absent), np.int64, len(self.values) + 1)
        return rates[self.codes[rows]]


class ResourceColumns:
    """Columns of one resource: allocatable amount, sum of requests (`used`), and the sum that
    scoring uses (`scored`), which assumes a default for containers without requests.
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


class NodeTable:
    """Columns by row. `nodes[row]` is the node of a row, `order` has the rows in the snapshot's
    order of nodes. Columns of labels and resources are made on first use and kept.
    """

    def __init__(self) -> None:
        self._size = 256
        self.nodes: list[NodeInfo | None] = []
        self._free: list[int] = []
        self.pods = np.zeros(self._size, np.int64)
        self.pod_capacity = np.zeros(self._size, np.int64)
        """Maximum number of pods on the node."""
        self.unschedulable = np.zeros(self._size, np.bool_)
        self.taints = CodeColumn(
            self._size,
            lambda node: tuple(
                (taint["key"], taint.get("value") or "", taint["effect"])
                for taint in (*node.hard_taints, *node.soft_taints)
            ),
        )
        self.order: Rows = np.zeros(0, np.intp)
        self._amounts: dict[str, ResourceColumns] = {}
        self._labels: dict[str, CodeColumn] = {}
        self.names = CodeColumn(self._size, lambda node: node.name)
        self.changes = 0
        """Version that grows when a node is added, removed or changed; changes of its pods do not
        count.
        """

    def amount(self, resource: str) -> ResourceColumns:
        if resource not in self._amounts:
            self._amounts[resource] = amount = ResourceColumns(resource, self._size)
            self._write_all(amount)
        return self._amounts[resource]

    def label(self, key: str) -> CodeColumn:
        if key not in self._labels:
            self._labels[key] = codes = CodeColumn(self._size, lambda node: node.labels.get(key))
            self._write_all(codes)
        return self._labels[key]

    def _write_all(self, column: ResourceColumns | CodeColumn) -> None:
        for row, node in enumerate(self.nodes):
            if node is not None:
                column.write(row, node)

    def set_nodes(self, nodes: Sequence[NodeInfo]) -> None:
        """Make these the table's nodes, in this order. Rows of removed nodes become free and are
        reused; other nodes keep theirs.
        """
        present = set(map(id, nodes))
        for row, old in enumerate(self.nodes):
            if old is not None and id(old) not in present:
                old.row = NO_CODE
                self.nodes[row] = None
                self._free.append(row)
        for node in nodes:
            if node.row != NO_CODE:
                continue
            if self._free:
                node.row = self._free.pop()
                self.nodes[node.row] = node
            else:
                node.row = len(self.nodes)
                self.nodes.append(node)
                if node.row >= self._size:
                    more, self._size = self._size, 2 * self._size
                    self.pods = np.concatenate((self.pods, np.zeros(more, np.int64)))
                    self.pod_capacity = np.concatenate(
                        (self.pod_capacity, np.zeros(more, np.int64))
                    )
                    self.unschedulable = np.concatenate(
                        (self.unschedulable, np.zeros(more, np.bool_))
                    )
                    for column in self._columns():
                        column.grow(self._size)
            self.write(node)
        self.order = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        self.changes += 1

    def _columns(self) -> list[ResourceColumns | CodeColumn]:
        return [self.taints, self.names, *self._amounts.values(), *self._labels.values()]

    def write(self, node: NodeInfo) -> None:
        """Update all columns of a changed node, including those that depend on its pods; called at
        the start of an attempt.
        """
        row = node.row
        self.pod_capacity[row] = node.allocatable.get("pods", 0)
        self.unschedulable[row] = node.unschedulable
        self.pods[row] = node.load.pods
        for column in self._columns():
            column.write(row, node)
        self.changes += 1

    def write_load(self, node: NodeInfo) -> None:
        """Update the columns that depend on the node's pods only."""
        row = node.row
        self.pods[row] = node.load.pods
        for amount in self._amounts.values():
            amount.write_load(row, node)
