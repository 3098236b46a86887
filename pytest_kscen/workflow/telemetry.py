"""Metrics and traces of a running engine, computed from its journal.

Called by `commands.workflow_engine`: Prometheus text over HTTP (format 0.0.4), and OpenTelemetry
spans. Both follow journal entries, so they import nothing of the engine.
"""

from __future__ import annotations

import asyncio
import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, OVER, RUNNING
from pytest_kscen.workflow.story import FOUND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.journal import Entry


Labels: TypeAlias = tuple[str, ...]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)


@dataclass(slots=True)
class MetricFamily:
    name: str
    help: str
    kind: str
    labels: Labels = ()
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def samples(self) -> Iterator[str]:
        for labels, value in sorted(self.values.items()):
            yield sample_line(self.name, dict(zip(self.labels, labels, strict=True)), value)

    def text(self) -> str:
        head = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}"]
        return "\n".join([*head, *self.samples()])


@dataclass(slots=True)
class Histogram:
    name: str
    help: str
    labels: Labels = ()
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    """Observations per bucket, the last one above all bounds."""
    sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, seconds: float, *labels: str) -> None:
        counts = self.counts.setdefault(labels, [0] * (len(SECONDS) + 1))
        counts[bisect.bisect_left(SECONDS, seconds)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + seconds

    def text(self) -> str:
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} histogram"]
        for labels, counts in sorted(self.counts.items()):
            named = dict(zip(self.labels, labels, strict=True))
            below = 0
            for bound, count in zip(
                (*(f"{bound:g}" for bound in SECONDS), "+Inf"), counts, strict=True
            ):
                below += count
                lines.append(sample_line(f"{self.name}_bucket", {**named, "le": bound}, below))
            lines.append(sample_line(f"{self.name}_sum", named, self.sums[labels]))
            lines.append(sample_line(f"{self.name}_count", named, below))
        return "\n".join(lines)


def sample_line(name: str, labels: dict[str, str], value: float) -> str:
    escaped = {
        label: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for label, text in labels.items()
    }
    pairs = ",".join(f'{label}="{text}"' for label, text in escaped.items())
    return f"{name}{{{pairs}}} {value:.12g}" if pairs else f"{name} {value:.12g}"


PREFIX = "kscen_workflow_"
ROOT = ""


@dataclass(slots=True)
class _ActiveNode:
    """Metrics' state of a running node, or of the workflow itself."""

    type: str
    phase: str
    since: float | None
    """Beginning of its phase; None if a previous engine was running then."""
    began: float
    left: float | None = None
    """Time of its last child's end, until the next child begins."""
    was_held: bool = False
    """Chaos was in effect in this attempt."""


class Metrics:
    """Metrics of one engine since its start, computed from the entries of its journal.

    A restarted engine counts running workflows and nodes again. Durations that began before its
    start, such as the injection of chaos, are not measured.
    """

    def __init__(self) -> None:
        self.workflows = _gauge("workflows", "Workflows by their phase.", "phase")
        self.nodes = _gauge("nodes", "Nodes that are on, by type and phase.", "type", "phase")
        self.transitions = _counter(
            "node_transitions_total", "Phases that nodes have come to.", "type", "phase"
        )
        self.probes = _counter(
            "probes_total", "Probes' questions by their outcome.", "probe", "outcome"
        )
        self.workflow_seconds = _histogram(
            "duration_seconds", "From a workflow's first phase to its last.", "phase"
        )
        self.node_seconds = _histogram(
            "node_duration_seconds", "From a node's first phase to its last.", "type", "phase"
        )
        self.injection_seconds = _histogram(
            "chaos_injection_seconds", "Until chaos was in effect.", "type"
        )
        self.recovery_seconds = _histogram(
            "chaos_recovery_seconds", "Until chaos was gone that had been in effect.", "type"
        )
        self.scheduling_seconds = _histogram(
            "scheduling_seconds", "From a child's end to the next child's beginning."
        )
        self._active: dict[tuple[str, str], dict[str, _ActiveNode]] = {}
        """Running nodes by workflow."""

    def take(self, entry: Entry) -> None:
        if entry.what == "workflow-node":
            self._node(entry)
        elif entry.what == "workflow-phase":
            self._workflow(entry)
        elif entry.what == FOUND:
            # It began before this engine started.
            data = entry.data
            node = _ActiveNode(data.get("type", ""), data["phase"], None, entry.at - data["age"])
            self._active.setdefault(_where(entry), {})[data.get("node", ROOT)] = node
            if "node" in data:
                self.nodes.add(1, node.type, node.phase)
            else:
                self.workflows.add(1, node.phase)
        elif entry.what == "workflow-gone":
            self._drop(entry)
        elif entry.what == "workflow-probe":
            self.probes.add(1, entry.data["probe"], "passed" if entry.data["passed"] else "failed")

    def text(self) -> str:
        counted = (self.workflows, self.nodes, self.transitions, self.probes)
        timed = (
            self.workflow_seconds,
            self.node_seconds,
            self.injection_seconds,
            self.recovery_seconds,
            self.scheduling_seconds,
        )
        return "\n".join(each.text() for each in (*counted, *timed)) + "\n"

    def _node(self, entry: Entry) -> None:
        data = entry.data
        type_, phase, nodes = (
            data["type"],
            data["phase"],
            self._active.setdefault(_where(entry), {}),
        )
        self.transitions.add(1, type_, phase)
        parent, node = nodes.get(data["parent"]), nodes.get(data["node"])
        if node is None:
            node = nodes[data["node"]] = _ActiveNode(type_, phase, entry.at, entry.at)
            if parent and parent.left is not None:
                self.scheduling_seconds.observe(entry.at - parent.left)
                parent.left = None
        else:
            self.nodes.add(-1, type_, node.phase)
            at = entry.at
            is_gone = "left" not in data
            if node.since is not None and (node.phase, phase) == (RUNNING, HOLDING):
                self.injection_seconds.observe(at - node.since, node.type)
            elif node.since is not None and node.was_held and node.phase == RUNNING and is_gone:
                self.recovery_seconds.observe(at - node.since, node.type)
            node.was_held = phase == HOLDING or (phase == RUNNING and node.phase == HOLDING)
            node.phase, node.since = phase, entry.at
        if phase in OVER:
            self.node_seconds.observe(entry.at - node.began, type_, phase)
            del nodes[data["node"]]
            if parent:
                parent.left = entry.at
            if not nodes:
                del self._active[_where(entry)]
        else:
            self.nodes.add(1, type_, phase)

    def _workflow(self, entry: Entry) -> None:
        nodes, phase = self._active.setdefault(_where(entry), {}), entry.data["phase"]
        known = nodes.get(ROOT)
        if known:
            self.workflows.add(-1, known.phase)
        self.workflows.add(1, phase)
        began = entry.at if known is None or phase == INIT else known.began
        nodes[ROOT] = _ActiveNode("", phase, entry.at, began, known.left if known else None)
        if phase in OVER:
            self.workflow_seconds.observe(entry.at - began, phase)
            del nodes[ROOT]
            self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        for name, node in self._active.pop(_where(entry), {}).items():
            if name == ROOT:
                self.workflows.add(-1, node.phase)
            else:
                self.nodes.add(-1, node.type, node.phase)


