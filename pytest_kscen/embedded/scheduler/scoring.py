"""Scoring of feasible nodes: each plugin's scores, normalized to 0 to 100, weighted and summed.

Called by the scheduling cycle if more than one node passed the filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.embedded.scheduler.framework.plugin import overrides
from pytest_kscen.embedded.scheduler.framework.plugin_checks import check_scores
from pytest_kscen.embedded.scheduler.framework.status import failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.filtering import SchedulingAttempt
    from pytest_kscen.embedded.scheduler.framework.attempt import Attempt
    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo
    from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
    from pytest_kscen.embedded.scheduler.framework.status import Status

    Column: TypeAlias = tuple[str, list[int], list[int]]

MAX_SCORE, MAX_EXTENDER_SCORE = 100, 10


def total_scores(current: SchedulingAttempt, nodes: Sequence[NodeInfo]) -> Any:
    """Return the weighted sum of each node, in order: a list, in a large cluster an array. A Status
    is returned if a plugin's scores are out of range.
    """
    profile, _, pod, state = current
    scorers = profile.scorers(state)
    if state.attempt is None:
        scorers = [plugin for plugin in scorers if not plugin.is_indifferent(state, pod, nodes)]
    table = profile.handle.snapshot.table
    if table is not None and any(overrides(plugin, "score_many") for plugin in scorers):
        return _total_scores_in_bulk(current, nodes, table, scorers)
    sums = [0] * len(nodes)
    columns: list[Column] = []
    for plugin in scorers:
        raw = _score_one_by_one(current, plugin, nodes)
        scores = _normalize(current, plugin, list(raw)) if overrides(plugin, "normalize") else raw
        if wrong := _range_error(profile, plugin, scores):
            return wrong
        weight = profile.weights[plugin]
        weighed = [weight * score for score in scores]
        columns.append((profile.name_of(plugin), raw, weighed))
        sums = [total + more for total, more in zip(sums, weighed, strict=True)]
    if state.attempt is not None:
        _record_scores(state.attempt, nodes, columns)
    return sums


def _score_one_by_one(
    current: SchedulingAttempt, plugin: Plugin, nodes: Sequence[NodeInfo]
) -> list[int]:
    found = [plugin.score(current.state, current.pod, node) for node in nodes]
    check_scores(found, current.profile.name_of(plugin), "score", len(nodes))
    return found


def _normalize(current: SchedulingAttempt, plugin: Plugin, raw: list[int]) -> list[int]:
    found, count = plugin.normalize(current.state, current.pod, raw), len(raw)
    check_scores(found, current.profile.name_of(plugin), "normalize", count)
    return found


def _total_scores_in_bulk(
    current: SchedulingAttempt, nodes: Sequence[NodeInfo], table: NodeTable, scorers: list[Plugin]
) -> Any:
    import numpy as np

    profile, attempt = current.profile, current.state.attempt
    rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
    sums: Scores = np.zeros(len(nodes), np.int64)
    columns: list[Column] = []
    for plugin in scorers:
        raw, scores = _score_in_bulk(current, plugin, nodes, table, rows)
        if len(scores) and (scores.min() < 0 or scores.max() > MAX_SCORE):
            return _range_error(profile, plugin, scores.tolist())
        weighed = profile.weights[plugin] * scores
        if attempt is not None:
            columns.append((profile.name_of(plugin), raw.tolist(), weighed.tolist()))
        sums += weighed
    if attempt is not None:
        _record_scores(attempt, nodes, columns)
    return sums


def _score_in_bulk(
    current: SchedulingAttempt,
    plugin: Plugin,
    nodes: Sequence[NodeInfo],
    table: NodeTable,
    rows: Rows,
) -> tuple[Scores, Scores]:
    import numpy as np

    state, pod = current.state, current.pod
    if overrides(plugin, "score_many"):
        raw = plugin.score_many(state, pod, table, rows)
    else:
        raw_scores = _score_one_by_one(current, plugin, nodes)
        raw = np.fromiter(raw_scores, np.int64, len(nodes))
    if overrides(plugin, "normalize_many"):
        return raw, plugin.normalize_many(state, pod, raw)
    if overrides(plugin, "normalize"):
        return raw, np.array(_normalize(current, plugin, raw.tolist()), np.int64)
    return raw, raw


def _range_error(profile: SchedulerProfile, plugin: Plugin, scores: Sequence[int]) -> Status | None:
    for score in scores:
        if not 0 <= score <= MAX_SCORE:
            name = profile.name_of(plugin)
            words = (
                f"plugin {name!r} returns an invalid score {score}, it should in the range of "
                f"[0, {MAX_SCORE}] after normalizing"
            )
            return failure(words).by(name)
    return None


def _record_scores(attempt: Attempt, nodes: Sequence[NodeInfo], columns: list[Column]) -> None:
    plugins = [name for name, _, _ in columns]
    raw, weighed = zip(*(one for _, *one in columns), strict=True) if columns else ((), ())
    for found, parts in ((attempt.score, raw), (attempt.final_score, weighed)):
        for node, *scores in zip(nodes, *parts, strict=True):
            found[node.name] = dict(zip(plugins, scores, strict=True))


def add_extender_scores(
    sums: Any, nodes: Sequence[NodeInfo], scores: dict[str, int], weight: int
) -> Any:
    """Return the sums plus an extender's scores times `weight`; nodes that it left out get 0."""
    if isinstance(sums, list):
        return [
            total + weight * scores.get(node.name, 0)
            for total, node in zip(sums, nodes, strict=True)
        ]
    return sums + [weight * scores.get(node.name, 0) for node in nodes]


def best_positions(sums: Any) -> list[int]:
    if isinstance(sums, list):
        most = max(sums)
        return [place for place, total in enumerate(sums) if total == most]
    return (sums == sums.max()).nonzero()[0].tolist()  # type: ignore[no-any-return]
