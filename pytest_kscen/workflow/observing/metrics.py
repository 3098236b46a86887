"""How many workflows and nodes there are and were, how long what took, and how soon the next node follows the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.workflows import HOLDING, INIT, OVER, RUNNING
from pytest_kscen.workflow.observing.exposition import Family, Histogram

if TYPE_CHECKING:
    from pytest_kscen.journal import Entry

PREFIX = "kscen_workflow_"


@dataclass(slots=True)
class _Node:
    """What is known of one that is on."""

    phase: str
    since: float
    began: float


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
        self.recovery_seconds = _histogram("chaos_recovery_seconds", "Until chaos was gone that was to go.", "type")
        self.scheduling_seconds = _histogram("scheduling_seconds", "From a child's end to the next child's beginning.")
        self._on: dict[tuple[str, str, str], _Node] = {}
        self._left: dict[tuple[str, str, str], float] = {}
        """When the last child of a node came to its end."""

    def take(self, entry: Entry) -> None:
        """What the journal has just been told."""
        if entry.what == "workflow-node":
            self._node(entry)
        elif entry.what == "workflow-phase":
            self._workflow(entry)
        elif entry.what == "workflow-probe":
            self.probes.add(1, entry.data["probe"], "passed" if entry.data["passed"] else "failed")

    def text(self) -> str:
        """As Prometheus reads it."""
        counted = (self.workflows, self.nodes, self.transitions, self.probes)
        timed = (self.workflow_seconds, self.node_seconds, self.injection_seconds, self.recovery_seconds, self.scheduling_seconds)
        return "\n".join(each.text() for each in (*counted, *timed)) + "\n"

    def _node(self, entry: Entry) -> None:
        data = entry.data
        type_, phase = data["type"], data["phase"]
        where = (data["namespace"], data["workflow"])
        self.transitions.add(1, type_, phase)
        node = self._on.get((*where, data["node"]))
        if node is None:
            node = self._on[(*where, data["node"])] = _Node(phase, entry.at, entry.at)
            self._has_begun((*where, data["parent"]), entry.at)
        else:
            self.nodes.add(-1, type_, node.phase)
            self._has_changed(type_, node, phase, entry.at)
            node.phase, node.since = phase, entry.at
        if phase in OVER:
            self.node_seconds.observe(entry.at - node.began, type_, phase)
            self._left[(*where, data["parent"])] = entry.at
            del self._on[(*where, data["node"])]
        else:
            self.nodes.add(1, type_, phase)

    def _has_begun(self, parent: tuple[str, str, str], at: float) -> None:
        if (ended := self._left.pop(parent, None)) is not None:
            self.scheduling_seconds.observe(at - ended)

    def _has_changed(self, type_: str, node: _Node, phase: str, at: float) -> None:
        if (node.phase, phase) == (RUNNING, HOLDING):
            self.injection_seconds.observe(at - node.since, type_)
        elif node.phase == RUNNING and phase in OVER and type_.endswith("Chaos"):
            self.recovery_seconds.observe(at - node.since, type_)

    def _workflow(self, entry: Entry) -> None:
        key = (entry.data["namespace"], entry.data["workflow"], "")
        phase = entry.data["phase"]
        known = self._on.get(key)
        if known:
            self.workflows.add(-1, known.phase)
        self.workflows.add(1, phase)
        began = entry.at if known is None or phase == INIT else known.began
        self._on[key] = _Node(phase, entry.at, began)
        if phase in OVER:
            self.workflow_seconds.observe(entry.at - began, phase)
            del self._on[key]


def _gauge(name: str, what: str, *labels: str) -> Family:
    return Family(PREFIX + name, what, "gauge", labels)


def _counter(name: str, what: str, *labels: str) -> Family:
    return Family(PREFIX + name, what, "counter", labels)


def _histogram(name: str, what: str, *labels: str) -> Histogram:
    return Histogram(PREFIX + name, what, labels)
