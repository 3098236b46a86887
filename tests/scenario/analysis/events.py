"""Hand-written timelines: each event at a step that is `major` or `(major, minor)`."""

from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.analysis.timeline import Timeline
from pytest_kscen.scenario.models import (
    OperationResult,
    PodAttempted,
    PodRef,
    PodScheduled,
    PodUnscheduled,
    ScenarioStep,
    TimelineEvent,
)
from tests.scenario import objects


def at(step):
    return ScenarioStep(*step) if isinstance(step, tuple) else ScenarioStep(step, 0)


def event(step, id="", **what):
    return TimelineEvent(id=id or "generated", step=at(step), **what)


def make(step, obj, id=""):
    return event(step, id or obj["metadata"]["name"], create=OperationResult({}, obj))


def node(step, name, cpu="4", memory="8Gi"):
    return make(step, objects.node(name, cpu, memory))


def pod(step, name, cpu="1", **spec):
    return make(step, objects.pod(name, cpu, **spec))


def patch(step, obj):
    return event(step, patch=OperationResult({}, obj))


def delete(step, kind, name):
    meta = {"name": name, "namespace": ""}  # as an operation writes it that names none
    return event(
        step,
        delete=OperationResult(
            {"typeMeta": {"apiVersion": "v1", "kind": kind}, "objectMeta": meta}
        ),
    )


def scheduled(step, name, node):
    return event(
        step, pod_scheduled=PodScheduled(PodRef(name, "default"), node), controller="kube-scheduler"
    )


def unscheduled(step, name, node, by=""):
    return event(
        step,
        pod_unscheduled=PodUnscheduled(PodRef(name, "default"), node, by),
        controller="kube-scheduler",
    )


def attempted(step, name, **results):
    reported = {key.replace("_", "-"): value for key, value in results.items()}
    return event(
        step,
        pod_attempted=PodAttempted(PodRef(name, "default"), results=reported),
        controller="kube-scheduler",
    )


def result(*events):
    return Result(Timeline(events))
