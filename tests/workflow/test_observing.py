"""Metrics for Prometheus and spans in cluster time."""

import contextlib
import http.server
import threading

import pytest
from engine_env import partition, suspend, template
from test_engine import workflow
from workflow_cluster import WorkflowCluster

from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.workflow.telemetry import Metrics, Tracing, tracer_to

ENTRY = template("entry", "Serial", children=["first", "second"])


@pytest.fixture
def observed(scenario_runner):
    def observed(obj, make):
        with scenario_runner as run:
            observer = make(run)
            run.journal.follow(observer.take)
            create_workflow = run.workflow(obj)
            run.until(create_workflow.finished, timeout="2h")
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
def workflow_cluster():
    workflow_cluster = WorkflowCluster("observed")
    yield workflow_cluster
    workflow_cluster.close()


def test_restarted_engine_knows_active_objects_and_their_start(workflow_cluster):
    exporting = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    workflow_cluster.create_workflow(
        {
            "entry": "entry",
            "templates": [
                template("entry", "Serial", children=["first"]),
                suspend("first", "100s"),
            ],
        }
    )
    workflow_cluster.runner.advance(90)
    workflow_cluster.stop()
    spans, provider, metrics = exporting.InMemorySpanExporter(), TracerProvider(), Metrics()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    workflow_cluster.journal.follow(metrics.take)
    workflow_cluster.journal.follow(
        Tracing(provider.get_tracer("test"), workflow_cluster.runner.clock).take
    )
    workflow_cluster.start()
    workflow_cluster.runner.advance(5)
    for line in (
        'kscen_workflow_workflows{phase="Running"} 1',
        'kscen_workflow_nodes{type="Serial",phase="WaitingForChild"} 1',
        'kscen_workflow_nodes{type="Suspend",phase="Holding"} 1',
    ):
        assert line in metrics.text().splitlines()
    workflow_cluster.runner.advance(30)
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


def test_only_injected_chaos_recovers(workflow_cluster):
    metrics = Metrics()
    workflow_cluster.journal.follow(metrics.take)
    nowhere = partition("nowhere", "20s")
    nowhere["networkChaos"]["selector"]["labelSelectors"] = {"app": "nobody"}
    for chaos in (nowhere, partition("cut", "20s")):
        workflow_cluster.end(
            workflow_cluster.create_workflow({"entry": chaos["name"], "templates": [chaos]})
        )
    counted_nodes = [
        line for line in metrics.text().splitlines() if "_chaos_" in line and "_count" in line
    ]
    assert counted_nodes == [
        'kscen_workflow_chaos_injection_seconds_count{type="NetworkChaos"} 1',
        'kscen_workflow_chaos_recovery_seconds_count{type="NetworkChaos"} 1',
    ]


@contextlib.contextmanager
def collector():
    """Trace collector on loopback: its address, and the requests by path."""
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
def test_collector_receives_the_spans(workflow_cluster, path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collector() as (address, sent):
        tracer = tracer_to(address + path)
        workflow_cluster.journal.follow(Tracing(tracer, workflow_cluster.runner.clock).take)
        workflow_cluster.end(
            workflow_cluster.create_workflow(
                {"entry": "rest", "templates": [suspend("rest", "5s")]}, name="w"
            )
        )
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


def test_chaos_not_removed_in_time_has_not_recovered(workflow_cluster):
    metrics = Metrics()
    workflow_cluster.journal.follow(metrics.take)
    name = workflow_cluster.create_workflow(
        {"entry": "cut", "templates": [partition("cut", "20s")]}
    )
    workflow_cluster.runner.advance(5)
    workflow_cluster.disturb(name, "stick", 0)
    workflow_cluster.end(name)
    counted_nodes = [
        line.partition("{")[0]
        for line in metrics.text().splitlines()
        if "_chaos_" in line and "_count" in line
    ]
    assert counted_nodes == ["kscen_workflow_chaos_injection_seconds_count"]
    workflow_cluster.free(name)
