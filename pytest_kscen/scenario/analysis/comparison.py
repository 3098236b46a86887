"""Comparison of two runs, such as one scenario with two configurations of the scheduler.

Pods are matched by namespace, name and how often they were created. Pods whose names the other run
does not have are matched by their owners, in order. A placement differs if the node or the major
step does; minor steps only give the order of scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.rendering import as_markdown, as_text, picture
from pytest_kscen.scenario.analysis.replay import in_order
from pytest_kscen.scenario.analysis.utilization import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.scenario.analysis.pods import PodHistory
    from pytest_kscen.scenario.analysis.rendering import Row
    from pytest_kscen.scenario.analysis.result import Result
    from pytest_kscen.scenario.analysis.utilization import Series
    from pytest_kscen.scenario.models import ScenarioStep

MANY = 50  # rows of one table that a report shows
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of one pod in both runs, with both names if they differ.

    An empty node means pending; `absent` marks a pod that a run does not have.
    """

    namespace: str
    pod: str
    number: int
    nodes: tuple[str, str]
    steps: tuple[ScenarioStep | None, ScenarioStep | None]
    states: tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """Differences of two results: figures, placements, steps and preemptions. Made by `compare`;
    each table is computed when it is first read, from the two timelines alone.
    """

    first: Result
    second: Result
    names: tuple[str, str]

    @cached_property
    def placements(self) -> list[Placement]:
        """Return the placements that differ, in the order in which the pods were created."""
        found: list[Placement] = []
        for pair in _pairs(self.first, self.second):
            present = [history for history in pair if history]
            nodes = [history.node if history else "" for history in pair]
            steps = [history.scheduled if history else None for history in pair]
            states = [history.state if history else "absent" for history in pair]
            majors = [step.major if step else None for step in steps]
            if nodes[0] != nodes[1] or majors[0] != majors[1] or "absent" in states:
                found.append(
                    Placement(
                        present[0].namespace,
                        ", ".join(dict.fromkeys(history.name for history in present)),
                        present[0].number,
                        (nodes[0], nodes[1]),
                        (steps[0], steps[1]),
                        (states[0], states[1]),
                    )
                )
        return found

    @cached_property
    def is_same(self) -> bool:
        """Return True if every pod was on the same node from the same major step."""
        return not self.placements

    def rows(self, table: str = "figures") -> list[Row]:
        """Return the rows of one table: figures, placements, steps or preemptions. Raise ValueError
        for any other name.
        """
        if table not in TABLES:
            raise ValueError(
                f"{table!r} is not a table of a comparison; there are {', '.join(TABLES)}"
            )
        return TABLES[table](self)

    def text(self) -> str:
        return self._render(as_text, "{}\n{}\n", underline=True)

    def markdown(self) -> str:
        return self._render(as_markdown, "## {}\n\n{}", underline=False)

    def picture(self) -> str:
        return picture([self.first, self.second], self.names)

    def _render(self, render: Callable[[Sequence[Row]], str], form: str, *, underline: bool) -> str:
        parts = []
        for title, table in TITLES.items():
            rows = self.rows(table)
            count = (
                f" ({len(rows)}{f', the first {MANY} are shown' if len(rows) > MANY else ''})"
                if table in COUNTED
                else ""
            )
            heading = f"{title.format(*self.names)}{count}"
            rule = "=" * len(heading) + "\n" if underline else ""
            parts.append(
                form.format(heading, rule + render(rows[:MANY] if table in COUNTED else rows))
            )
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.text()


def _placements(of: Comparison) -> list[Row]:
    rows = []
    for each in of.placements:
        row: Row = {
            "pod": f"{each.namespace}/{each.pod}{f' #{each.number}' if each.number > 1 else ''}"
        }
        for name, node, step, state in zip(
            of.names, each.nodes, each.steps, each.states, strict=True
        ):
            row |= {
                f"node {name}": node or state,
                f"step {name}": f"{step.major}.{step.minor}" if step else "",
            }
        rows.append(row)
    return rows


def _steps(of: Comparison) -> list[Row]:
    steps = sorted({*of.first.timeline.steps, *of.second.timeline.steps})
    rows: list[Row] = [{"step": step} for step in steps]
    for resource in in_order({*of.first.resources, *of.second.resources}):
        for what, measure in MEASURES.items():
            for name, result in zip(of.names, (of.first, of.second), strict=True):
                for row, value in zip(rows, filled(measure(result, resource), steps), strict=True):
                    row[f"{resource} {what} {name}"] = value
    return rows


MEASURES: dict[str, Callable[[Result, str], Series]] = {
    "allocation": lambda result, resource: result.allocation(resource),
    "imbalance": lambda result, resource: result.imbalance(resource),
    "fragmentation": lambda result, resource: result.fragmentation(resource),
}
TABLES: dict[str, Callable[[Comparison], list[Row]]] = {
    "figures": lambda of: [
        {
            "": name,
            of.names[0]: one,
            of.names[1]: other,
            "difference": None if one is None or other is None else round(other - one, 9),
        }
        for name in {**of.first.summary, **of.second.summary}
        for one, other in [(of.first.summary.get(name), of.second.summary.get(name))]
    ],
    "placements": _placements,
    "steps": _steps,
    "preemptions": lambda of: [
        {
            "run": name,
            "pod": f"{each.namespace}/{each.pod}",
            "node": each.node,
            "step": f"{each.step.major}.{each.step.minor}",
            "by": each.by,
        }
        for name, result in zip(of.names, (of.first, of.second), strict=True)
        for each in result.preemptions
    ],
}
TITLES = {
    "{} and {}": "figures",
    "Placements that differ": "placements",
    "Preemptions": "preemptions",
    "Step by step": "steps",
}
COUNTED = ("placements", "preemptions")


def compare(first: Result, second: Result, *, names: tuple[str, str] = ("a", "b")) -> Comparison:
    """Compare two runs, under these names; raise ValueError if the names are equal, since columns
    are named after them.
    """
    if names[0] == names[1]:
        raise ValueError(
            f"two runs need different names, and both are called {names[0]!r}: give two names"
        )
    return Comparison(first, second, names)


def _pairs(first: Result, second: Result) -> Iterator[tuple[PodHistory | None, PodHistory | None]]:
    """Yield the pods of both runs in pairs, None for a pod that a run does not have.

    Pods of one owner whose names differ are paired in their order.
    """
    one, other = _by_key(first), _by_key(second)
    unmatched: dict[tuple[str, str], list[PodHistory]] = {}
    for key, history in other.items():
        if key not in one and history.origin:
            unmatched.setdefault((history.namespace, history.origin), []).append(history)
    for key, history in one.items():
        alike = unmatched.get((history.namespace, history.origin)) if key not in other else None
        match = alike.pop(0) if alike else other.get(key)
        if match:
            del other[match.namespace, match.name, match.number]
        yield history, match
    yield from ((None, history) for history in other.values())


def _by_key(result: Result) -> dict[Key, PodHistory]:
    return {(history.namespace, history.name, history.number): history for history in result.pods}
