"""Pods of a kind are spread over the values of a topology key: no more than so uneven, or as even
as can be.

For each constraint the pods that count are added up by domain once (`counting`); each node is then
judged by its domain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.inter_pod_affinity import is_placed
from pytest_kscen.embedded.scheduler.plugins.node_affinity import selected
from pytest_kscen.embedded.scheduler.plugins.pod_counts import Crowd
from pytest_kscen.embedded.scheduler.plugins.spread_constraints import (
    HARD,
    HOSTNAME,
    READ,
    SOFT,
    SYSTEM,
    Constraints,
)
from pytest_kscen.embedded.scheduler.plugins.taint_toleration import repelled
from pytest_kscen.embedded.scheduler.plugins.topology_counts import (
    FewSums,
    ManySums,
    Sums,
    Thought,
    summed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import Tally
    from pytest_kscen.embedded.scheduler.plugins.spread_constraints import Constraint
    from pytest_kscen.objects.resources import Obj

    Kept = Callable[[PodInfo], Sequence[Constraint]]


# What may help a pod that would have been spread too unevenly.


def spread_interests(kept: Kept) -> Sequence[Interest]:
    """For pods whose constraints this function tells."""

    def pod_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        return all(_concerns(one, pod) for one in (old, new) if one) and _pod_changed(
            kept(pod), pod, old, new
        )

    def node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        return _node_changed(kept(pod), old, new)

    return (
        Interest(
            POD, Action.ADD | Action.POD_LABEL | Action.POD_TOLERATION | Action.DELETE, pod_changed
        ),
        Interest(
            NODE, Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT, node_changed
        ),
    )


def _concerns(other: Obj, pod: PodInfo) -> bool:
    metadata = other["metadata"]
    return bool(
        metadata["uid"] == pod.uid
        or (is_placed(other) and metadata.get("namespace") == pod.namespace)
    )


def _pod_changed(
    kept: Sequence[Constraint], pod: PodInfo, old: Obj | None, new: Obj | None
) -> bool:
    if old and new:
        bears_more = old["spec"].get("tolerations") != new["spec"].get("tolerations")
        if (
            new["metadata"]["uid"] == pod.uid
            and bears_more
            and any(one.honours_taints for one in kept)
        ):
            return True
        return any(one.means(_labels(old)) != one.means(_labels(new)) for one in kept)
    return any(one.means(_labels(new or old)) for one in kept)


def _node_changed(kept: Sequence[Constraint], old: Obj | None, new: Obj | None) -> bool:
    had, has = _has_all(kept, old), _has_all(kept, new)
    if old is None or new is None:
        return had or has
    if had != has:
        return True
    return has and (
        any(_labels(old).get(one.key) != _labels(new).get(one.key) for one in kept)
        or (old.get("spec") or {}).get("taints") != (new.get("spec") or {}).get("taints")
    )


def _has_all(kept: Sequence[Constraint], node: Obj | None) -> bool:
    return node is not None and all(one.key in _labels(node) for one in kept)


def _labels(obj: Obj | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj["metadata"].get("labels") if obj else None) or {}
    return labels


BEST = 100
NAME, SCORES = "PodTopologySpread", "PodTopologySpread/scores"
UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints").by(NAME)
NOWHERE = unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
).by(NAME)
NO_DOMAIN = 2**31 - 1  # the smallest number of pods in any domain, where there is none


@dataclass(slots=True)
class Spread:
    """The constraints to be kept, with what is in each domain, and what preemption thinks of on
    top.
    """

    parts: list[tuple[Constraint, Sums]]
    thought: Thought

    def clone(self) -> Spread:
        return replace(self, thought=self.thought.clone())

    def room(self, number: int, pod: PodInfo) -> int:
        """How many pods a domain may have already if this one is to join them."""
        constraint, sums = self.parts[number]
        low = sums.lowest(self.thought.changes.get(str(number), {}))
        low = NO_DOMAIN if low is None else low
        if len(sums) < constraint.min_domains:
            low = 0
        return constraint.max_skew + low - constraint.means(pod.labels)

    def at(self, number: int, value: str) -> int:
        return self.parts[number][1].get(value) + self.thought.get(str(number), value)


@dataclass(slots=True)
class Evenness:
    """What scoring needs: for each constraint what counts in a domain, and how much it weighs."""

    parts: list[tuple[Constraint, Any, float]]
    left_out: list[bool]
    """In the order of the nodes: those that lack one of the topologies."""


class PodTopologySpread(Plugin):
    reads = READ

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        listed = args.get("defaultingType") == "List"
        self._is_system = not listed
        self._constraints = Constraints(
            handle.context.informers, args.get("defaultConstraints") or () if listed else SYSTEM
        )
        self._snapshot = handle.snapshot

    # --- what must be kept ---

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        constraints = self._constraints.of(pod, HARD)
        if not constraints:
            return SKIP
        state[NAME] = Spread(
            [(one, self._sums(pod, one, constraints)) for one in constraints], Thought()
        )
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        _think(state[NAME], pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        _think(state[NAME], pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        spread: Spread = state[NAME]
        for number, (constraint, _) in enumerate(spread.parts):
            value = node.labels.get(constraint.key)
            if value is None:
                return NOWHERE
            if spread.at(number, value) > spread.room(number, pod):
                return UNEVEN
        return None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        spread: Spread = state[NAME]
        wrong: Truths = rows < 0
        for number, (constraint, sums) in enumerate(spread.parts):
            wrong = (
                wrong
                | (table.label(constraint.key).codes[rows] < 0)
                | (sums.many(rows) > spread.room(number, pod))
            )
        return wrong

    # --- what would be more even ---

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        constraints = self._constraints.of(pod, SOFT)
        if not constraints:
            return SKIP
        needed = (
            constraints
            if bool(pod.spec.get("topologySpreadConstraints")) or not self._is_system
            else ()
        )
        left_out = (
            [any(one.key not in node.labels for one in needed) for node in nodes]
            if needed
            else [False] * len(nodes)
        )
        scored = (
            [node for node, out in zip(nodes, left_out, strict=True) if not out]
            if any(left_out)
            else nodes
        )
        state[SCORES] = Evenness(
            [(one, *self._weighed(pod, one, needed, scored)) for one in constraints], left_out
        )
        return None

    def _weighed(
        self,
        pod: PodInfo,
        constraint: Constraint,
        needed: Sequence[Constraint],
        scored: Sequence[NodeInfo],
    ) -> tuple[Any, float]:
        """Hosts are as many domains as nodes, and each has its own pods, whatever the policies
        say.
        """
        if constraint.key == HOSTNAME:
            return self._tally(pod, constraint), math.log(len(scored) + 2)
        domains = {node.labels.get(constraint.key, "") for node in scored}
        return self._sums(pod, constraint, needed), math.log(len(domains) + 2)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        evenness: Evenness = state[SCORES]
        total = 0.0
        for constraint, counted, weight in evenness.parts:
            value = node.labels.get(constraint.key)
            if value is not None:
                count = (
                    counted.on.get(node, 0) if constraint.key == HOSTNAME else counted.get(value)
                )
                total += count * weight + (constraint.max_skew - 1)
        whole = math.floor(total)
        return whole + (total - whole >= 0.5)  # noqa: PLR2004

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        import numpy as np

        evenness: Evenness = state[SCORES]
        total = np.zeros(len(rows))
        for constraint, counted, weight in evenness.parts:
            counts = (
                counted.column(table)[rows] if constraint.key == HOSTNAME else counted.many(rows)
            )
            has_key = table.label(constraint.key).codes[rows] >= 0
            total += np.where(has_key, counts * weight + (constraint.max_skew - 1), 0.0)
        whole = np.floor(total)
        # half is rounded up
        rounded: Scores = (whole + (total - whole >= 0.5)).astype(np.int64)  # noqa: PLR2004
        return rounded

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        left_out = state[SCORES].left_out
        judged = [score for score, out in zip(scores, left_out, strict=True) if not out]
        most, least = max(judged, default=0), min(judged, default=0)
        return [
            0 if out else BEST if most == 0 else BEST * (most + least - score) // most
            for score, out in zip(scores, left_out, strict=True)
        ]

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        import numpy as np

        out = np.array(state[SCORES].left_out, np.bool_)
        judged = scores[~out]
        most, least = judged.max(initial=0), judged.min() if len(judged) else 0
        even = BEST * (most + least - scores) // most if most else scores * 0 + BEST
        return np.where(out, 0, even)

    # --- counting ---

    def _tally(self, pod: PodInfo, constraint: Constraint) -> Tally:
        return self._snapshot.shared(Crowd).tally(constraint.choice(pod.namespace))

    def _sums(self, pod: PodInfo, constraint: Constraint, needed: Sequence[Constraint]) -> Sums:
        """By domain, of the nodes that have all the topologies that are needed, and that count
        by the constraint's policies.
        """
        tally, table = self._tally(pod, constraint), self._snapshot.table
        if table is not None:
            rows = table.order
            for part in needed:
                rows = rows[table.label(part.key).codes[rows] >= 0]
            if constraint.honours_affinity and (right := selected(pod, table, rows)) is not None:
                rows = rows[right]
            if constraint.honours_taints and (wrong := repelled(pod, table, rows)) is not None:
                rows = rows[~wrong]
            import numpy as np

            codes = table.label(constraint.key)
            present = np.bincount(codes.codes[rows] + 1, minlength=len(codes.values) + 1)[1:] > 0
            return ManySums(codes, summed(codes, [(tally, 1)], table, rows), present)
        sums: dict[str, int] = {}
        for node in self._snapshot.nodes:
            if all(one.key in node.labels for one in needed) and constraint.counts_at(pod, node):
                value = node.labels.get(constraint.key, "")
                sums[value] = sums.get(value, 0) + tally.on.get(node, 0)
        return FewSums(sums)

    def events(self) -> Sequence[Interest]:
        return spread_interests(lambda pod: self._constraints.of(pod, HARD))


def _think(spread: Spread, pod: PodInfo, other: PodInfo, node: NodeInfo, amount: int) -> None:
    if other.namespace != pod.namespace or any(
        one.key not in node.labels for one, _ in spread.parts
    ):
        return
    for number, (constraint, _) in enumerate(spread.parts):
        if constraint.means(other.labels) and constraint.counts_at(pod, node):
            spread.thought.add(str(number), node.labels[constraint.key], amount)
