"""Expectations of a scenario, read from a YAML document: checked before the scenario is played,
and compared with its result.

Each expectation keeps its line for reports.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.documents import (
    Unmet,
    one_of,
    refused,
    require_known_keys,
    require_map,
    unmet,
)
from pytest_kscen.objects.scenarios import FAILED, PAUSED, SUCCEEDED
from pytest_kscen.scenario.analysis.pods import DELETED, PENDING, PLACED, PREEMPTED
from pytest_kscen.scenario.analysis.timeline import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.documents import Document
    from pytest_kscen.scenario.analysis.pods import PodHistory
    from pytest_kscen.scenario.analysis.result import Result

PHASES = (SUCCEEDED, FAILED, PAUSED)
STATES = (PLACED, PENDING, DELETED, PREEMPTED)
TOLERANCE = 0.001  # shares are written with three digits
A_STEP = "a whole number from 1, or [major, minor]"


@dataclass(frozen=True)
class ScenarioExpectations:
    """Expectations of one scenario; without any, it has to succeed. `wanted` holds the validated
    keys as written, so that each unmet expectation is reported with its line.
    """

    document: Document | None = None
    wanted: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> ScenarioExpectations:
        """Read the expectations of a document; raise DocumentRefused with the line of an
        invalid one.
        """
        obj = document.content
        require_known_keys(document, (), obj, ("apiVersion", "kind", "scenario", *CHECKS))
        wanted = {key: obj[key] for key in obj if key in CHECKS}
        for key, value in wanted.items():
            CHECKS[key][0](document, value)
        return cls(document, wanted)

    def unmet(self, phase: str, message: str, result: Result) -> list[Unmet]:
        """Return the expectations that do not hold, in the order in which they were written.
        The expected phase is Succeeded unless it is named.
        """
        seen = _PlayedScenario(self.document, phase, message, result)
        wanted = {"phase": SUCCEEDED, **self.wanted}
        return [one for key, value in wanted.items() for one in CHECKS[key][1](seen, value)]


@dataclass(frozen=True)
class _PlayedScenario:
    document: Document | None
    phase: str
    message: str
    result: Result

    def unmet(self, *path: str, expected: object, observed: object) -> Unmet:
        return unmet(self.document, path, expected, observed)


# --- the scenario's end ---


def _requires(
    key: str, what: str, test: Callable[[Any], bool], remedy: Callable[[Any], str]
) -> Callable[[Document, Any], None]:
    def check(document: Document, value: Any) -> None:
        if not test(value):
            raise refused(document, (key,), f"{value!r} is not a {what}", remedy(value))

    return check


# --- pods ---


def _check_pods(document: Document, value: Any) -> None:
    require_map(
        document,
        ("pods",),
        value,
        "names of pods, or patterns as in web-*, with the expectations of each",
    )
    for name, wanted in value.items():
        path = ("pods", str(name))
        require_map(document, path, wanted, ", ".join(POD))
        require_known_keys(document, path, wanted, POD)
        for key, one in wanted.items():
            if not POD[key][0](one):
                raise refused(
                    document, (*path, key), f"{one!r} does not fit", f"give {POD[key][1]}"
                )


def _pods(seen: _PlayedScenario, wanted: dict[str, Any]) -> Iterator[Unmet]:
    latest = {_display_name(history): history for history in seen.result.pods}
    for pattern, expected in wanted.items():
        path = ("pods", str(pattern))
        matching = [
            history
            for called, history in latest.items()
            if fnmatch.fnmatchcase(called, str(pattern))
        ]
        if "count" in expected and len(matching) != expected["count"]:
            yield seen.unmet(*path, "count", expected=expected["count"], observed=len(matching))
        elif not matching and "count" not in expected:
            yield seen.unmet(
                *path,
                expected="a pod",
                observed=f"none of this name{nearest(str(pattern), latest)}",
            )
        for history in matching:
            about = f"{_display_name(history)}: " if path[-1] != _display_name(history) else ""
            for key, value in expected.items():
                holds, observed = _compare(history, key, value)
                if not holds:
                    yield seen.unmet(*path, key, expected=value, observed=f"{about}{observed}")


def _compare(history: PodHistory, key: str, value: Any) -> tuple[bool, str]:
    """Return whether a pod's property has the expected value, and the value that it has."""
    if key == "node":
        names = value if isinstance(value, list) else [value]
        return (
            history.node in names,
            history.node or f"no node{f' ({history.why_not})' if history.why_not else ''}",
        )
    if key == "step":
        wanted = tuple(value) if isinstance(value, list) else (value,)
        step = tuple(history.scheduled) if history.scheduled else ()
        return bool(step) and step[: len(wanted)] == wanted, ".".join(
            map(str, step)
        ) or "never scheduled"
    if key == "state":
        return history.state == value, history.state
    if key == "pending":
        return history.is_pending is value, history.state
    return True, ""


