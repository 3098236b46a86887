"""History of a workflow, from the journal alone: phases of its nodes, with times and messages.

Called by `run.workflows` and collection; `WORKFLOW_ENTRIES` are the kinds of entries that it reads.
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
"""Entry for a workflow or node that a restarted engine resumes: read by metrics and traces only."""
WORKFLOW_ENTRIES = frozenset({PHASE, "workflow-node", POD_WAITS, HINDERED, GONE})
"""Kinds of journal entries that a story contains."""


@dataclass(slots=True)
class NodeHistory:
    """Phases of one node, or of the workflow itself, with their times and the last message."""

    name: str
    template: str = ""
    type: str = ""
    parent: str = ""
    history: list[tuple[str, float]] = field(default_factory=list)
    """Phases and their beginnings, in seconds since the run began."""
    last_message: str = ""
    waiting_reason: str = ""
    """Reason why its pod waits, or the hindrance of the workflow."""

    @property
    def message(self) -> str:
        return self.last_message or ("" if self.is_over else self.waiting_reason)

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
        """Return the seconds from its first phase to its last; None while it runs."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    def add(self, entry: Entry) -> None:
        self.history.append((entry.data["phase"], entry.at))
        self.last_message = entry.data.get("message", "")


@dataclass(slots=True)
class WorkflowStory:
    """Story of one workflow and its nodes, in the order of their beginnings.

    Built from journal entries alone, so that a stored journal gives the same story as a live run. A
    workflow that is deleted early keeps its last phases.
    """

    workflow: NodeHistory
    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    is_gone: bool = False
    """The Workflow was deleted."""

    def node(self, name: str) -> NodeHistory | None:
        """Return the node of this name, or the latest one of this template."""
        if name in self.nodes:
            return self.nodes[name]
        return next((node for node in reversed(self.nodes.values()) if node.template == name), None)

    def nodes_of(self, template: str) -> list[NodeHistory]:
        return [node for node in self.nodes.values() if node.template == template]

    def describe_state(self) -> str:
        """Return a sentence with the workflow's phase and the running nodes that have no running
        children.
        """
        on = [node for node in self.nodes.values() if not node.is_over]
        above = {node.parent for node in on}
        leaves = [
            f"{node.name} ({node.type}, {node.phase}){f': {node.message}' if node.message else ''}"
            for node in on
            if node.name not in above
        ]
        why = f" ({self.workflow.message})" if self.workflow.message else ""
        return f"it is {self.workflow.phase}{why}, and stands at {'; '.join(leaves) or 'no node'}"

    def take(self, entry: Entry) -> None:
        if entry.what == GONE:
            self.is_gone = True
            if not self.workflow.is_over:
                self.workflow.last_message = "it was deleted before it ended"
        if entry.what == PHASE:
            self.workflow.add(entry)
        elif entry.what == "workflow-node":
            data = entry.data
            node = self.nodes.setdefault(
                data["node"],
                NodeHistory(data["node"], data["template"], data["type"], data["parent"]),
            )
            node.add(entry)
        elif entry.what == HINDERED:
            self.workflow.waiting_reason = entry.data["message"]
        elif entry.what == POD_WAITS and entry.data["node"] in self.nodes:
            self.nodes[entry.data["node"]].waiting_reason = entry.data["message"]


def stories(entries: Iterable[Entry]) -> dict[tuple[str, str], WorkflowStory]:
    found: dict[tuple[str, str], WorkflowStory] = {}
    for entry in entries:
        if entry.what in WORKFLOW_ENTRIES:
            key = (entry.data["namespace"], entry.data["workflow"])
            found.setdefault(key, WorkflowStory(NodeHistory(key[1]))).take(entry)
    return found
