"""What a controller's write is in the timeline: a pod that has got or lost its node, or an object made, changed or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import HISTORY, parsed, results_of
from pytest_kscen.scenario.models import OperationResult, PodAttempted, PodRef, PodScheduled, PodUnscheduled
from pytest_kscen.scenario.schedulers import SCHEDULER
from pytest_kscen.scenario.writes import CREATE, DELETE, is_about_results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.writes import Write

CHANGES = ("scale", "resize", "ephemeralcontainers")
"""Subresources that change the object itself."""


def events_of(write: Write) -> Iterator[dict[str, Any]]:
    """Each as the parts of a timeline's event."""
    if write.is_binding:
        target = ((write.new or {}).get("target") or {}).get("name", "")
        yield _by(write, pod_scheduled=PodScheduled(_pod(write), target))
    elif write.subresource and write.subresource not in CHANGES:
        return
    elif is_about_results(write):
        if write.resource.plural == PODS.plural and results_of(write.new) != results_of(write.old):
            yield _by(write, pod_attempted=PodAttempted(_pod(write), results=latest(results_of(write.new))))
    elif write.verb == DELETE and write.who == SCHEDULER and write.resource.plural == PODS.plural:
        node = ((write.old or {}).get("spec") or {}).get("nodeName", "")
        yield _by(write, pod_unscheduled=PodUnscheduled(_pod(write), node, write.for_whom))
    else:
        yield _by(write, **_change(write))


def _change(write: Write) -> dict[str, Any]:
    target = {
        "typeMeta": {"apiVersion": write.resource.api_version, "kind": write.resource.kind},
        "objectMeta": {"name": write.name, **({"namespace": write.namespace} if write.namespace else {})},
    }
    match write.verb:
        case "create":
            return {CREATE: OperationResult({"object": _spelled(write.new)}, write.new)}
        case "update":
            return {"patch": OperationResult(target, write.new)}
        case _:
            return {DELETE: OperationResult(target)}


def _by(write: Write, **what: Any) -> dict[str, Any]:
    return {"controller": write.who, **what}


def _pod(write: Write) -> PodRef:
    metadata = (write.old or write.new or {}).get("metadata") or {}
    return PodRef(write.name, write.namespace, metadata.get("uid", ""))


def _spelled(obj: Obj | None) -> Obj:
    metadata = (obj or {}).get("metadata") or {}
    return {**(obj or {}), "metadata": {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}}


def latest(results: dict[str, str]) -> dict[str, Any]:
    """The latest attempt's; what came before has its own event."""
    return {key: parsed(value) for key, value in results.items() if key != HISTORY}
