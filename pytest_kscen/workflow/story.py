"""What a workflow has come to, from the journal alone: its phases, and those that each node went
through, with their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import INIT, OVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.journal import Entry

PHASE, GONE = "workflow-phase", "workflow-gone"
POD_WAITS, HINDERED = "workflow-node-waits", "workflow-hindered"
FOUND = "workflow-found"
"""What an engine that is started anew finds to be on tells nothing new of a workflow, but to
whoever watches that engine.
"""
WORKFLOW_ENTRIES = frozenset({PHASE, "workflow-node", POD_WAITS, HINDERED, GONE})
"""The notes that tell of a workflow."""


@dataclass(slots=True)
class NodeHistory:
    """A node's, or the workflow's, life so far."""

    name: str
    template: str = ""
    type: str = ""
    parent: str = ""
    history: list[tuple[str, float]] = field(default_factory=list)
    """Phases and when they began, in seconds since the run began."""
    said: str = ""
    waiting_reason: str = ""
    """What its pod waits for, or what keeps the workflow."""

    @property
    def message(self) -> str:
        """Why it is in this phase."""
        return self.said or ("" if self.is_over else self.waiting_reason)

    @property
    def phases(self) -> list[str]:
        return [phase for phase, _ in self.history]

    @property
    def phase(self) -> str:
        return self.history[-1][0] if self.history else INIT

    @property
    def is_over(self) -> bool:
        return self.phase in OVER

    @property
    def started(self) -> float | None:
        return self.history[0][1] if self.history else None

    @property
    def ended(self) -> float | None:
        return self.history[-1][1] if self.is_over else None

    @property
    def duration(self) -> float | None:
        """Seconds from its first phase to its last; None as long as it is on."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    def add(self, entry: Entry) -> None:
        self.history.append((entry.data["phase"], entry.at))
        self.said = entry.data.get("message", "")


@dataclass(slots=True)
class WorkflowStory:
    """One workflow's."""

    workflow: NodeHistory
    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    is_gone: bool = False
    """Somebody has deleted it."""

    def node(self, name: str) -> NodeHistory | None:
        """That of this name, or the latest of this template."""
        if name in self.nodes:
            return self.nodes[name]
        return next((told for told in reversed(self.nodes.values()) if told.template == name), None)

    def nodes_of(self, template: str) -> list[NodeHistory]:
        return [told for told in self.nodes.values() if told.template == template]

    def standing(self) -> str:
        """Its phase, and the nodes at which it stands: those that are on and wait for no other
        that is.
        """
        on = [told for told in self.nodes.values() if not told.is_over]
        above = {told.parent for told in on}
        leaves = [_in_words(told) for told in on if told.name not in above]
        why = f" ({self.workflow.message})" if self.workflow.message else ""
        return f"it is {self.workflow.phase}{why}, and stands at {'; '.join(leaves) or 'no node'}"

    def take(self, entry: Entry) -> None:
        """One more entry of the journal that is about this workflow."""
        if entry.what == GONE:
            self.is_gone = True
            if not self.workflow.is_over:
                self.workflow.said = "it was deleted before it was over"
        if entry.what == PHASE:
            self.workflow.add(entry)
        elif entry.what == "workflow-node":
            data = entry.data
            told = self.nodes.setdefault(
                data["node"],
                NodeHistory(data["node"], data["template"], data["type"], data["parent"]),
            )
            told.add(entry)
        elif entry.what == HINDERED:
            self.workflow.waiting_reason = entry.data["message"]
        elif entry.what == POD_WAITS and entry.data["node"] in self.nodes:
            self.nodes[entry.data["node"]].waiting_reason = entry.data["message"]


def _in_words(told: NodeHistory) -> str:
    return f"{told.name} ({told.type}, {told.phase}){f': {told.message}' if told.message else ''}"


def stories(entries: Iterable[Entry]) -> dict[tuple[str, str], WorkflowStory]:
    """Those of all workflows in a journal, by namespace and name."""
    found: dict[tuple[str, str], WorkflowStory] = {}
    for entry in entries:
        if entry.what in WORKFLOW_ENTRIES:
            key = (entry.data["namespace"], entry.data["workflow"])
            found.setdefault(key, WorkflowStory(NodeHistory(key[1]))).take(entry)
    return found
