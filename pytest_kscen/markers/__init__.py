"""The markers that declare a test's cluster, churn and chaos, and what may stand in them. No engine may be imported here early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.markers.archive import unusable
from pytest_kscen.markers.idle import idle, idle_in_runs
from pytest_kscen.markers.planning import PLAN_FROM_COMMAND_LINE, plan
from pytest_kscen.markers.wish import ClusterWish, cluster_wish
from pytest_kscen.markers.workflows import WORKFLOW, workflow_wish

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

__all__ = [
    "HOW_TO_RUN",
    "MARKERS",
    "ClusterWish",
    "check",
    "cluster_wish",
    "declares",
    "idle",
    "idle_in_runs",
    "plan",
    "workflow_wish",
]

OF_A_PLAN = ("volume_churn", "chaos", PLAN_FROM_COMMAND_LINE)
DECLARING = ("cluster", WORKFLOW, *OF_A_PLAN)
BARE = ("megatest", "scenario", "controlplane", PLAN_FROM_COMMAND_LINE)
"""They take no parameters."""
SCENARIO_RUNNER = "scenario_runner"
HOW_TO_RUN = "call scenario_runner.run(), or enter `with scenario_runner as run`"

MARKERS = (
    "megatest: volume churn under chaos; `pytest -m megatest` runs them all",
    "scenario: a Scenario of a *.scenario.yaml file, which is played as a test; `pytest -m scenario` plays them all",
    "workflow(file, parameters=None, within='1h'): what the fixture `workflow` plays; tests of *.workflow.yaml have it too",
    "controlplane: needs the real control plane's programs on this machine",
    "cluster(backend=..., nodes=6, scope='function'): the test's cluster; scope 'module' or 'session' shares one",
    "volume_churn(storage_classes=..., max_volumes=10, lifetime=('1m', '5m'), ...): volumes come and go while the test runs",
    "chaos(profile, **parameters): faults while the test runs; may stand several times",
    f"{PLAN_FROM_COMMAND_LINE}(): volumes come and go, and --enable-… flags switch on what happens to them",
)


def check(items: Iterable[pytest.Item]) -> list[str]:
    """What is wrong with the markers of these tests and with the settings that fill them: a line for each complaint."""
    items = list(items)
    concerned: dict[str, list[str]] = {}
    for item in items:
        for complaint in dict.fromkeys(_complaints(item)):
            concerned.setdefault(complaint, []).append(item.nodeid)
    of_tests = (f"{first}{f' and {len(more)} more' if more else ''}: {said}" for said, (first, *more) in concerned.items())
    return [*unusable(items), *of_tests]


def _not_bare(item: pytest.Item) -> Iterator[str]:
    for name in BARE:
        if any(mark.args or mark.kwargs for mark in item.iter_markers(name)):
            yield f"@pytest.mark.{name} takes no parameters: write it without"


def _complaints(item: pytest.Item) -> list[str]:
    declares_ours = any(item.get_closest_marker(name) for name in DECLARING)
    if not declares_ours and SCENARIO_RUNNER not in getattr(item, "fixturenames", ()):
        return []  # whatever its markers are called, they are not ours
    said = list(_not_bare(item))
    if not declares_ours:
        return said
    said += _unused(item)
    for read in (cluster_wish, plan, workflow_wish):
        try:
            read(item)
        except (TypeError, ValueError) as error:
            said += str(error).splitlines()
    return said


def declares(item: pytest.Item) -> list[str]:
    """The markers that give this test a plan."""
    return [name for name in OF_A_PLAN if item.get_closest_marker(name)]


def _unused(item: pytest.Item) -> Iterator[str]:
    """A plan that nobody plays would pass for one that went well. Who has `request` may ask for any fixture."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None or "request" in info.argnames:
        return
    mark = item.get_closest_marker(WORKFLOW)
    if mark and mark.args and WORKFLOW not in info.names_closure:
        yield "@pytest.mark.workflow: nobody plays it: the test has to take the fixture workflow, which has been played then"
    if SCENARIO_RUNNER in info.names_closure:
        return
    if marks := [f"@pytest.mark.{name}" for name in declares(item)]:
        yield f"{', '.join(marks)}: nobody plays it: the test has to take the fixture scenario_runner, and {HOW_TO_RUN}"
