"""Traces for OpenTelemetry: a workflow is a trace, each node a span below its parent's, each phase an event of it.

The library is an extra: whoever asks for traces without it is told how it is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pytest_kscen.objects.workflows import FAILED, OVER
from pytest_kscen.workflow.story import FOUND

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.journal import Entry

MISSING = "traces need OpenTelemetry's library, which is not installed: pip install 'pytest-kscen[traces]'"
USUAL_PLACE = "/v1/traces"
ROOT = ""


class Tracing:
    """Turns what an engine's journal is told into spans, in cluster time."""

    def __init__(self, tracer: Any, clock: Clock) -> None:
        """With an `opentelemetry.trace.Tracer`."""
        try:
            from opentelemetry import trace
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(MISSING) from error
        self._trace = trace
        self._tracer = tracer
        self._clock = clock
        self._spans: dict[tuple[str, str], dict[str, Any]] = {}
        """Of each workflow, by its nodes' names; its own has none."""

    def take(self, entry: Entry) -> None:
        """What the journal has just been told."""
        if entry.what not in {"workflow-phase", "workflow-node", FOUND, "workflow-gone"}:
            return
        data, now = entry.data, int(self._clock.now() * 1_000_000_000)
        if entry.what == "workflow-gone":
            self._gone(data, now)
            return
        spans, name = self._spans.setdefault((data["namespace"], data["workflow"]), {}), data.get("node", ROOT)
        if entry.what == FOUND:
            self._begun(spans, name, data, now - int(data["age"] * 1_000_000_000))
            return
        span = spans.get(name) or self._begun(spans, name, data, now)
        span.add_event(data["phase"], {"message": data["message"]} if "message" in data else None, timestamp=now)
        if data["phase"] in OVER:
            self._end(span, data, now)
            del spans[name]
        if not spans or (data["phase"] in OVER and name == ROOT):
            self._gone(data, now)

    def _gone(self, data: dict[str, Any], now: int) -> None:
        """What is left of a workflow ends without a result."""
        for span in self._spans.pop((data["namespace"], data["workflow"]), {}).values():
            span.end(end_time=now)

    def _begun(self, spans: dict[str, Any], node: str, data: dict[str, Any], now: int) -> Any:
        above = None if node == ROOT else spans.get(data["parent"])
        context = self._trace.set_span_in_context(above) if above else None
        name = data.get("template") or data["workflow"]
        told = {f"kscen.{what}": data[what] for what in ("namespace", "workflow", "node", "template", "type") if what in data}
        span = self._tracer.start_span(name, context=context, start_time=now, attributes=told)
        spans[node] = span
        return span

    def _end(self, span: Any, data: dict[str, Any], now: int) -> None:
        code = self._trace.StatusCode.ERROR if data["phase"] == FAILED else self._trace.StatusCode.OK
        span.set_status(self._trace.Status(code, data.get("message") if data["phase"] == FAILED else None))
        span.end(end_time=now)


def tracer_to(endpoint: str) -> Any:
    """One that sends its spans to a collector, over HTTP; to the usual place there if none is named."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(MISSING) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "pytest-kscen"}))
    url = urlsplit(endpoint)
    place = urlunsplit(url if url.path.strip("/") else url._replace(path=USUAL_PLACE))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=place)))
    return provider.get_tracer("pytest_kscen.workflow")
