"""What is to be seen of an engine from outside: metrics as Prometheus reads them, and spans in
cluster time.
"""

import contextlib
import http.server
import threading

import pytest
from forest import Forest
from test_engine import workflow
from theatre import partition, suspend, template

from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.workflow.telemetry import Metrics, Tracing, tracer_to

ENTRY = template("entry", "Serial", children=["first", "second"])


@pytest.fixture
def observed(scenario_runner):
    def observed(obj, make):
        with scenario_runner as run:
            observer = make(run)
            run.journal.follow(observer.take)
            put_on = run.workflow(obj)
            run.until(put_on.finished, timeout="2h")
        return observer

    return observed


def test_metrics(observed):
    metrics = observed(
        workflow("entry", ENTRY, suspend("first", "10s"), suspend("second", "1h")),
        lambda _: Metrics(),
    )
    lines = metrics.text().splitlines()
    for line in (
        "# TYPE kscen_workflow_node_transitions_total counter",
        'kscen_workflow_workflows{phase="Running"} 0',
        'kscen_workflow_workflows{phase="Succeed"} 1',
        'kscen_workflow_nodes{type="Suspend",phase="Holding"} 0',
        'kscen_workflow_node_transitions_total{type="Suspend",phase="Succeed"} 2',
        'kscen_workflow_node_duration_seconds_bucket{type="Suspend",phase="Succeed",le="10"} 1',
        'kscen_workflow_node_duration_seconds_bucket{type="Suspend",phase="Succeed",le="3600"} 2',
        'kscen_workflow_node_duration_seconds_sum{type="Suspend",phase="Succeed"} 3610',
        'kscen_workflow_scheduling_seconds_bucket{le="0.001"} 1',
        "kscen_workflow_scheduling_seconds_count 1",
    ):
        assert line in lines


def test_traces(observed):
    exporting = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    spans = exporting.InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing = lambda run: Tracing(provider.get_tracer("test"), run.cluster.runner.clock)  # noqa: E731
    observed(workflow("entry", ENTRY, suspend("first", "10s"), suspend("second", "5s")), tracing)
    by_name = {span.name: span for span in spans.get_finished_spans()}
    parents = {name: span.parent and span.parent.span_id for name, span in by_name.items()}
    ids = {name: span.context.span_id for name, span in by_name.items()}
    assert parents == {"w": None, "entry": ids["w"], "first": ids["entry"], "second": ids["entry"]}
    assert {name: (span.end_time - span.start_time) / 1e9 for name, span in by_name.items()} == {
        "w": 15,
        "entry": 15,
        "first": 10,
        "second": 5,
    }
    assert [event.name for event in by_name["first"].events] == ["Init", "Holding", "Succeed"]


def test_deleted_object_is_no_longer_active(scenario_runner):
    exporting = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    spans, provider, metrics = exporting.InMemorySpanExporter(), TracerProvider(), Metrics()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with scenario_runner as run:
        run.journal.follow(metrics.take)
        run.journal.follow(Tracing(provider.get_tracer("test"), run.cluster.runner.clock).take)
        run.workflow(workflow("entry", ENTRY, suspend("first", "1s"), suspend("second", "1h")))
        run.advance("10s")
        assert 'kscen_workflow_nodes{type="Suspend",phase="Holding"} 1' in metrics.text()
        run.call(run.cluster.api("somebody").delete(SHIPPED.workflows, "w", "default"))
        run.advance("10s")
    on = [
        line
        for line in metrics.text().splitlines()
        if line.startswith(("kscen_workflow_workflows{", "kscen_workflow_nodes{"))
    ]
    assert on
    assert {line.rpartition(" ")[2] for line in on} == {"0"}
    assert sorted(span.name for span in spans.get_finished_spans()) == [
        "entry",
        "first",
        "second",
        "w",
    ]


@pytest.fixture
def forest():
    forest = Forest("observed")
    yield forest
    forest.close()


