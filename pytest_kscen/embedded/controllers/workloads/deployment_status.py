"""What a Deployment says of itself: counts, and the conditions Available, Progressing and
ReplicaFailure.

Pure.
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


def replica_counts(deployment: Obj, new: Obj | None, everyone: list[Obj]) -> Obj:
    """The status without its conditions."""
    statuses = [member.get("status") or {} for member in everyone]
    old = deployment.get("status") or {}
    numbers = {
        "replicas": sum(status.get("replicas", 0) for status in statuses),
        "updatedReplicas": ((new or {}).get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(status.get("readyReplicas", 0) for status in statuses),
        "availableReplicas": sum(map(available_replicas, everyone)),
        "unavailableReplicas": max(
            0, sum(map(desired_replicas, everyone)) - sum(map(available_replicas, everyone))
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


def has_deadline(deployment: Obj) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, NO_DEADLINE}


def is_complete(deployment: Obj, status: Obj) -> bool:
    """All pods are of the newest template, available, and no old one is left."""
    numbers = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return numbers == [desired_replicas(deployment)] * 3 and status[
        "observedGeneration"
    ] >= deployment["metadata"].get("generation", 0)


def _is_progressing(deployment: Obj, status: Obj) -> bool:
    """Whether something has moved since the last status: more new pods, fewer old ones, more
    ready, more available.
    """
    before = deployment.get("status") or {}

    def gain(name: str) -> int:
        return status.get(name, 0) - before.get(name, 0)  # type: ignore[no-any-return]

    fewer_old = gain("replicas") - gain("updatedReplicas") < 0
    return (
        gain("updatedReplicas") > 0
        or fewer_old
        or gain("readyReplicas") > 0
        or gain("availableReplicas") > 0
    )


def seconds_until_timeout(deployment: Obj, status: Obj, now: float) -> float | None:
    """The seconds until the rollout has made no progress for too long; 0 if that is so, None if
    it is not waited for.
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
    """The counts with the former conditions and a judgment of availability."""
    status = {
        **status,
        "conditions": list((deployment.get("status") or {}).get("conditions") or ()),
    }
    enough = status.get("availableReplicas", 0) >= desired_replicas(deployment) - max_unavailable(
        deployment
    )
    return with_condition(status, "Available", AVAILABLE if enough else UNAVAILABLE, now)


def with_progress(deployment: Obj, status: Obj, new: Obj | None, now: float) -> Obj:
    """The status with a judgment of the rollout's progress."""
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
    if _is_progressing(deployment, status):
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


def with_failure(status: Obj, new: Obj | None, everyone: Iterable[Obj]) -> Obj:
    """The status with what keeps a ReplicaSet, the newest first, from making its pods."""
    failures = [found for member in everyone if (found := condition(member, "ReplicaFailure"))]
    failure = condition(new, "ReplicaFailure") or (failures[0] if failures else None)
    if failure is None:
        return without_condition(status, "ReplicaFailure")
    words = (failure["status"], failure["reason"], failure["message"])
    since = failure["lastTransitionTime"]
    return with_condition(status, "ReplicaFailure", words, epoch_of(since), since=since)


def with_condition(
    status: Obj, type_: str, words: ConditionFields, now: float, *, since: str | None = None
) -> Obj:
    """A condition that only says the same again is left alone; any other goes to the end, as
    Kubernetes does it.
    """
    old = _condition(status, type_)
    if old and (old["status"], old["reason"]) == words[:2]:
        return status
    stamp = timestamp_of(now)
    new = {
        "type": type_,
        "status": words[0],
        "lastUpdateTime": stamp,
        "lastTransitionTime": since
        or (old["lastTransitionTime"] if old and old["status"] == words[0] else stamp),
        "reason": words[1],
        "message": words[2],
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
    """Writes a Deployment's status."""

    def __init__(self, context: ControllerContext, telling: StatusWriter) -> None:
        self._context = context
        self._telling = telling

    async def tell(self, rollout: Rollout, *, progress: bool = False) -> float | None:
        deployment, now = rollout.deployment, self._context.now()
        told = with_availability(
            deployment, replica_counts(deployment, rollout.new, rollout.everyone), now
        )
        if progress:
            told = with_progress(deployment, told, rollout.new, now)
            told = with_failure(told, rollout.new, rollout.everyone)
        if told != deployment.get("status"):
            rollout.deployment = await self._telling.tell(deployment, told)
        return (seconds_until_timeout(deployment, told, now) or None) if progress else None

    async def note_pause(self, rollout: Rollout) -> None:
        deployment = rollout.deployment
        progressing = condition(deployment, "Progressing")
        reason = progressing["reason"] if progressing else ""
        if not has_deadline(deployment) or reason == TIMED_OUT_REASON:
            return
        paused = bool(deployment["spec"].get("paused"))
        if paused != (reason == PAUSED[1]):
            await self._note(rollout, deployment, PAUSED if paused else RESUMED)

    async def note_new(self, rollout: Rollout, new: Obj, what: tuple[str, str] | None) -> None:
        """The newest revision's number on the Deployment, and that its ReplicaSet was made or
        found.
        """
        deployment, metadata = rollout.deployment, rollout.deployment["metadata"]
        revision = (new["metadata"].get("annotations") or {}).get(deployment_rollout.REVISION, "")
        annotations = {**(metadata.get("annotations") or {}), deployment_rollout.REVISION: revision}
        told = what and has_deadline(deployment)
        if told or annotations != metadata.get("annotations"):
            marked = {**deployment, "metadata": {**metadata, "annotations": annotations}}
            words = (
                ("True", what[0], f'{what[1]} "{new["metadata"]["name"]}"')
                if what and told
                else None
            )
            await self._note(rollout, marked, words)

    async def note_refusal(self, rollout: Rollout, message: str) -> None:
        await self._note(rollout, rollout.deployment, ("False", "ReplicaSetCreateError", message))
        self._context.recorder.warning(rollout.deployment, "ReplicaSetCreateError", message)

    async def _note(self, rollout: Rollout, deployment: Obj, words: ConditionFields | None) -> None:
        told = deployment.get("status") or {}
        if words:
            told = with_condition(told, "Progressing", words, self._context.now())
        rollout.deployment = await self._context.api.update(
            DEPLOYMENTS, {**deployment, "status": told}, subresource="status"
        )
