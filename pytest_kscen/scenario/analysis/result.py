"""Queries on a scenario's result, computed on demand and once, with its summary and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.scenario.analysis import pods, replay, utilization
from pytest_kscen.scenario.analysis.comparison import compare
from pytest_kscen.scenario.analysis.rendering import (
    TABLES,
    as_csv,
    as_json_lines,
    as_markdown,
    as_text,
    picture,
)
from pytest_kscen.scenario.analysis.replay import in_order
from pytest_kscen.scenario.analysis.timeline import Timeline

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.comparison import Comparison
    from pytest_kscen.scenario.analysis.pods import PodAttempt, PodHistory, Preemption
    from pytest_kscen.scenario.analysis.rendering import Row
    from pytest_kscen.scenario.analysis.replay import ClusterState
    from pytest_kscen.scenario.analysis.utilization import Series, UtilizationSpread
    from pytest_kscen.scenario.models import TimelineEvent


Figures = dict[str, float]


def summary(result: Result) -> Figures:
    """Return the figures of a result, in the order of the report: pods first, then resources."""
    pods = result.pods
    attempts = [attempt for pod in pods for attempt in pod.attempts]
    waited = [pod for pod in pods if not pod.is_given]
    major, minor = [pod.major_steps for pod in waited], [pod.minor_steps for pod in waited]
    found: Figures = {
        "major steps": len(result.timeline.steps),
        "pods": len(pods),
        "pods scheduled": sum(pod.scheduled is not None for pod in pods),
        "pods pending at the end": sum(pod.is_pending for pod in pods),
        "attempts": len(attempts),
        "attempts without a place": sum(not attempt.node for attempt in attempts),
        "preemptions": len(result.preemptions),
        "waiting, major steps, mean": _mean(major),
        "waiting, major steps, longest": max(major, default=0),
        "waiting, minor steps, mean": _mean(minor),
        "waiting, minor steps, longest": max(minor, default=0),
    }
    for resource in result.resources:
        allocation, imbalance = result.allocation(resource), result.imbalance(resource)
        fragmentation, stranded = (
            result.fragmentation(resource),
            result.fragmentation(resource, pending=True),
        )
        found |= {
            f"{resource} allocation, mean": allocation.mean,
            f"{resource} allocation, highest": allocation.most,
            f"{resource} allocation, at the end": allocation.last,
            f"{resource} imbalance, mean": imbalance.mean,
            f"{resource} imbalance, at the end": imbalance.last,
            f"{resource} range over nodes, at the end": result.spread(resource).range.last,
            f"{resource} fragmentation, mean": fragmentation.mean,
            f"{resource} fragmentation, at the end": fragmentation.last,
            f"{resource} fragmentation for pending pods, at the end": stranded.last,
        }
    return found


def _mean(values: Iterable[int]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0


MANY = 50
COUNTS = ("step", "nodes", "pods", "pending")
MEASURES = ("allocation", "imbalance", "range", "fragmentation", "stranded")


def report(result: Result, *, markdown: bool = False) -> str:
    """Return the report as plain text, or as Markdown: figures, a table by step, one for each
    resource, preemptions, and the pods that are pending at the end.
    """
    steps = result.rows("steps")
    pending = [
        {
            "pod": f"{pod.namespace}/{pod.name}",
            "since step": pod.created.major,
            "attempts": len(pod.attempts),
            "why": pod.why_not,
        }
        for pod in result.pods
        if pod.is_pending
    ]
    tables: list[tuple[str, list[Row]]] = [
        ("Figures", [{"": name, "value": value} for name, value in result.summary.items()]),
        ("Step by step", [{name: row[name] for name in COUNTS} for row in steps]),
        *(
            (
                resource,
                [
                    {"step": row["step"], **{name: row[f"{name}_{resource}"] for name in MEASURES}}
                    for row in steps
                ],
            )
            for resource in result.resources
        ),
        _first_rows("Preemptions", result.rows("preemptions")),
        _first_rows("Without a node at the end", pending),
    ]
    parts = [f"{result.note}\n"] if result.note else []
    for title, rows in tables:
        if markdown:
            parts.append(f"## {title}\n\n{as_markdown(rows)}")
        else:
            parts.append(f"{title}\n{'=' * len(title)}\n{as_text(rows)}")
    return "\n".join(parts)


def _first_rows(title: str, rows: list[Row]) -> tuple[str, list[Row]]:
    shown = f", the first {MANY} are shown" if len(rows) > MANY else ""
    return f"{title} ({len(rows)}{shown})", rows[:MANY]


T = TypeVar("T")
ALWAYS = ("cpu", "memory", "pods", "ephemeral-storage")
"""Resources that nodes of every cluster have."""


@dataclass(frozen=True)
class Result:
    """Result of one scenario, read from its timeline alone. Queries are computed at the first call
    and kept; steps are major steps unless they are named minor.
    """

    timeline: Timeline
    _known: dict[tuple[str, ...], object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_status(cls, scenario: Obj) -> Result:
        """Read the result from a Scenario object, as the API or a file has it."""
        return cls(Timeline.of_status(scenario))

    @classmethod
    def of_journal(cls, journal: Iterable[Entry], scenario: str = "") -> Result:
        """Read the result from a run's journal; `scenario` names one if there are several."""
        return cls(Timeline.of_journal(journal, scenario))

    @classmethod
    def of_folder(cls, path: pathlib.Path | str, scenario: str = "") -> Result:
        return cls(Timeline.of_folder(path, scenario))

    @property
    def note(self) -> str:
        return self.timeline.note

    def scenes(self) -> Iterator[tuple[TimelineEvent, ClusterState]]:
        """Yield each event with the cluster after it, for queries of your own."""
        return replay.scenes(self.timeline)

    # --- the cluster, by major step ---

    @cached_property
    def resources(self) -> list[str]:
        """Return the resources that nodes have and some pod requested."""
        asked: set[str] = set()
        for _, scene in replay.steps(self.timeline):
            for node in scene.touched:
                asked |= scene.requested.get(node, {}).keys()
            asked.update(*(scene.requests[name] for name in scene.pending))
        return in_order(asked & self._had)

    @cached_property
    def _had(self) -> set[str]:
        return {
            resource
            for _, scene in replay.steps(self.timeline)
            for node in scene.touched
            for resource in scene.allocatable.get(node, {})
        }

    def _of(self, resource: str) -> str:
        """Check that some node has this resource, else raise LookupError; common ones may be
        queried anyway.
        """
        if resource not in (*ALWAYS, *self._had):
            there = in_order({*ALWAYS, *self._had})
            raise LookupError(
                f"no node has {resource!r}{nearest(resource, there)}; there are {', '.join(there)}"
            )
        return resource

    def allocation(self, resource: str) -> Series:
        """Return the share of all nodes' capacity that pods request, by major step."""
        return self._once(utilization.allocation, "allocation", self._of(resource))

    def utilisation(self, resource: str) -> dict[str, Series]:
        """Return the same share for each node, at the steps in which it changed."""
        return self._once(utilization.utilisation, "utilisation", self._of(resource))

    def spread(self, resource: str) -> UtilizationSpread:
        return self._once(utilization.spread, "spread", self._of(resource))

    def imbalance(self, resource: str) -> Series:
        return self.spread(resource).deviation

    def fragmentation(self, resource: str, *, pending: bool = False) -> Series:
        """Return the share of the free room that is useless to a typical pod of this scenario, or
        to a pending one.
        """
        return self._once(
            lambda events, resource: utilization.fragmentation(events, resource, pending=pending),
            "stranded" if pending else "fragmentation",
            resource,
        )

    def _once(
        self, compute: Callable[[Iterable[TimelineEvent], str], T], query: str, resource: str
    ) -> T:
        if (query, resource) not in self._known:
            self._known[query, resource] = compute(self.timeline, resource)
        # one type for each query
        return self._known[query, resource]  # type: ignore[return-value]

    # --- the pods ---

    @cached_property
    def pods(self) -> list[PodHistory]:
        """Return the histories of all pods, in the order in which they were created."""
        return pods.pod_histories(self.timeline)

    def pod(self, name: str, namespace: str = "") -> PodHistory:
        """Return the history of one pod, the last one if it was created several times.

        Raise LookupError, with the nearest name, if there was none.
        """
        found = [pod for pod in self.pods if pod.name == name and namespace in ("", pod.namespace)]
        if not found:
            raise LookupError(
                f"the scenario had no pod {name!r}{nearest(name, (pod.name for pod in self.pods))}"
            )
        return found[-1]

    def attempts(self, pod: str = "", namespace: str = "") -> list[PodAttempt]:
        if pod:
            return self.pod(pod, namespace).attempts
        return [attempt for history in self.pods for attempt in history.attempts]

    @cached_property
    def preemptions(self) -> list[Preemption]:
        return pods.preemptions(self.timeline)

    # --- for people, and for other programs ---

    @cached_property
    def summary(self) -> dict[str, float]:
        return summary(self)

    def report(self, *, markdown: bool = False) -> str:
        return report(self, markdown=markdown)

    def picture(self) -> str:
        return picture([self])

    def compare(self, other: Result, *, names: tuple[str, str] = ("a", "b")) -> Comparison:
        return compare(self, other, names=names)

    def rows(self, table: str) -> list[Row]:
        """Return the rows of one table, flat, as in `pandas.DataFrame(result.rows("pods"))`."""
        if table not in TABLES:
            raise ValueError(
                f"{table!r} is not a table of a result{nearest(table, TABLES)}; there are "
                f"{', '.join(TABLES)}"
            )
        return list(TABLES[table](self))

    def csv(self, table: str) -> str:
        return as_csv(self.rows(table))

    def json_lines(self, table: str) -> str:
        return as_json_lines(self.rows(table))