def _where(entry: Entry) -> tuple[str, str]:
    return entry.data["namespace"], entry.data["workflow"]


def _gauge(name: str, what: str, *labels: str) -> MetricFamily:
    return MetricFamily(PREFIX + name, what, "gauge", labels)


def _counter(name: str, what: str, *labels: str) -> MetricFamily:
    return MetricFamily(PREFIX + name, what, "counter", labels)


def _histogram(name: str, what: str, *labels: str) -> Histogram:
    return Histogram(PREFIX + name, what, labels)


LIBRARY_MISSING = "traces need the OpenTelemetry library: pip install 'pytest-kscen[traces]'"
DEFAULT_TRACES_PATH = "/v1/traces"
ROOT_SPAN = ""


class Tracing:
    """Spans from the engine's journal, in cluster time: one trace per workflow, one span per node.

    Each phase is an event of its span. OpenTelemetry is an optional dependency.
    """

    def __init__(self, tracer: Any, clock: Clock) -> None:
        """Take an `opentelemetry.trace.Tracer`; raise ModuleNotFoundError, with the remedy, without
        the library.
        """
        try:
            from opentelemetry import trace
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(LIBRARY_MISSING) from error
        self._trace = trace
        self._tracer = tracer
        self._clock = clock
        self._spans: dict[tuple[str, str], dict[str, Any]] = {}
        """Open spans by workflow and node; the workflow's own has an empty name."""

    def take(self, entry: Entry) -> None:
        if entry.what not in {"workflow-phase", "workflow-node", FOUND, "workflow-gone"}:
            return
        data, now = entry.data, int(self._clock.now() * 1_000_000_000)
        if entry.what == "workflow-gone":
            self._drop(data, now)
            return
        spans, name = (
            self._spans.setdefault((data["namespace"], data["workflow"]), {}),
            data.get("node", ROOT_SPAN),
        )
        if entry.what == FOUND:
            self._start_span(spans, name, data, now - int(data["age"] * 1_000_000_000))
            return
        span = spans.get(name) or self._start_span(spans, name, data, now)
        span.add_event(
            data["phase"],
            {"message": data["message"]} if "message" in data else None,
            timestamp=now,
        )
        if data["phase"] in OVER:
            status = self._trace.StatusCode
            is_failed = data["phase"] == FAILED
            span.set_status(
                self._trace.Status(
                    status.ERROR if is_failed else status.OK,
                    data.get("message") if is_failed else None,
                )
            )
            span.end(end_time=now)
            del spans[name]
        if not spans or (data["phase"] in OVER and name == ROOT_SPAN):
            self._drop(data, now)

    def _drop(self, data: dict[str, Any], now: int) -> None:
        for span in self._spans.pop((data["namespace"], data["workflow"]), {}).values():
            span.end(end_time=now)

    def _start_span(self, spans: dict[str, Any], node: str, data: dict[str, Any], now: int) -> Any:
        above = None if node == ROOT_SPAN else spans.get(data["parent"])
        context = self._trace.set_span_in_context(above) if above else None
        name = data.get("template") or data["workflow"]
        attributes = {
            f"kscen.{what}": data[what]
            for what in ("namespace", "workflow", "node", "template", "type")
            if what in data
        }
        span = self._tracer.start_span(name, context=context, start_time=now, attributes=attributes)
        spans[node] = span
        return span


def tracer_to(endpoint: str) -> Any:
    """Return a tracer that exports to a collector over HTTP, at the default path if the URL has
    none.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(LIBRARY_MISSING) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "pytest-kscen"}))
    url = urlsplit(endpoint)
    place = urlunsplit(url if url.path.strip("/") else url._replace(path=DEFAULT_TRACES_PATH))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=place)))
    return provider.get_tracer("pytest_kscen.workflow")


HOST = "127.0.0.1"


async def serve(metrics: Metrics, port: int) -> Never:
    """Serve the metrics at `/metrics` on loopback until cancelled; raise OSError if the port is
    taken.
    """

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()
    raise AssertionError
