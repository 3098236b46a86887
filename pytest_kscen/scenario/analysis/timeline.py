"""The timeline of a scenario as people ask it: what happened, at which step, to which pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.scenario.models import ScenarioStatus, TimelineEvent
from pytest_kscen.scenario.shape import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.models import PodRef, ScenarioStep

KINDS = {
    "create": "create",
    "patch": "patch",
    "delete": "delete",
    "done": "done",
    "podScheduled": "pod_scheduled",
    "podUnscheduled": "pod_unscheduled",
    "podAttempted": "pod_attempted",
}


@dataclass(frozen=True, slots=True)
class Scheduled:
    """When a pod got which node."""

    pod: PodRef
    node: str
    step: ScenarioStep


class Timeline:
    """All events, in the order in which they happened."""

    def __init__(self, events: Iterable[TimelineEvent]) -> None:
        self.events = list(events)

    @classmethod
    def of_status(cls, scenario: Obj) -> Timeline:
        """What a Scenario's status has of it."""
        result = read(ScenarioStatus, scenario.get("status")).result
        steps = sorted(result.timeline, key=int) if result else []
        return cls(event for step in steps for event in (result.timeline[step] if result else ()))

    @classmethod
    def of_journal(cls, journal: Iterable[Entry], scenario: str) -> Timeline:
        """The whole of it."""
        entries = (each.data for each in journal if each.what == "scenario-event")
        return cls(read(TimelineEvent, each["event"]) for each in entries if each["scenario"] == scenario)

    def __iter__(self) -> Iterator[TimelineEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def of(self, kind: str) -> list[TimelineEvent]:
        """The events of one kind: create, patch, delete, done, podScheduled, podUnscheduled, podAttempted."""
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of event; there are {', '.join(KINDS)}")
        return [event for event in self.events if getattr(event, KINDS[kind]) is not None]

    def scheduled(self, pod: str, namespace: str = "") -> Scheduled:
        """When this pod got its node, the last time if it did more than once."""
        found = None
        for event in self.of("podScheduled"):
            what = event.pod_scheduled
            if what and what.pod.name == pod and namespace in ("", what.pod.namespace):
                found = Scheduled(what.pod, what.bound_to, event.step)
        if found is None:
            had = ", ".join(dict.fromkeys(e.pod_scheduled.pod.name for e in self.of("podScheduled") if e.pod_scheduled))
            raise LookupError(f"the pod {pod!r} was never scheduled; these were: {had or 'none'}")
        return found

    @property
    def steps(self) -> list[int]:
        """The major steps in which something happened."""
        return sorted({event.step.major for event in self.events})
