"""Search for feasible nodes: enough of them, starting where the last search ended.

Small clusters are filtered node by node, large ones in bulk, plugin by plugin; both give the same
nodes in the same order. Called by the scheduling cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.attempt import PASSED
from pytest_kscen.embedded.scheduler.framework.profile import check_filter_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable, Rows
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import (
        NodeInfo,
        PodInfo,
        QueuedPod,
    )
    from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
    from pytest_kscen.embedded.scheduler.framework.status import Status


MIN_FEASIBLE_NODES = 100  # fewer are never searched for in a larger cluster
MIN_PERCENTAGE = 5


def feasible_nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes end the search, as kube-scheduler's numFeasibleNodesToFind:
    all of a small cluster, otherwise a share of at least 5 % and 100 nodes.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


@dataclass(slots=True)
class FilterResult:
    """Nodes that passed the filters of one search, and the refusals of others."""

    nodes: list[NodeInfo] = field(default_factory=list)
    statuses: dict[str, Status] = field(default_factory=dict)
    """Refusals by node name. If nodes were found in bulk, only set when results are recorded or an
    extender needs them.
    """
    examined: int = 0
    rejectors: set[str] = field(default_factory=set)
    error: Status | None = None
    """Error of a filter, which ends the attempt."""


def find_feasible_nodes(
    current: SchedulingAttempt, nodes: Sequence[NodeInfo], start: int, wanted: int
) -> FilterResult:
    """Filter these nodes in a circle from `start` until `wanted` have passed. Results go into the
    attempt's record, if there is one.
    """
    profile, state = current.profile, current.state
    table = profile.handle.snapshot.table
    filters = profile.filters(state)
    if (
        table is not None
        and len(nodes) >= profile.handle.snapshot.large
        and any(plugin in profile.many for plugin in filters)
    ):
        found = _BulkFilter(current, table, filters).search(nodes, start, wanted)
    else:
        found = _filter_one_by_one(current, nodes, start, wanted)
    if state.attempt is not None:
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
    return found


def _filter_one_by_one(
    current: SchedulingAttempt, nodes: Sequence[NodeInfo], start: int, wanted: int
) -> FilterResult:
    profile, _, pod, state = current
    found = FilterResult()
    filters = [(plugin.filter, profile.name_of(plugin)) for plugin in profile.filters(state)]
    nominated_nodes = set(profile.handle.nominated.nodes())
    count = len(nodes)
    for number in range(count):
        node = nodes[(start + number) % count]
        status = None
        if node.name in nominated_nodes:
            status = profile.filter_with_nominated(state, pod, node)
        else:
            for filter_node, name in filters:
                status = filter_node(state, pod, node)
                if status is not None:
                    status = check_filter_status(status, name)
                    break
        found.examined += 1
        if status is not None and not status.rejects:
            found.error = status
            break
        if status is not None:
            found.statuses[node.name] = status
            found.rejectors.add(status.plugin)
        else:
            found.nodes.append(node)
            if len(found.nodes) >= wanted:
                break
    return found


class _BulkFilter:
    """Filter that applies plugin after plugin to chunks of rows. Reasons of refusals are computed
    afterwards, and only if they are needed.
    """

    def __init__(self, current: SchedulingAttempt, table: NodeTable, filters: list[Plugin]) -> None:
        self._profile, _, self._pod, self._state = current
        self._table = table
        self._filters = filters
        self._refused: list[tuple[Plugin | None, Rows]] = []
        self._errors: dict[int, Status] = {}
        """Errors of filters by row."""

    def search(self, nodes: Sequence[NodeInfo], start: int, wanted: int) -> FilterResult:
        import numpy as np

        if nodes is self._profile.handle.snapshot.nodes:
            order = self._table.order
            rows: Rows = np.concatenate((order[start:], order[:start])) if start else order
        else:
            count = len(nodes)
            rows = np.fromiter(
                (nodes[(start + number) % count].row for number in range(count)), np.intp, count
            )
        found, position = FilterResult(), 0
        kept: list[int] = []
        while position < len(rows) and len(kept) < wanted:
            chunk = rows[position : position + max(wanted - len(kept), MIN_FEASIBLE_NODES)]
            passed = self._filter_chunk(chunk)
            missing = wanted - len(kept)
            if len(passed) >= missing:
                passed = passed[:missing]
                chunk = self._truncate(chunk, passed[-1])
            kept += passed.tolist()
            position += len(chunk)
            if (
                self._errors
                and (error := next((row for row in chunk.tolist() if row in self._errors), None))
                is not None
            ):
                return FilterResult(examined=position, error=self._errors[error])
        found.examined = position
        by_row: Any = self._table.nodes
        found.nodes = [by_row[row] for row in kept]
        found.rejectors = {
            self._profile.name_of(plugin)
            for plugin, rows in self._refused
            if plugin is not None and len(rows)
        }
        if not kept or self._state.attempt is not None or self._profile.handle.extenders:
            found.statuses = self._statuses()
            found.rejectors |= {status.plugin for status in found.statuses.values()}
        return found

    def _filter_chunk(self, rows: Rows) -> Rows:
        import numpy as np

        for plugin in self._filters:
            if not len(rows):
                break
            if plugin in self._profile.many:
                rejected = plugin.filter_many(self._state, self._pod, self._table, rows)
                if rejected is None:
                    continue
            else:
                filter_node: Any = plugin.filter
                by_row: Any = self._table.nodes
                state, pod = self._state, self._pod
                answers = [filter_node(state, pod, by_row[row]) for row in rows.tolist()]
                rejected = np.fromiter(
                    (status is not None for status in answers), np.bool_, len(rows)
                )
                for place in rejected.nonzero()[0].tolist():
                    self._note_error(
                        int(rows[place]),
                        check_filter_status(answers[place], self._profile.name_of(plugin)),
                    )
            if rejected.any():
                self._refused.append((plugin, rows[rejected]))
                rows = rows[~rejected]
        # Nodes with nominated pods are filtered as if these were present.
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
                self._note_error(node.row, status)
                here = rows == node.row
                self._refused.append((None, rows[here]))
                rows = rows[~here]
        return rows

    def _note_error(self, row: int, status: Status) -> None:
        if not status.rejects:
            self._errors[row] = status

    def _truncate(self, chunk: Rows, last: int) -> Rows:
        """Return the chunk up to the last node that was needed, and forget refusals of later ones:
        node by node they would not have been examined.
        """
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


class SchedulingAttempt(NamedTuple):
    """Pod with its profile and cycle state; over when the pod is bound or back in the queue."""

    profile: SchedulerProfile
    queued: QueuedPod
    pod: PodInfo
    state: CycleState
