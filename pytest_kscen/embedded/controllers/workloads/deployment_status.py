"""Compute and write a Deployment's status: counts, and the conditions Available, Progressing and
ReplicaFailure.

The functions are pure; `DeploymentReporter` writes their results. Reasons and messages are
Kubernetes' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.embedded.controllers.workloads import deployment_rollout
from pytest_kscen.embedded.controllers.workloads.deployment_rollout import (
    available_replicas,
    desired_replicas,
    max_unavailable,
)
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import DEPLOYMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.controller import ControllerContext, StatusWriter
    from pytest_kscen.embedded.controllers.workloads.deployment_rollout import Rollout
    from pytest_kscen.objects.resources import Obj


ConditionFields: TypeAlias = "tuple[str, str, str]"  # a condition's status, reason and message

NO_DEADLINE = 2**31 - 1
AVAILABLE = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
UNAVAILABLE = (
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
)
PAUSED = ("Unknown", "DeploymentPaused", "Deployment is paused")
RESUMED = ("Unknown", "DeploymentResumed", "Deployment is resumed")
COMPLETE_REASON, TIMED_OUT_REASON = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"


def replica_counts(deployment: Obj, new: Obj | None, all_sets: list[Obj]) -> Obj:
    """Return the status without conditions: sums over the ReplicaSets' own statuses, which may
    lag behind their pods.
    """
    statuses = [replica_set.get("status") or {} for replica_set in all_sets]
    old = deployment.get("status") or {}
    numbers = {
        "replicas": sum(status.get("replicas", 0) for status in statuses),
        "updatedReplicas": ((new or {}).get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(status.get("readyReplicas", 0) for status in statuses),
        "availableReplicas": sum(map(available_replicas, all_sets)),
        "unavailableReplicas": max(
            0, sum(map(desired_replicas, all_sets)) - sum(map(available_replicas, all_sets))
        ),
    }
    return {
        "observedGeneration": max(
            deployment["metadata"].get("generation", 0), old.get("observedGeneration", 0)
        ),
        **{name: number for name, number in numbers.items() if number},
        "terminatingReplicas": sum(status.get("terminatingReplicas", 0) for status in statuses),
        **({"collisionCount": old["collisionCount"]} if "collisionCount" in old else {}),
    }


PROGRESS_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def has_deadline(deployment: Obj) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, NO_DEADLINE}


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Return True if the rollout is complete.

    Then all pods have the newest template and are available, no old pod is left, and the status is
    up to date.
    """
    numbers = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return numbers == [desired_replicas(deployment)] * 3 and status[
        "observedGeneration"
    ] >= deployment["metadata"].get("generation", 0)


def seconds_until_timeout(deployment: Obj, status: Obj, now: float) -> float | None:
    """Return the seconds until the rollout exceeds its progress deadline. It is 0 if that has
    passed, and None without a deadline or after completion.
    """
    progressing = _condition(status, "Progressing")
    if (
        progressing is None
        or not has_deadline(deployment)
        or progressing["reason"] == COMPLETE_REASON
    ):
        return None
    if progressing["reason"] == TIMED_OUT_REASON:
        return 0.0
    deadline: float = (
        epoch_of(progressing["lastUpdateTime"]) + deployment["spec"]["progressDeadlineSeconds"]
    )
    return max(0.0, round(deadline - now, 6))


def with_availability(deployment: Obj, status: Obj, now: float) -> Obj:
    """Return the counts with the former conditions and the condition Available, which compares
    available pods with the allowed minimum.
    """
    status = {
        **status,
        "conditions": list((deployment.get("status") or {}).get("conditions") or ()),
    }
    enough = status.get("availableReplicas", 0) >= desired_replicas(deployment) - max_unavailable(
        deployment
    )
    return with_condition(status, "Available", AVAILABLE if enough else UNAVAILABLE, now)