def _is_step(value: Any) -> bool:
    # major and minor
    numbers = value if isinstance(value, list) and len(value) == 2 else [value]  # noqa: PLR2004
    return all(_is_count(number) for number in numbers) and numbers[0] > 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


POD: dict[str, tuple[Callable[[Any], bool], str]] = {
    "node": (
        lambda value: (
            value != []
            and all(
                isinstance(name, str) and bool(name)
                for name in (value if isinstance(value, list) else [value])
            )
        ),
        "a node's name, or a list of the allowed nodes",
    ),
    "step": (_is_step, f"the step at which it got its node: {A_STEP}"),
    "state": (lambda value: value in STATES, f"one of {', '.join(STATES)}"),
    "pending": (lambda value: isinstance(value, bool), "true or false"),
    "count": (_is_count, "the number of matching pods: a whole number"),
}


# --- figures ---


def _check_allocation(document: Document, value: Any) -> None:
    require_map(document, ("allocation",), value, "resources, as in cpu: {3: 0.75}")
    for resource, by_step in value.items():
        path = ("allocation", str(resource))
        require_map(
            document, path, by_step, "steps with the allocated share at their end, as in 3: 0.75"
        )
        for step, share in by_step.items():
            if (
                not _is_count(step)
                or not step
                or not isinstance(share, int | float)
                or isinstance(share, bool)
            ):
                raise refused(
                    document,
                    (*path, str(step)),
                    f"{step}: {share!r} does not fit",
                    "write a step and a share: 3: 0.75",
                )


def _allocation(seen: _PlayedScenario, wanted: dict[str, Any]) -> Iterator[Unmet]:
    last = max((event.step.major for event in seen.result.timeline), default=0)
    for resource, by_step in wanted.items():
        for step, share in by_step.items():
            try:
                observed: float | str = round(seen.result.allocation(resource).at(step=step), 4)
            except LookupError as error:
                observed = str(error)
            if step > last:
                observed = f"no such step: the last is {last}"
            if isinstance(observed, str) or abs(observed - share) > TOLERANCE:
                yield seen.unmet(
                    "allocation", resource, str(step), expected=share, observed=observed
                )


def _check_events(document: Document, value: Any) -> None:
    require_map(
        document,
        ("events",),
        value,
        "kinds of events with their number, as in podScheduled: 2",
    )
    require_known_keys(document, ("events",), value, KINDS)
    for kind, count in value.items():
        if not _is_count(count):
            raise refused(
                document, ("events", kind), f"{count!r} does not fit", "give a whole number"
            )


CHECKS: dict[
    str, tuple[Callable[[Document, Any], None], Callable[[_PlayedScenario, Any], Iterable[Unmet]]]
] = {
    "phase": (
        _requires(
            "phase", "phase", lambda value: value in PHASES, lambda value: one_of(value, PHASES)
        ),
        lambda seen, wanted: (
            []
            if seen.phase == wanted
            else [
                seen.unmet(
                    "phase",
                    expected=wanted,
                    observed=f"{seen.phase}{f' ({seen.message})' if seen.message else ''}",
                )
            ]
        ),
    ),
    "message": (
        _requires(
            "message",
            "string",
            lambda value: isinstance(value, str) and bool(value),
            lambda _: "write a part of the expected message",
        ),
        lambda seen, wanted: (
            []
            if wanted in seen.message
            else [
                seen.unmet(
                    "message", expected=f"one with {wanted!r}", observed=seen.message or "none"
                )
            ]
        ),
    ),
    "pods": (_check_pods, _pods),
    "allocation": (_check_allocation, _allocation),
    "events": (
        _check_events,
        lambda seen, wanted: (
            seen.unmet("events", kind, expected=count, observed=there)
            for kind, count in wanted.items()
            if (there := len(seen.result.timeline.of(kind))) != count
        ),
    ),
}


# --- words ---


def _display_name(history: PodHistory) -> str:
    return history.name if history.namespace == "default" else f"{history.namespace}/{history.name}"
