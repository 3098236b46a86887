"""How many workflows and nodes there are and were, how long what took, and how soon the next node follows the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.workflows import HOLDING, INIT, OVER, RUNNING
from pytest_kscen.workflow.observing.exposition import Family, Histogram
from pytest_kscen.workflow.story import FOUND

if TYPE_CHECKING:
    from pytest_kscen.journal import Entry

PREFIX = "kscen_workflow_"
ROOT = ""


@dataclass(slots=True)
class _Node:
    """What is known of one that is on; the workflow itself is one."""

    type: str
    phase: str
    since: float | None
    """When its phase began; None if an engine before this one knows."""
    began: float
    left: float | None = None
    """When the last of its children came to its end, if no other has begun."""
    was_held: bool = False
    """Its chaos was in effect, in this attempt."""


class Metrics:
    """Of one engine, for as long as it lives."""

    def __init__(self) -> None:
        self.workflows = _gauge("workflows", "Workflows by their phase.", "phase")
        self.nodes = _gauge("nodes", "Nodes that are on, by type and phase.", "type", "phase")
        self.transitions = _counter("node_transitions_total", "Phases that nodes have come to.", "type", "phase")
        self.probes = _counter("probes_total", "Probes' questions by their outcome.", "probe", "outcome")
        self.workflow_seconds = _histogram("duration_seconds", "From a workflow's first phase to its last.", "phase")
        self.node_seconds = _histogram("node_duration_seconds", "From a node's first phase to its last.", "type", "phase")
        self.injection_seconds = _histogram("chaos_injection_seconds", "Until chaos was in effect.", "type")
        self.recovery_seconds = _histogram("chaos_recovery_seconds", "Until chaos was gone that had been in effect.", "type")
        self.scheduling_seconds = _histogram("scheduling_seconds", "From a child's end to the next child's beginning.")
        self._on: dict[tuple[str, str], dict[str, _Node]] = {}
        """Of each workflow."""

    def take(self, entry: Entry) -> None:
        """What the journal has just been told."""
        if entry.what == "workflow-node":
            self._node(entry)
        elif entry.what == "workflow-phase":
            self._workflow(entry)
        elif entry.what == FOUND:
            self._found(entry)
        elif entry.what == "workflow-gone":
            self._gone(entry)
        elif entry.what == "workflow-probe":
            self.probes.add(1, entry.data["probe"], "passed" if entry.data["passed"] else "failed")

    def text(self) -> str:
        """As Prometheus reads it."""
        counted = (self.workflows, self.nodes, self.transitions, self.probes)
        timed = (self.workflow_seconds, self.node_seconds, self.injection_seconds, self.recovery_seconds, self.scheduling_seconds)
        return "\n".join(each.text() for each in (*counted, *timed)) + "\n"

    def _found(self, entry: Entry) -> None:
        """It is on since before this engine was there."""
        data = entry.data
        node = _Node(data.get("type", ""), data["phase"], None, entry.at - data["age"])
        self._on.setdefault(_where(entry), {})[data.get("node", ROOT)] = node
        if "node" in data:
            self.nodes.add(1, node.type, node.phase)
        else:
            self.workflows.add(1, node.phase)

    def _node(self, entry: Entry) -> None:
        data = entry.data
        type_, phase, nodes = data["type"], data["phase"], self._on.setdefault(_where(entry), {})
        self.transitions.add(1, type_, phase)
        parent, node = nodes.get(data["parent"]), nodes.get(data["node"])
        if node is None:
            node = nodes[data["node"]] = _Node(type_, phase, entry.at, entry.at)
            self._has_begun(parent, entry.at)
        else:
            self.nodes.add(-1, type_, node.phase)
            self._has_changed(node, phase, entry.at, is_gone="left" not in data)
            node.phase, node.since = phase, entry.at
        if phase in OVER:
            self.node_seconds.observe(entry.at - node.began, type_, phase)
            del nodes[data["node"]]
            if parent:
                parent.left = entry.at
            if not nodes:
                del self._on[_where(entry)]
        else:
            self.nodes.add(1, type_, phase)

    def _has_begun(self, parent: _Node | None, at: float) -> None:
        if parent and parent.left is not None:
            self.scheduling_seconds.observe(at - parent.left)
            parent.left = None

    def _has_changed(self, node: _Node, phase: str, at: float, *, is_gone: bool) -> None:
        if node.since is not None and (node.phase, phase) == (RUNNING, HOLDING):
            self.injection_seconds.observe(at - node.since, node.type)
        elif node.since is not None and node.was_held and node.phase == RUNNING and is_gone:
            self.recovery_seconds.observe(at - node.since, node.type)
        node.was_held = phase == HOLDING or (phase == RUNNING and node.phase == HOLDING)

    def _workflow(self, entry: Entry) -> None:
        nodes, phase = self._on.setdefault(_where(entry), {}), entry.data["phase"]
        known = nodes.get(ROOT)
        if known:
            self.workflows.add(-1, known.phase)
        self.workflows.add(1, phase)
        began = entry.at if known is None or phase == INIT else known.began
        nodes[ROOT] = _Node("", phase, entry.at, began, known.left if known else None)
        if phase in OVER:
            self.workflow_seconds.observe(entry.at - began, phase)
            del nodes[ROOT]
            self._gone(entry)

    def _gone(self, entry: Entry) -> None:
        """Nothing of it is on any more."""
        for name, node in self._on.pop(_where(entry), {}).items():
            if name == ROOT:
                self.workflows.add(-1, node.phase)
            else:
                self.nodes.add(-1, node.type, node.phase)


def _where(entry: Entry) -> tuple[str, str]:
    return entry.data["namespace"], entry.data["workflow"]


def _gauge(name: str, what: str, *labels: str) -> Family:
    return Family(PREFIX + name, what, "gauge", labels)


def _counter(name: str, what: str, *labels: str) -> Family:
    return Family(PREFIX + name, what, "counter", labels)


def _histogram(name: str, what: str, *labels: str) -> Histogram:
    return Histogram(PREFIX + name, what, labels)
