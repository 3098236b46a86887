"""Looking for nodes that will do: enough of them, beginning where the last search ended.

In a small cluster one node after the other is asked; in a large one many at once, plugin by plugin.
What comes of it is the same, to the order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.attempt import PASSED
from pytest_kscen.embedded.scheduler.framework.profile import judged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Table
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import (
        NodeInfo,
        PodInfo,
        QueuedPod,
    )
    from pytest_kscen.embedded.scheduler.framework.profile import Profile
    from pytest_kscen.embedded.scheduler.framework.status import Status


FEW = 100  # nodes that are looked for at least
LEAST_PERCENT = 5


def enough(nodes: int, percentage: int) -> int:
    """How many nodes that will do are looked for among so many."""
    if nodes < FEW:
        return nodes
    percentage = percentage or max(50 - nodes // 125, LEAST_PERCENT)
    return max(nodes * percentage // 100, FEW)


@dataclass(slots=True)
class Found:
    """What a search has brought."""

    nodes: list[NodeInfo] = field(default_factory=list)
    statuses: dict[str, Status] = field(default_factory=dict)
    """Why the others will not do, by node; of a search that found nodes, only if results are
    recorded.
    """
    looked_at: int = 0
    rejectors: set[str] = field(default_factory=set)
    broken: Status | None = None
    """What a filter could not say, which ends the attempt."""


def search(this: Try, nodes: Sequence[NodeInfo], start: int, wanted: int) -> Found:
    """Look at these nodes, from this one on."""
    profile, state = this.profile, this.state
    table = profile.handle.snapshot.table
    filters = profile.filters(state)
    if (
        table is not None
        and len(nodes) >= profile.handle.snapshot.large
        and any(plugin in profile.many for plugin in filters)
    ):
        found = _Sieve(this, table, filters).search(nodes, start, wanted)
    else:
        found = _one_by_one(this, nodes, start, wanted)
    if state.attempt is not None:
        _note(profile, state, filters, found)
    return found


def _one_by_one(this: Try, nodes: Sequence[NodeInfo], start: int, wanted: int) -> Found:
    profile, _, pod, state = this
    found = Found()
    filters = [(plugin.filter, profile.name_of(plugin)) for plugin in profile.filters(state)]
    crowded = set(profile.handle.nominated.nodes())
    count = len(nodes)
    for number in range(count):
        node = nodes[(start + number) % count]
        status = None
        if node.name in crowded:
            status = profile.filter_with_nominated(state, pod, node)
        else:
            for judge, name in filters:
                status = judge(state, pod, node)
                if status is not None:
                    status = judged(status, name)
                    break
        found.looked_at += 1
        if status is not None and not status.rejects:
            found.broken = status
            break
        if status is not None:
            found.statuses[node.name] = status
            found.rejectors.add(status.plugin)
        else:
            found.nodes.append(node)
            if len(found.nodes) >= wanted:
                break
    return found


class _Sieve:
    """Plugin after plugin, each takes out nodes.

    The words for a refusal are asked for only where somebody wants them.
    """

    def __init__(self, this: Try, table: Table, filters: list[Plugin]) -> None:
        self._profile, _, self._pod, self._state = this
        self._table = table
        self._filters = filters
        self._refused: list[tuple[Plugin | None, Rows]] = []
        self._broken: dict[int, Status] = {}
        """By row, what a filter could not say."""

    def search(self, nodes: Sequence[NodeInfo], start: int, wanted: int) -> Found:
        import numpy as np

        if nodes is self._profile.handle.snapshot.nodes:
            order = self._table.order
            rows: Rows = np.concatenate((order[start:], order[:start])) if start else order
        else:
            count = len(nodes)
            rows = np.fromiter(
                (nodes[(start + number) % count].row for number in range(count)), np.intp, count
            )
        found, position = Found(), 0
        kept: list[int] = []
        while position < len(rows) and len(kept) < wanted:
            chunk = rows[position : position + max(wanted - len(kept), FEW)]
            passed = self._pass(chunk)
            missing = wanted - len(kept)
            if len(passed) >= missing:
                passed = passed[:missing]
                chunk = self._cut(chunk, passed[-1])
            kept += passed.tolist()
            position += len(chunk)
            if (
                self._broken
                and (broken := next((row for row in chunk.tolist() if row in self._broken), None))
                is not None
            ):
                return Found(looked_at=position, broken=self._broken[broken])
        found.looked_at = position
        by_row: Any = self._table.nodes
        found.nodes = [by_row[row] for row in kept]
        found.rejectors = {
            self._profile.name_of(plugin)
            for plugin, gone in self._refused
            if plugin is not None and len(gone)
        }
        if not kept or self._state.attempt is not None or self._profile.handle.extenders:
            found.statuses = self._statuses()
            found.rejectors |= {status.plugin for status in found.statuses.values()}
        return found

    def _pass(self, rows: Rows) -> Rows:
        import numpy as np

        for plugin in self._filters:
            if not len(rows):
                break
            if plugin in self._profile.many:
                wrong = plugin.filter_many(self._state, self._pod, self._table, rows)
                if wrong is None:
                    continue
            else:
                judge: Any = plugin.filter
                by_row: Any = self._table.nodes
                state, pod = self._state, self._pod
                answers = [judge(state, pod, by_row[row]) for row in rows.tolist()]
                wrong = np.fromiter((status is not None for status in answers), np.bool_, len(rows))
                for place in wrong.nonzero()[0].tolist():
                    self._look_at(
                        int(rows[place]), judged(answers[place], self._profile.name_of(plugin))
                    )
            if wrong.any():
                self._refused.append((plugin, rows[wrong]))
                rows = rows[~wrong]
        # Nodes where room is being made for others.
        nominated, snapshot = self._profile.handle.nominated, self._profile.handle.snapshot
        for name in nominated.nodes():
            node = snapshot.get(name)
            if (
                node is None
                or not nominated.rivals(self._pod, name)
                or not (rows == node.row).any()
            ):
                continue
            if status := self._profile.filter_with_nominated(self._state, self._pod, node):
                self._look_at(node.row, status)
                here = rows == node.row
                self._refused.append((None, rows[here]))
                rows = rows[~here]
        return rows

    def _look_at(self, row: int, status: Status) -> None:
        if not status.rejects:
            self._broken[row] = status

    def _cut(self, chunk: Rows, last: int) -> Rows:
        """The chunk up to the last node that was needed; nobody has looked at the rest."""
        seen = chunk[: int((chunk == last).nonzero()[0][0]) + 1]
        unseen = set(chunk[len(seen) :].tolist())
        for place, (plugin, rows) in enumerate(self._refused):
            if unseen:
                keep = [row not in unseen for row in rows.tolist()]
                self._refused[place] = (plugin, rows[keep])
        return seen

    def _statuses(self) -> dict[str, Status]:
        found: dict[str, Status] = {}
        profile, state, pod = self._profile, self._state, self._pod
        for plugin, rows in self._refused:
            for row in rows.tolist():
                node: Any = self._table.nodes[row]
                if plugin is None:
                    status = profile.filter_with_nominated(state, pod, node)
                else:
                    status = plugin.filter(state, pod, node)
                    status = (
                        status.by(profile.name_of(plugin))
                        if status
                        else profile.filter_with_nominated(state, pod, node)
                    )
                if status is not None:
                    found[node.name] = status
        return found


def _note(profile: Profile, state: CycleState, filters: list[Plugin], found: Found) -> None:
    """Who passed a node on to whom, and who turned it down."""
    assert state.attempt is not None
    names = [profile.name_of(plugin) for plugin in filters]
    passed = dict.fromkeys(names, PASSED)
    for node in found.nodes:
        state.attempt.filter[node.name] = passed
    for node_name, status in found.statuses.items():
        before = names[: names.index(status.plugin)] if status.plugin in names else names
        state.attempt.filter[node_name] = {
            **dict.fromkeys(before, PASSED),
            status.plugin: status.message,
        }


# What belongs to one attempt to place one pod.


class Try(NamedTuple):
    """It is over when the pod is bound or back in the queue."""

    profile: Profile
    queued: QueuedPod
    pod: PodInfo
    state: CycleState
