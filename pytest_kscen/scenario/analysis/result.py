"""All questions that can be asked of a scenario's result, in one place. Answers are worked out when they are asked for, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.scenario.analysis import fragmentation, lives, preemptions, replay, usage
from pytest_kscen.scenario.analysis.amounts import in_order
from pytest_kscen.scenario.analysis.comparison import compare
from pytest_kscen.scenario.analysis.picture import picture
from pytest_kscen.scenario.analysis.rendering import as_csv, as_json_lines
from pytest_kscen.scenario.analysis.report import report
from pytest_kscen.scenario.analysis.rows import TABLES
from pytest_kscen.scenario.analysis.summary import summary
from pytest_kscen.scenario.analysis.timeline import Timeline

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.attempts import Attempt
    from pytest_kscen.scenario.analysis.comparison import Comparison
    from pytest_kscen.scenario.analysis.lives import Life
    from pytest_kscen.scenario.analysis.preemptions import Preemption
    from pytest_kscen.scenario.analysis.rendering import Row
    from pytest_kscen.scenario.analysis.replay import Scene
    from pytest_kscen.scenario.analysis.series import Series
    from pytest_kscen.scenario.analysis.usage import Spread
    from pytest_kscen.scenario.models import TimelineEvent

T = TypeVar("T")
ALWAYS = ("cpu", "memory", "pods", "ephemeral-storage")
"""What the nodes of every cluster have."""


@dataclass(frozen=True)
class Result:
    """Of one scenario."""

    timeline: Timeline
    _known: dict[tuple[str, ...], object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_status(cls, scenario: Obj) -> Result:
        """From a Scenario, as the API or a file has it."""
        return cls(Timeline.of_status(scenario))

    @classmethod
    def of_journal(cls, journal: Iterable[Entry], scenario: str = "") -> Result:
        """From a run's journal; of more than one scenario, one must be named."""
        return cls(Timeline.of_journal(journal, scenario))

    @classmethod
    def of_folder(cls, path: pathlib.Path | str, scenario: str = "") -> Result:
        """From the folder that a run has left."""
        return cls(Timeline.of_folder(path, scenario))

    @property
    def note(self) -> str:
        """What is missing from the timeline, if something is."""
        return self.timeline.note

    def scenes(self) -> Iterator[tuple[TimelineEvent, Scene]]:
        """Each event with the cluster after it, for whatever else somebody wants to count."""
        return replay.scenes(self.timeline)

    # --- the cluster, by major step ---

    @cached_property
    def resources(self) -> list[str]:
        """Those that nodes have and some pod asked for."""
        asked: set[str] = set()
        for _, scene in replay.steps(self.timeline):
            for node in scene.touched:
                asked |= scene.promised.get(node, {}).keys()
            asked.update(*(scene.wants[name] for name in scene.pending))
        return in_order(asked & self._had)

    @cached_property
    def _had(self) -> set[str]:
        """The resources of nodes."""
        return {
            resource for _, scene in replay.steps(self.timeline) for node in scene.touched for resource in scene.room.get(node, {})
        }

    def _of(self, resource: str) -> str:
        """A LookupError if no node has this; what every node has may be asked for though there is none."""
        if resource not in (*ALWAYS, *self._had):
            there = in_order({*ALWAYS, *self._had})
            raise LookupError(f"no node has {resource!r}{nearest(resource, there)}; there are {', '.join(there)}")
        return resource

    def allocation(self, resource: str) -> Series:
        """How much of all nodes is promised to pods, as a part of what they have."""
        return self._once(usage.allocation, "allocation", self._of(resource))

    def utilisation(self, resource: str) -> dict[str, Series]:
        """The same for each node, told at the steps in which it changed."""
        return self._once(usage.utilisation, "utilisation", self._of(resource))

    def spread(self, resource: str) -> Spread:
        """How the nodes' utilisation differs: standard deviation, least, most, range."""
        return self._once(usage.spread, "spread", self._of(resource))

    def imbalance(self, resource: str) -> Series:
        """The standard deviation of the nodes' utilisation."""
        return self.spread(resource).deviation

    def fragmentation(self, resource: str, *, pending: bool = False) -> Series:
        """The part of the free room in which a typical pod of this scenario has no use, or one that is pending."""
        return self._once(
            lambda events, resource: fragmentation.fragmentation(events, resource, pending=pending),
            "stranded" if pending else "fragmentation",
            resource,
        )

    def _once(self, work_out: Callable[[Iterable[TimelineEvent], str], T], what: str, resource: str) -> T:
        if (what, resource) not in self._known:
            self._known[what, resource] = work_out(self.timeline, resource)
        return self._known[what, resource]  # type: ignore[return-value]  # by the question's name it is

    # --- the pods ---

    @cached_property
    def pods(self) -> list[Life]:
        """The life of each, in the order in which they were made."""
        return lives.lives(self.timeline)

    def pod(self, name: str, namespace: str = "") -> Life:
        """The life of this one; of one that was made more than once, the last."""
        found = [life for life in self.pods if life.name == name and namespace in ("", life.namespace)]
        if not found:
            raise LookupError(f"the scenario had no pod {name!r}{nearest(name, (life.name for life in self.pods))}")
        return found[-1]

    def attempts(self, pod: str = "", namespace: str = "") -> list[Attempt]:
        """What the scheduler told of each time that it looked for a place: for one pod, or for all."""
        if pod:
            return self.pod(pod, namespace).attempts
        return [attempt for life in self.pods for attempt in life.attempts]

    @cached_property
    def preemptions(self) -> list[Preemption]:
        """Who had to go for whom."""
        return preemptions.preemptions(self.timeline)

    # --- for people, and for other programs ---

    @cached_property
    def summary(self) -> dict[str, float]:
        """The whole in some numbers."""
        return summary(self)

    def report(self, *, markdown: bool = False) -> str:
        return report(self, markdown=markdown)

    def picture(self) -> str:
        """Allocation by step, as SVG that stands in a page."""
        return picture([self])

    def compare(self, other: Result, *, names: tuple[str, str] = ("a", "b")) -> Comparison:
        """This run beside another."""
        return compare(self, other, names=names)

    def rows(self, table: str) -> list[Row]:
        """Flat: `pandas.DataFrame(result.rows("pods"))`."""
        if table not in TABLES:
            raise ValueError(f"{table!r} is no table of a result{nearest(table, TABLES)}; there are {', '.join(TABLES)}")
        return list(TABLES[table](self))

    def csv(self, table: str) -> str:
        return as_csv(self.rows(table))

    def json_lines(self, table: str) -> str:
        return as_json_lines(self.rows(table))