def with_progress(deployment: Obj, status: Obj, new: Obj | None, now: float) -> Obj:
    """Return the status with the condition Progressing brought up to date: complete, progressing,
    timed out, or unchanged.

    A finished rollout keeps its condition; without a deadline there is none.
    """
    before = condition(deployment, "Progressing")
    settled = (
        status.get("replicas", 0) == status.get("updatedReplicas", 0)
        and before
        and before["reason"] == COMPLETE_REASON
    )
    if not has_deadline(deployment):
        return without_condition(status, "Progressing")
    if settled:
        return status
    about = (
        f'ReplicaSet "{new["metadata"]["name"]}"'
        if new
        else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        return with_condition(
            status,
            "Progressing",
            ("True", COMPLETE_REASON, f"{about} has successfully progressed."),
            now,
        )
    old = deployment.get("status") or {}
    gains = {name: status.get(name, 0) - old.get(name, 0) for name in PROGRESS_COUNTS}
    # Progress is more new, fewer old, more ready or more available pods.
    if (
        gains["updatedReplicas"] > 0
        or gains["replicas"] < gains["updatedReplicas"]
        or gains["readyReplicas"] > 0
        or gains["availableReplicas"] > 0
    ):
        moving = ("True", "ReplicaSetUpdated", f"{about} is progressing.")
        since = before["lastTransitionTime"] if before and before["status"] == "True" else None
        return with_condition(
            without_condition(status, "Progressing"), "Progressing", moving, now, since=since
        )
    if seconds_until_timeout(deployment, status, now) == 0:
        return with_condition(
            status,
            "Progressing",
            ("False", TIMED_OUT_REASON, f"{about} has timed out progressing."),
            now,
        )
    return status


def with_failure(status: Obj, new: Obj | None, all_sets: Iterable[Obj]) -> Obj:
    """Return the status with the ReplicaFailure condition of the first failing ReplicaSet, the
    new one before the old ones.
    """
    failures = [
        found for replica_set in all_sets if (found := condition(replica_set, "ReplicaFailure"))
    ]
    failure = condition(new, "ReplicaFailure") or (failures[0] if failures else None)
    if failure is None:
        return without_condition(status, "ReplicaFailure")
    fields = (failure["status"], failure["reason"], failure["message"])
    since = failure["lastTransitionTime"]
    return with_condition(status, "ReplicaFailure", fields, epoch_of(since), since=since)


def with_condition(
    status: Obj, type_: str, fields: ConditionFields, now: float, *, since: str | None = None
) -> Obj:
    """Return the status with a condition set. One with the same status and reason is left
    alone; a changed one moves to the end, as in Kubernetes.
    """
    old = _condition(status, type_)
    if old and (old["status"], old["reason"]) == fields[:2]:
        return status
    stamp = timestamp_of(now)
    new = {
        "type": type_,
        "status": fields[0],
        "lastUpdateTime": stamp,
        "lastTransitionTime": since
        or (old["lastTransitionTime"] if old and old["status"] == fields[0] else stamp),
        "reason": fields[1],
        "message": fields[2],
    }
    rest = without_condition(status, type_)
    return {**rest, "conditions": [*(rest.get("conditions") or ()), new]}


def without_condition(status: Obj, type_: str) -> Obj:
    kept = [other for other in status.get("conditions") or () if other["type"] != type_]
    return {
        **{name: value for name, value in status.items() if name != "conditions"},
        **({"conditions": kept} if kept else {}),
    }


def _condition(status: Obj, type_: str) -> Obj | None:
    return condition({"status": status}, type_)


class DeploymentReporter:
    """Write a Deployment's status, and its notes about pauses, new ReplicaSets and failed
    creations.

    Every write replaces `rollout.deployment`, so the next write of the reconciliation does not
    conflict.
    """

    def __init__(self, context: ControllerContext, status_writer: StatusWriter) -> None:
        self._context = context
        self._status_writer = status_writer

    async def write_status(self, rollout: Rollout, *, progress: bool = False) -> float | None:
        deployment, now = rollout.deployment, self._context.now()
        status = with_availability(
            deployment, replica_counts(deployment, rollout.new, rollout.all_sets), now
        )
        if progress:
            status = with_progress(deployment, status, rollout.new, now)
            status = with_failure(status, rollout.new, rollout.all_sets)
        if status != deployment.get("status"):
            rollout.deployment = await self._status_writer.write(deployment, status)
        return (seconds_until_timeout(deployment, status, now) or None) if progress else None

    async def report_pause(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        progressing = condition(deployment, "Progressing")
        reason = progressing["reason"] if progressing else ""
        if not has_deadline(deployment) or reason == TIMED_OUT_REASON:
            return
        paused = bool(deployment["spec"].get("paused"))
        if paused != (reason == PAUSED[1]):
            await self._write_progressing(rollout, deployment, PAUSED if paused else RESUMED)

    async def report_new_set(
        self, rollout: Rollout, new: Obj, event: tuple[str, str] | None
    ) -> None:
        """Record the revision on the Deployment and, for a set that was created or found
        (`event`), the condition Progressing.
        """
        deployment, metadata = rollout.deployment, rollout.deployment["metadata"]
        revision = (new["metadata"].get("annotations") or {}).get(deployment_rollout.REVISION, "")
        annotations = {**(metadata.get("annotations") or {}), deployment_rollout.REVISION: revision}
        status = event and has_deadline(deployment)
        if status or annotations != metadata.get("annotations"):
            marked = {**deployment, "metadata": {**metadata, "annotations": annotations}}
            fields = (
                ("True", event[0], f'{event[1]} "{new["metadata"]["name"]}"')
                if event and status
                else None
            )
            await self._write_progressing(rollout, marked, fields)

    async def report_create_error(self, rollout: Rollout, message: str) -> None:
        await self._write_progressing(
            rollout, rollout.deployment, ("False", "ReplicaSetCreateError", message)
        )
        self._context.recorder.warning(rollout.deployment, "ReplicaSetCreateError", message)

    async def _write_progressing(
        self, rollout: Rollout, deployment: Obj, fields: ConditionFields | None
    ) -> None:
        status = deployment.get("status") or {}
        if fields:
            status = with_condition(status, "Progressing", fields, self._context.now())
        rollout.deployment = await self._context.api.update(
            DEPLOYMENTS, {**deployment, "status": status}, subresource="status"
        )
