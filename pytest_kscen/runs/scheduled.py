"""A Schedule that a test has put on: what it has spawned, and what has become of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.workflows import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.runs.workflows import Workflow

SPAWNED = "schedule-spawned"
"""The note that tells of it."""


class Scheduled:
    """One Schedule, or CronWorkflow."""

    def __init__(self, name: str, namespace: str, look: Callable[[], Obj]) -> None:
        self.name = name
        self.namespace = namespace
        self._look = look
        self.spawned: list[str] = []
        """The names of all that it has made, chaos or workflows, in order."""
        self.workflows: list[Workflow] = []
        """Of the workflows among it, what has become of each."""

    @property
    def live(self) -> Obj:
        """It as the API has it; never change it."""
        return self._look()

    @property
    def failed(self) -> list[Workflow]:
        """The workflows that have failed; whoever asks has looked at all of them."""
        return [workflow for workflow in self.workflows if workflow.phase == FAILED]
