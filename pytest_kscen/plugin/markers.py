"""Markers of the plugin, and the checks of markers, options and archive folder at collection.

Must not import an engine at load time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.options import Fills, SwitchesOn
from pytest_kscen.plugin.options import (
    CHURN,
    DURATION,
    OPTIONS,
    PARENT_KUBECONFIG,
    SETTINGS,
    VM_NAMESPACE,
)
from pytest_kscen.plugin.planning import (
    GUARANTEES,
    PLAN_FROM_COMMAND_LINE,
    cluster_request,
    plan,
    reached,
)

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    import pytest

    from pytest_kscen.objects.options import Option
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.run.plan import Plan


WORKFLOW = "workflow"
"""Name of the marker and of the fixture."""


@dataclass(frozen=True, slots=True)
class WorkflowRequest:
    """Workflow to run, objects to apply before it, and its time limit."""

    workflow: Obj
    cast: list[Obj]
    within: str


def workflow_request(item: pytest.Item) -> WorkflowRequest | None:
    """Read the marker, or raise a ValueError that names the mistake; None if it names no file."""
    mark = item.get_closest_marker(WORKFLOW)
    if mark is None or not (mark.args or mark.kwargs):
        return None
    try:
        return _read(item, *mark.args, **mark.kwargs)
    except TypeError:
        raise ValueError(
            "@pytest.mark.workflow takes a file, and the keywords parameters={...} and within='1h'"
        ) from None


def _read(
    item: pytest.Item,
    file: str | pathlib.Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    within: str = "1h",
) -> WorkflowRequest:
    from pytest_kscen.objects.arguments import seconds_of_text
    from pytest_kscen.objects.documents import documents
    from pytest_kscen.workflow.files import companion_objects, workflow_of

    beside = item.path.parent / file
    path = beside if beside.exists() else item.config.rootpath / file
    path = path if path.exists() else beside
    seconds_of_text(within)
    return WorkflowRequest(
        workflow_of(path, parameters), companion_objects(documents(path)), within
    )


def unusable(items: Iterable[pytest.Item]) -> Iterator[str]:
    """Create the archive folder before the first run, and yield the reason if it is unusable.

    Does nothing if none of these tests may have a run.
    """
    playing = next(
        (item for item in items if "scenario_runner" in getattr(item, "fixturenames", ())), None
    )
    if playing is None or playing.config.getoption("collectonly"):
        return
    if (folder := playing.config.stash[SETTINGS].kscen_archive) is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        yield (
            f"--kscen-archive {str(folder)!r} cannot be made: {error.strerror}: name a folder "
            "in which runs can be kept"
        )
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield (
            f"--kscen-archive {str(folder)!r} cannot be written to: name a folder in which "
            "runs can be kept"
        )


NO_MACHINES = "no run has used virtual machines"
RUN_TIME_FLAGS = {
    DURATION.flag: "all runs set their length themselves",
    PARENT_KUBECONFIG.flag: NO_MACHINES,
    VM_NAMESPACE.flag: NO_MACHINES,
}
"""Reason for each flag that only runs use: shown if no run has used it."""

ACTORS = tuple(
    option.effect.actor
    for option in OPTIONS
    if isinstance(option.effect, Fills) and option.effect.actor
)


def idle(items: Sequence[pytest.Item]) -> list[str]:
    """Return a line for each reason for which flags of the command line have no effect.

    Values from the environment or a file are not reported: they serve all test sessions.
    """
    if not items:
        return []
    given = items[0].config.stash[SETTINGS].given
    flags = [
        option
        for option in OPTIONS
        if option.effect and option.flag in given and given[option.flag].source == option.flag
    ]
    if not flags:
        return []
    planned = [(item, plan(item)) for item in items]
    there = {name for item, declared in planned for name in _acting(item, declared)}
    used = {flag for item, declared in planned for flag in reached(item, declared)}
    why: dict[str, list[str]] = {}
    for option in flags:
        kinds = _kinds(option)
        if not there.intersection(kinds):
            why.setdefault(f"no selected test has {' or '.join(kinds)}", []).append(option.flag)
        elif isinstance(option.effect, Fills) and option.flag not in used:
            why.setdefault(f"all markers set {option.effect.parameter} themselves", []).append(
                option.flag
            )
    return [f"{', '.join(unused)}: without effect, {reason}" for reason, unused in why.items()]


def idle_in_runs(config: pytest.Config, used_flags: Container[str]) -> list[str]:
    """Return a line for each given flag that no run has used."""
    given = config.stash[SETTINGS].given
    flags = [
        flag
        for flag in RUN_TIME_FLAGS
        if flag in given and given[flag].source == flag and flag not in used_flags
    ]
    return [f"{flag}: without effect, {RUN_TIME_FLAGS[flag]}" for flag in flags]


def _acting(item: pytest.Item, declared: Plan) -> Iterator[str]:
    if item.get_closest_marker(PLAN_FROM_COMMAND_LINE):
        yield PLAN_FROM_COMMAND_LINE
    if declared.churn:
        yield CHURN
        yield from (f"{CHURN}({actor}=True)" for actor in ACTORS if getattr(declared.churn, actor))
    for profile in declared.chaos:
        yield profile.name


def _kinds(option: Option) -> tuple[str, ...]:
    """Return the markers of which one has to be there for the option to have an effect."""
    match option.effect:
        case SwitchesOn():
            return (PLAN_FROM_COMMAND_LINE,)
        case Fills(actor=""):
            return option.effect.kinds
        case Fills(actor=actor):
            return tuple(f"{kind}({actor}=True)" for kind in option.effect.kinds)
        case _:
            return ()


OF_A_PLAN = ("volume_churn", "chaos", GUARANTEES, PLAN_FROM_COMMAND_LINE)
DECLARING = ("cluster", WORKFLOW, *OF_A_PLAN)
BARE = ("megatest", "scenario", "controlplane", PLAN_FROM_COMMAND_LINE)
"""Markers without parameters."""
SCENARIO_RUNNER = "scenario_runner"
HOW_TO_RUN = "call scenario_runner.run(), or enter `with scenario_runner as run`"

MARKERS = (
    "megatest: test of volume churn under chaos; `pytest -m megatest` runs all of them",
    (
        "scenario: test that plays a Scenario of a *.scenario.yaml file; `pytest -m scenario` "
        "runs all of them"
    ),
    (
        "workflow(file, parameters=None, within='1h'): Workflow that the fixture `workflow` "
        "plays, and its time limit; tests of *.workflow.yaml have this marker, too"
    ),
    "controlplane: test that needs the programs of the real control plane on this machine",
    (
        "cluster(backend=..., nodes=6, scope='function'): cluster of the test; tests share it "
        "with scope 'module' or 'session'"
    ),
    (
        "volume_churn(storage_classes=..., max_volumes=10, lifetime=('1m', '5m'), ...): "
        "volumes to create and delete during a run"
    ),
    "chaos(profile, **parameters): faults to cause during a run; may be given several times",
    (
        "guarantees(*guarantees): conditions that must hold during a run, made with always, "
        "eventually and sometimes of pytest_kscen"
    ),
    (
        f"{PLAN_FROM_COMMAND_LINE}: volume churn, and the operations and faults of the "
        "--enable-… flags"
    ),
)


def check(items: Iterable[pytest.Item]) -> list[str]:
    """Return a line for each mistake in the tests' markers and in the options that fill them."""
    items = list(items)
    concerned: dict[str, list[str]] = {}
    for item in items:
        for complaint in dict.fromkeys(_complaints(item)):
            concerned.setdefault(complaint, []).append(item.nodeid)
    of_tests = (
        f"{first}{f' and {len(more)} more' if more else ''}: {text}"
        for text, (first, *more) in concerned.items()
    )
    return [*unusable(items), *of_tests]


