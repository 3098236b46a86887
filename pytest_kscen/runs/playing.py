"""A workflow that is a whole test: what it is about is brought to the cluster, it runs to its end, and all is gone again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.runner import ScenarioRunner
    from pytest_kscen.runs.workflows import Workflow

AVAILABLE_WITHIN = "5m"


def play_to_end(runner: ScenarioRunner, workflow: Obj, cast: Sequence[Obj] = (), *, within: str = "1h") -> Workflow:
    """`cast` is there, and available, before it begins."""
    with runner as run:
        if cast:
            run.apply(*cast, available_within=AVAILABLE_WITHIN)
        handle = run.workflow(workflow)
        run.until(handle.finished, timeout=within)
    return handle
