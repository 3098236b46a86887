"""A workflow that is a whole test: what it is about is brought to the cluster, it runs to its end, and all is gone again."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pytest_kscen.workflow.files import WorkflowWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.runner import ScenarioRunner
    from pytest_kscen.runs.workflows import Workflow

AVAILABLE_WITHIN = "5m"


class Unfinished(TimeoutError):
    """It has not come to its end in its time."""


def play_to_end(runner: ScenarioRunner, workflow: Obj, cast: Sequence[Obj] = (), *, within: str = "1h") -> Workflow:
    """`cast` is there, and available, before it begins. What is odd about it was told when it was read."""
    with runner as run:
        run.workflows.claim()
        if cast:
            run.apply(*cast, available_within=AVAILABLE_WITHIN)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkflowWarning)
            handle = run.workflow(workflow)
        try:
            run.until(handle.finished, timeout=within)
        except TimeoutError as late:
            raise Unfinished(str(late)) from None
    return handle
