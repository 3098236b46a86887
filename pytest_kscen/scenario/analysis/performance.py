"""Result of a played scenario for terminal, JUnit, archive and Allure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.judge.verdict import VALID
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.objects.scenarios import FAILED
from pytest_kscen.report.archive import write_lines
from pytest_kscen.scenario.analysis.replay import ClusterState, scenes
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.analysis.timeline import KINDS, Timeline

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Sequence

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.guarantees.checks import GuaranteeResult

RESOURCES = ("cpu", "memory")
MOST_NAMES = 5


@dataclass(frozen=True)
class ScenarioSummary:
    """Summary of one played scenario for reports: its phase, seed and length, its timeline, and the
    state of the cluster at the end.
    """

    name: str
    phase: str
    message: str
    seed: str
    lasted: float
    """Seconds of cluster time."""
    timeline: Timeline
    scene: ClusterState
    """State of the cluster at the end."""
    guarantees: Sequence[GuaranteeResult] = ()

    @classmethod
    def of(
        cls,
        journal: Journal,
        name: str,
        seed: str,
        *,
        was_ended: bool = False,
        guarantees: Sequence[GuaranteeResult] = (),
    ) -> ScenarioSummary:
        """Summarize a scenario from its journal; one that was ended early has the phase and
        reason of that moment.
        """
        phase = message = ""
        began = ended = 0.0
        for entry in journal:
            if entry.what == "scenario-phase" and entry.data["scenario"] == name:
                began = ended if not phase else began
                phase = (
                    phase if was_ended and entry.data["phase"] == FAILED else entry.data["phase"]
                )
                message = entry.data.get("message", "")
            ended = entry.at
        timeline = Timeline.of_journal(journal, name)
        scene = ClusterState()
        for _, last in scenes(timeline):
            scene = last
        phase, lasted = phase or "never begun", ended - began
        return cls(name, phase, message, seed, lasted, timeline, scene, guarantees)

    @property
    def pending(self) -> list[str]:
        return [_display_name(pod) for pod in self.scene.pods if pod not in self.scene.placed]

    @property
    def placed(self) -> dict[str, str]:
        return {_display_name(pod): node for pod, node in self.scene.placed.items()}

    @property
    def counts(self) -> dict[str, int]:
        return {kind: count for kind in KINDS if (count := len(self.timeline.of(kind)))}

    @property
    def allocation(self) -> dict[str, dict[int, float]]:
        result = Result(self.timeline)
        return {resource: result.allocation(resource).by_step for resource in RESOURCES}


def summary(played: ScenarioSummary) -> list[str]:
    """Return the lines of a played scenario for people: result, pods, and allocation by step."""
    count = len(played.timeline.steps)
    length = f"{count} step{'s' * (count != 1)}, {in_words(played.lasted)} of cluster time"
    pods = []
    if played.scene.pods or played.counts.get("podScheduled"):
        waiting = played.pending
        more = f" and {len(waiting) - MOST_NAMES} more" if len(waiting) > MOST_NAMES else ""
        names = ", ".join(waiting[:MOST_NAMES]) + more
        pending = f", {len(waiting)} without a node: {names}" if waiting else ""
        preempted = (
            f", {played.counts['podUnscheduled']} preempted"
            if "podUnscheduled" in played.counts
            else ""
        )
        scheduled = f"{played.counts.get('podScheduled', 0)} scheduled{preempted}"
        pods = [f"  pods: {scheduled}, {len(played.placed)} on nodes at the end{pending}"]
    return [
        f"scenario {played.name}: {played.phase} after {length}; seed {played.seed}",
        *([f"  {played.message}"] if played.message else []),
        *(
            f"  guarantee {one.name!r} is {one.verdict}: {one.why}"
            for one in played.guarantees
            if one.verdict != VALID
        ),
        *pods,
        *(
            f"  {resource} allocated by step: "
            f"{', '.join(f'{step}: {share:.0%}' for step, share in by_step.items())}"
            for resource, by_step in played.allocation.items()
            if any(by_step.values())
        ),
    ]


def properties(played: ScenarioSummary) -> list[tuple[str, object]]:
    return [
        ("kscen.scenario", played.name),
        ("kscen.scenario.phase", played.phase),
        *([("kscen.scenario.message", played.message)] if played.phase == FAILED else []),
        ("kscen.scenario.steps", len(played.timeline.steps)),
        ("kscen.scenario.events", len(played.timeline)),
        ("kscen.scenario.scheduled", played.counts.get("podScheduled", 0)),
        ("kscen.scenario.pending", len(played.pending)),
        ("kscen.seed", played.seed),
    ]


def as_json(played: ScenarioSummary) -> bytes:
    facts: dict[str, Any] = {
        "scenario": played.name,
        "phase": played.phase,
        "message": played.message,
        "seed": played.seed,
        "lasted": round(played.lasted, 6),
        "steps": played.timeline.steps,
        "events": played.counts,
        "placed": played.placed,
        "pending": played.pending,
        "allocation": played.allocation,
        "guarantees": [one.as_json() for one in played.guarantees],
    }
    return orjson.dumps(
        facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    )


def archive(folder: pathlib.Path, played: ScenarioSummary) -> None:
    """Write the outcome as JSON and the summary as text beside the scenario's journal."""
    (folder / "outcome.json").write_bytes(as_json(played))
    write_lines(folder / "summary.txt", summary(played))


def attach(played: ScenarioSummary, journal: Journal, largest: int) -> None:
    """Attach the scenario to the Allure report, if one is being written."""
    import allure

    text, json = allure.attachment_type.TEXT, allure.attachment_type.JSON
    with allure.step(f"scenario {played.name}: {played.phase}"):
        allure.attach("\n".join(summary(played)), "summary", text)
        allure.attach(as_json(played), "outcome.json", json)
        if journal.size <= largest:
            allure.attach(journal.content(), "journal.jsonl", text)
        for step in played.timeline.steps:
            counts = {
                kind: sum(event.step.major == step for event in played.timeline.of(kind))
                for kind in KINDS
            }
            counted = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
            with allure.step(f"step {step}: {counted}"):
                """Steps are Allure's lines."""


def _display_name(pod: tuple[str, str]) -> str:
    namespace, name = pod
    return name if namespace == "default" else f"{namespace}/{name}"
