"""What is to be seen of an engine from outside: metrics as Prometheus reads them, and spans in cluster time."""

import pytest
from test_engine import suspend, template, workflow

from pytest_kscen.objects.workflows import SHIPPED
from pytest_kscen.workflow.observing import Metrics, Tracing

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
    metrics = observed(workflow("entry", ENTRY, suspend("first", "10s"), suspend("second", "1h")), lambda _: Metrics())
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


def test_what_is_deleted_midway_is_on_no_more(scenario_runner):
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
    on = [line for line in metrics.text().splitlines() if line.startswith(("kscen_workflow_workflows{", "kscen_workflow_nodes{"))]
    assert on
    assert {line.rpartition(" ")[2] for line in on} == {"0"}
    assert sorted(span.name for span in spans.get_finished_spans()) == ["entry", "first", "second", "w"]
