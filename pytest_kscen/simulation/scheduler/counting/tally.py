"""How many of something are on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.table import Table


class Tally:
    """By node; and, once somebody has asked for it, as a column of the table."""

    __slots__ = ("_changes", "_column", "_table", "on")

    def __init__(self) -> None:
        self.on: dict[NodeInfo, int] = {}
        """Nodes with none are not in it; some may not be there, only pods that say they are on them."""
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