def _complaints(item: pytest.Item) -> list[str]:
    declares_ours = any(item.get_closest_marker(name) for name in DECLARING)
    if not declares_ours and SCENARIO_RUNNER not in getattr(item, "fixturenames", ()):
        return []  # markers of other plugins may have the same names
    texts = [
        f"@pytest.mark.{name} takes no parameters: remove them"
        for name in BARE
        if any(mark.args or mark.kwargs for mark in item.iter_markers(name))
    ]
    if not declares_ours:
        return texts
    texts += _unused(item)
    for read in (cluster_request, plan, workflow_request):
        try:
            read(item)
        except (TypeError, ValueError) as error:
            texts += str(error).splitlines()
    return texts


def declares(item: pytest.Item) -> list[str]:
    """Return the markers that give this test a plan."""
    return [name for name in OF_A_PLAN if item.get_closest_marker(name)]


def _unused(item: pytest.Item) -> Iterator[str]:
    """Yield markers whose fixture the test does not request: it would pass without a run.

    A test with the fixture `request` is left out, since it may request any fixture at run time.
    """
    info = getattr(item, "_fixtureinfo", None)
    if info is None or "request" in info.argnames:
        return
    mark = item.get_closest_marker(WORKFLOW)
    if mark and mark.args and WORKFLOW not in info.names_closure:
        yield (
            "@pytest.mark.workflow: the workflow is never played: request the fixture "
            "`workflow`, which plays it"
        )
    if SCENARIO_RUNNER in info.names_closure:
        return
    if marks := [f"@pytest.mark.{name}" for name in declares(item)]:
        yield (
            f"{', '.join(marks)}: the plan is never run: request the fixture "
            f"scenario_runner, and {HOW_TO_RUN}"
        )
