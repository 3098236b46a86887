"""A scenario's timeline, from its status, a journal or a folder.

Attempt results are kept packed until they are read.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.journal import stored
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.scenarios import OVER
from pytest_kscen.scenario.models import ScenarioStatus, TimelineEvent, read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.models import PodRef, ScenarioStep


LARGE = 32  # nodes


class Packed(Mapping[str, Any]):
    """Results of an attempt with large parts compressed, for thousands of nodes: parts are unpacked
    when they are read, and reading gives the same values.
    """

    __slots__ = ("_parts",)

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._parts: dict[str, Any] = {
            name: (
                zlib.compress(orjson.dumps(value), 1)
                if isinstance(value, dict) and len(value) > LARGE
                else value
            )
            for name, value in results.items()
        }

    def __getitem__(self, name: str) -> Any:
        value = self._parts[name]
        return orjson.loads(zlib.decompress(value)) if isinstance(value, bytes) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


JOURNAL = "journal.jsonl"
KINDS = {
    "create": "create",
    "patch": "patch",
    "delete": "delete",
    "done": "done",
    "podScheduled": "pod_scheduled",
    "podUnscheduled": "pod_unscheduled",
    "podAttempted": "pod_attempted",
}


class NoScenario(LookupError):
    """Lookup that found no scenario, or several without a name to choose by."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Placement of a pod: the node that it got, and the step at which the scheduler bound it."""

    pod: PodRef
    node: str
    step: ScenarioStep


class Timeline:
    """Events of a scenario, in the order in which they happened, with a note if the source was
    incomplete. Iteration yields TimelineEvents.
    """

    def __init__(self, events: Iterable[TimelineEvent], note: str = "") -> None:
        self.events = list(events)
        self.note = note
        """Note on missing events; empty if the timeline is complete."""

    @classmethod
    def of_status(cls, scenario: Obj) -> Timeline:
        result = read(ScenarioStatus, scenario.get("status")).result
        if result is None:
            return cls([])
        events = (
            event for step in sorted(result.timeline, key=int) for event in result.timeline[step]
        )
        return cls(events, result.note or "")

    @classmethod
    def of_journal(cls, journal: Iterable[Entry], scenario: str = "") -> Timeline:
        """Read the timeline of one scenario from a run's journal.

        Without a name there must be exactly one scenario, else NoScenario is raised. Of a scenario
        that was played several times, the last time counts.
        """
        found = _by_scenario(journal)
        return cls(_read(found[_named(scenario, found, "the journal")] if found else ()))

    @classmethod
    def of_folder(cls, path: pathlib.Path | str, scenario: str = "") -> Timeline:
        """Read the timeline from the archive folder of a run; raise NoScenario if it has no
        journal, or several scenarios and none is named.
        """
        file = pathlib.Path(path) / JOURNAL
        if not file.is_file():
            raise NoScenario(
                f"{path} is not the folder of a run: it has no {JOURNAL}; give a folder that "
                "--kscen-archive has made"
            )
        found = _by_scenario(stored(file))
        return cls(_read(found[_named(scenario, found, f"the run in {path}")]))

    def __iter__(self) -> Iterator[TimelineEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def of(self, kind: str) -> list[TimelineEvent]:
        """Return the events of one kind: create, patch, delete, done, podScheduled, podUnscheduled
        or podAttempted. Raise ValueError for another kind.
        """
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of event; there are {', '.join(KINDS)}")
        return [event for event in self.events if getattr(event, KINDS[kind]) is not None]

    def scheduled(self, pod: str, namespace: str = "") -> Scheduled:
        """Return when this pod got its node, the last time if it did more than once."""
        found = None
        for event in self.of("podScheduled"):
            what = event.pod_scheduled
            if what and what.pod.name == pod and namespace in ("", what.pod.namespace):
                found = Scheduled(what.pod, what.bound_to, event.step)
        if found is None:
            had = ", ".join(
                dict.fromkeys(
                    e.pod_scheduled.pod.name for e in self.of("podScheduled") if e.pod_scheduled
                )
            )
            raise LookupError(f"the pod {pod!r} was never scheduled; these were: {had or 'none'}")
        return found

    @property
    def steps(self) -> list[int]:
        return sorted({event.step.major for event in self.events})


def _by_scenario(journal: Iterable[Entry]) -> dict[str, list[Obj]]:
    """Return the events of each scenario as they were written. A scenario that is played again
    begins with no events; withdrawn events are left out.
    """
    found: dict[str, list[Obj]] = {}
    over: set[str] = set()
    for each in journal:
        if each.what == "scenario-phase":
            name = each.data["scenario"]
            if name in over:
                found[name] = []
            found.setdefault(name, [])
            (over.add if each.data["phase"] in OVER else over.discard)(name)
        elif each.what == "scenario-event":
            event = each.data["event"]
            attempted = event.get("podAttempted") or {}
            if attempted.get("results"):
                packed = {**attempted, "results": Packed(attempted["results"])}
                event = {**event, "podAttempted": packed}
            found.setdefault(each.data["scenario"], []).append(event)
        elif each.what == "scenario-event-undone":
            name, undone = each.data["scenario"], each.data["id"]
            found[name] = [event for event in found[name] if event["id"] != undone]
    return found


def _named(scenario: str, found: Collection[str], where: str) -> str:
    if not scenario and len(found) > 1:
        raise NoScenario(
            f"the run has {len(found)} scenarios: name one of them: {', '.join(found)}"
        )
    name = scenario or next(iter(found), "")
    if name not in found:
        what = (
            f"scenario {name!r}{nearest(name, found)}; there are {', '.join(found)}"
            if found
            else "scenario"
        )
        raise NoScenario(f"{where} has no {what}")
    return name


def _read(events: Iterable[Obj]) -> Iterator[TimelineEvent]:
    return (read(TimelineEvent, event) for event in events)
