"""The pods that a job makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import JOBS
from pytest_kscen.simulation.workloads.jobs.indexes import FAILURES, IGNORED_FAILURES, INDEX
from pytest_kscen.simulation.workloads.jobs.tracking import FINALIZER
from pytest_kscen.simulation.workloads.templates import LONGEST_PREFIX, pod_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


def build_pod(job: Obj, index: int | None = None, failures: tuple[int, int] | None = None) -> Obj:
    """A pod; with an index, and how often pods of this index have failed and were ignored, if that is limited."""
    pod, name = pod_of(job["spec"]["template"], job, JOBS), job["metadata"]["name"]
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    metadata["generateName"] = _prefix(name if index is None else f"{name}-{index}")
    if index is None:
        return pod
    counted = {FAILURES: str(failures[0])} if failures else {}
    ignored = {IGNORED_FAILURES: str(failures[1])} if failures and failures[1] else {}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index), **counted, **ignored}
    metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    return {**pod, "spec": {**pod["spec"], "hostname": f"{name}-{index}", **_with_variable(pod["spec"])}}


def _prefix(text: str) -> str:
    return f"{text}-"[:LONGEST_PREFIX]


def _with_variable(spec: Obj) -> Obj:
    return {
        kind: [{**container, "env": _environment(container)} for container in spec[kind]]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }


def _environment(container: Obj) -> list[Obj]:
    own = container.get("env") or []
    return own if any(variable["name"] == VARIABLE["name"] for variable in own) else [*own, VARIABLE]
