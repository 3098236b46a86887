"""Which of the nodes that will do is best: every plugin's scores, brought to 0 to 100, times its
weight, added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.embedded.scheduler.framework.plugin import overrides
from pytest_kscen.embedded.scheduler.framework.plugin_checks import numbers
from pytest_kscen.embedded.scheduler.framework.status import failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.filtering import Try
    from pytest_kscen.embedded.scheduler.framework.attempt import Attempt
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo
    from pytest_kscen.embedded.scheduler.framework.profile import Profile
    from pytest_kscen.embedded.scheduler.framework.status import Status

    Column: TypeAlias = tuple[str, list[int], list[int]]

BEST, EXTENDERS_BEST = 100, 10


def totals(this: Try, nodes: Sequence[NodeInfo]) -> Any:
    """The sum for each node: a list, or in a large cluster an array; or a status if a plugin
    fails.
    """
    profile, _, pod, state = this
    scorers = profile.scorers(state)
    if state.attempt is None:
        scorers = [plugin for plugin in scorers if not plugin.is_indifferent(state, pod, nodes)]
    table = profile.handle.snapshot.table
    if table is not None and any(overrides(plugin, "score_many") for plugin in scorers):
        return _many(this, nodes, table, scorers)
    sums = [0] * len(nodes)
    columns: list[Column] = []
    for plugin in scorers:
        raw = _raw(this, plugin, nodes)
        scores = _normal(this, plugin, list(raw)) if overrides(plugin, "normalize") else raw
        if wrong := _out_of_range(profile, plugin, scores):
            return wrong
        weight = profile.weights[plugin]
        weighed = [weight * score for score in scores]
        columns.append((profile.name_of(plugin), raw, weighed))
        sums = [total + more for total, more in zip(sums, weighed, strict=True)]
    if state.attempt is not None:
        _note(state.attempt, nodes, columns)
    return sums


def _raw(this: Try, plugin: Plugin, nodes: Sequence[NodeInfo]) -> list[int]:
    found = [plugin.score(this.state, this.pod, node) for node in nodes]
    numbers(found, this.profile.name_of(plugin), "score", len(nodes))
    return found


def _normal(this: Try, plugin: Plugin, raw: list[int]) -> list[int]:
    found, count = plugin.normalize(this.state, this.pod, raw), len(raw)
    numbers(found, this.profile.name_of(plugin), "normalize", count)
    return found


def _many(this: Try, nodes: Sequence[NodeInfo], table: Table, scorers: list[Plugin]) -> Any:
    import numpy as np

    profile, attempt = this.profile, this.state.attempt
    rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
    sums: Scores = np.zeros(len(nodes), np.int64)
    columns: list[Column] = []
    for plugin in scorers:
        raw, scores = _scores_many(this, plugin, nodes, table, rows)
        if len(scores) and (scores.min() < 0 or scores.max() > BEST):
            return _out_of_range(profile, plugin, scores.tolist())
        weighed = profile.weights[plugin] * scores
        if attempt is not None:
            columns.append((profile.name_of(plugin), raw.tolist(), weighed.tolist()))
        sums += weighed
    if attempt is not None:
        _note(attempt, nodes, columns)
    return sums


def _scores_many(
    this: Try, plugin: Plugin, nodes: Sequence[NodeInfo], table: Table, rows: Rows
) -> tuple[Scores, Scores]:
    import numpy as np

    state, pod = this.state, this.pod
    if overrides(plugin, "score_many"):
        raw = plugin.score_many(state, pod, table, rows)
    else:
        asked = _raw(this, plugin, nodes)
        raw = np.fromiter(asked, np.int64, len(nodes))
    if overrides(plugin, "normalize_many"):
        return raw, plugin.normalize_many(state, pod, raw)
    if overrides(plugin, "normalize"):
        return raw, np.array(_normal(this, plugin, raw.tolist()), np.int64)
    return raw, raw


def _out_of_range(profile: Profile, plugin: Plugin, scores: Sequence[int]) -> Status | None:
    for score in scores:
        if not 0 <= score <= BEST:
            name = profile.name_of(plugin)
            words = (
                f"plugin {name!r} returns an invalid score {score}, it should in the range of "
                f"[0, {BEST}] after normalizing"
            )
            return failure(words).by(name)
    return None


def _note(attempt: Attempt, nodes: Sequence[NodeInfo], columns: list[Column]) -> None:
    """What each plugin said of each node."""
    plugins = [name for name, _, _ in columns]
    raw, weighed = zip(*(one for _, *one in columns), strict=True) if columns else ((), ())
    for found, parts in ((attempt.score, raw), (attempt.final_score, weighed)):
        for node, *scores in zip(nodes, *parts, strict=True):
            found[node.name] = dict(zip(plugins, scores, strict=True))


def with_scores(sums: Any, nodes: Sequence[NodeInfo], scores: dict[str, int], weight: int) -> Any:
    """The sums with what somebody outside says of these nodes."""
    if isinstance(sums, list):
        return [
            total + weight * scores.get(node.name, 0)
            for total, node in zip(sums, nodes, strict=True)
        ]
    return sums + [weight * scores.get(node.name, 0) for node in nodes]


def best(sums: Any) -> list[int]:
    """Where the highest of these sums stand."""
    if isinstance(sums, list):
        most = max(sums)
        return [place for place, total in enumerate(sums) if total == most]
    return (sums == sums.max()).nonzero()[0].tolist()  # type: ignore[no-any-return]