def test_restarted_engine_knows_active_objects_and_their_start(forest):
    exporting = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    forest.put_on(
        {
            "entry": "entry",
            "templates": [
                template("entry", "Serial", children=["first"]),
                suspend("first", "100s"),
            ],
        }
    )
    forest.runner.advance(90)
    forest.stop()
    spans, provider, metrics = exporting.InMemorySpanExporter(), TracerProvider(), Metrics()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    forest.journal.follow(metrics.take)
    forest.journal.follow(Tracing(provider.get_tracer("test"), forest.runner.clock).take)
    forest.start()
    forest.runner.advance(5)
    for line in (
        'kscen_workflow_workflows{phase="Running"} 1',
        'kscen_workflow_nodes{type="Serial",phase="WaitingForChild"} 1',
        'kscen_workflow_nodes{type="Suspend",phase="Holding"} 1',
    ):
        assert line in metrics.text().splitlines()
    forest.runner.advance(30)
    lasted = {
        line.partition("{")[0]: line.rpartition(" ")[2]
        for line in metrics.text().splitlines()
        if "duration_seconds_sum" in line
    }
    assert {name: float(value) for name, value in lasted.items()} == {
        "kscen_workflow_duration_seconds_sum": pytest.approx(
            100, abs=1
        ),  # its beginning is written down to the second
        "kscen_workflow_node_duration_seconds_sum": pytest.approx(100, abs=1e-3),
    }
    by_name = {span.name: span for span in spans.get_finished_spans()}
    assert by_name["first"].parent.span_id == by_name["entry"].context.span_id
    assert {
        name: round((span.end_time - span.start_time) / 1e9) for name, span in by_name.items()
    } == dict.fromkeys(by_name, 100)
    assert len(by_name) == 3


def test_only_injected_chaos_recovers(forest):
    metrics = Metrics()
    forest.journal.follow(metrics.take)
    nowhere = partition("nowhere", "20s")
    nowhere["networkChaos"]["selector"]["labelSelectors"] = {"app": "nobody"}
    for chaos in (nowhere, partition("cut", "20s")):
        forest.end(forest.put_on({"entry": chaos["name"], "templates": [chaos]}))
    counted = [
        line for line in metrics.text().splitlines() if "_chaos_" in line and "_count" in line
    ]
    assert counted == [
        'kscen_workflow_chaos_injection_seconds_count{type="NetworkChaos"} 1',
        'kscen_workflow_chaos_recovery_seconds_count{type="NetworkChaos"} 1',
    ]


@contextlib.contextmanager
def collector():
    """A collector of traces on loopback: its address, and what it is sent, by where."""
    sent = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            sent.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("path", ["", "/v1/traces", "/of/our/own"])
def test_collector_receives_the_spans(forest, path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collector() as (address, sent):
        tracer = tracer_to(address + path)
        forest.journal.follow(Tracing(tracer, forest.runner.clock).take)
        forest.end(forest.put_on({"entry": "rest", "templates": [suspend("rest", "5s")]}, name="w"))
        tracer.span_processor.force_flush()
        tracer.span_processor.shutdown()
    assert {where for where, _ in sent} == {path or "/v1/traces"}
    (resource,) = ExportTraceServiceRequest.FromString(sent[0][1]).resource_spans
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert {
        attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
    }["service.name"] == "pytest-kscen"
    assert {*spans} == {"w", "rest"}
    assert (spans["rest"].parent_span_id, spans["rest"].trace_id) == (
        spans["w"].span_id,
        spans["w"].trace_id,
    )
    assert (
        spans["rest"].end_time_unix_nano - spans["rest"].start_time_unix_nano
    ) / 1e9 == pytest.approx(5, abs=0.01)


def test_chaos_not_removed_in_time_has_not_recovered(forest):
    metrics = Metrics()
    forest.journal.follow(metrics.take)
    name = forest.put_on({"entry": "cut", "templates": [partition("cut", "20s")]})
    forest.runner.advance(5)
    forest.befall(name, "stick", 0)
    forest.end(name)
    counted = [
        line.partition("{")[0]
        for line in metrics.text().splitlines()
        if "_chaos_" in line and "_count" in line
    ]
    assert counted == ["kscen_workflow_chaos_injection_seconds_count"]
    forest.free(name)
