"""Decide the next steps for a StatefulSet's pods. Pure functions, called by `statefulsets`.

OrderedReady sets stop at the first pod that is not available; Parallel sets do so only while
rolling. Also defines the identity of a pod: ordinal, name, labels and claims.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.pod_control import pod_of
from pytest_kscen.embedded.controllers.pod_state import (
    is_finished,
    is_ready,
    phase,
    seconds_until_available,
)
from pytest_kscen.embedded.controllers.workloads.revisions import template_of
from pytest_kscen.objects.resources import STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj


POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"


def ordinal_of(name: str, owner: Obj) -> int | None:
    """Return the ordinal in a pod's name, or None if the name does not belong to this set. Such
    pods are not adopted.
    """
    parent, _, number = name.rpartition("-")
    return int(number) if parent == owner["metadata"]["name"] and number.isdecimal() else None


def name_of(owner: Obj, ordinal: int) -> str:
    return f"{owner['metadata']['name']}-{ordinal}"


def revision_of(pod: Obj) -> str:
    return (pod["metadata"].get("labels") or {}).get(REVISION) or ""


def ordinals_of(owner: Obj) -> range:
    """Return the ordinals of the pods that should exist: `replicas` numbers from
    `ordinals.start` on.
    """
    start = (owner["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + owner["spec"].get("replicas", 1))


def labels_of(owner: Obj, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name_of(owner, ordinal), POD_INDEX: str(ordinal)}


def build_pod(owner: Obj, ordinal: int, revision: Obj) -> Obj:
    pod = pod_of(template_of(revision), owner, STATEFUL_SETS)
    metadata, spec, name = pod["metadata"], pod["spec"], name_of(owner, ordinal)
    identity = {**labels_of(owner, ordinal), REVISION: revision["metadata"]["name"]}
    claimed = {
        template["metadata"]["name"]: {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)},
        }
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    }
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claimed]
    return {
        **pod,
        "metadata": {
            **metadata,
            "name": name,
            "generateName": f"{owner['metadata']['name']}-",
            "labels": {**(metadata.get("labels") or {}), **identity},
        },
        "spec": {
            **spec,
            "hostname": name,
            **(
                {"subdomain": owner["spec"]["serviceName"]}
                if owner["spec"].get("serviceName")
                else {}
            ),
            **({"volumes": [*claimed.values(), *others]} if claimed or others else {}),
        },
    }


def claim_name(owner: Obj, template: Obj, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{name_of(owner, ordinal)}"


def build_claims(owner: Obj, ordinal: int) -> list[Obj]:
    """Return the volume claims of one pod, built from the set's templates, with the labels of
    its selector.
    """
    selected = owner["spec"]["selector"].get("matchLabels") or {}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **template["metadata"],
                "name": claim_name(owner, template, ordinal),
                "namespace": owner["metadata"]["namespace"],
                "labels": {**(template["metadata"].get("labels") or {}), **selected},
            },
            "spec": template["spec"],
        }
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    ]


class StepKind(enum.Enum):
    """Kind of a step; the controller has one method for each, and records the Events that
    Kubernetes records.
    """

    CREATE = "create"
    KEEP = "keep"
    """Correct the pod's identity and the owners of its claims."""
    DELETE = "delete"
    CONDEMN = "condemn"
    """Delete because the set was scaled down."""


@dataclass(frozen=True, slots=True)
class StatefulSetStep:
    """Action on one pod of the set, identified by its ordinal. `pod` is None only for creation."""

    verb: StepKind
    ordinal: int
    pod: Obj | None = None


@dataclass(slots=True)
class StatefulSetState:
    """StatefulSet with its pods by ordinal and its current and update revision, at one instant
    (`now`, epoch seconds).

    The controller updates `pods` as it takes the steps, so that the status counts the results.
    """

    owner: Obj
    pods: dict[int, Obj]
    current: Obj
    update: Obj
    now: float

    @property
    def in_order(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    def is_healthy(self, pod: Obj) -> bool:
        return is_running_and_ready(pod) and not is_terminating(pod)

    def is_available(self, pod: Obj) -> bool:
        return (
            is_running_and_ready(pod)
            and seconds_until_available(pod, self.owner["spec"].get("minReadySeconds", 0), self.now)
            == 0
        )


def is_running_and_ready(pod: Obj) -> bool:
    return phase(pod) == "Running" and is_ready(pod)


def is_terminating(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def plan_steps(state: StatefulSetState) -> Iterator[StatefulSetStep]:
    """Yield the steps of one reconciliation, in order: wanted pods by ordinal, then scaling down,
    then the rolling update.

    Ends at the first pod that has to be waited for.
    """
    for ordinal in ordinals_of(state.owner):
        pod = state.pods.get(ordinal)
        if pod is None:
            yield StatefulSetStep(StepKind.CREATE, ordinal)
        elif not is_finished(pod):
            yield StatefulSetStep(StepKind.KEEP, ordinal, pod)
        elif not is_terminating(pod):
            yield StatefulSetStep(StepKind.DELETE, ordinal, pod)
        if state.in_order and (pod is None or is_terminating(pod) or not state.is_available(pod)):
            return
    if any(
        is_finished(state.pods[ordinal])
        for ordinal in ordinals_of(state.owner)
        if ordinal in state.pods
    ):
        return
    condemned = [
        ordinal
        for ordinal in sorted(state.pods, reverse=True)
        if ordinal not in ordinals_of(state.owner)
    ]
    unhealthy = [ordinal for ordinal in condemned if not state.is_healthy(state.pods[ordinal])]
    for ordinal in condemned:  # in order, an unhealthy pod holds up all but itself
        pod = state.pods[ordinal]
        if not is_terminating(pod) and (
            not state.in_order or state.is_available(pod) or ordinal == unhealthy[-1]
        ):
            yield StatefulSetStep(StepKind.CONDEMN, ordinal, pod)
        if state.in_order:
            return
    yield from _plan_rollout(state)


def _plan_rollout(state: StatefulSetState) -> Iterator[StatefulSetStep]:
    """Yield the deletion of one pod with an old revision. The highest ordinal is first, and all
    pods above it have to be healthy.
    """
    strategy = state.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") == "OnDelete":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(ordinals_of(state.owner)[partition:]):
        pod = state.pods.get(ordinal)
        if pod is None:
            return
        if revision_of(pod) != state.update["metadata"]["name"] and not is_terminating(pod):
            yield StatefulSetStep(StepKind.DELETE, ordinal, pod)
            return
        if not state.is_healthy(pod):
            return


def revision_for(state: StatefulSetState, ordinal: int) -> Obj:
    """Return the revision from which a new pod of this ordinal is created. Below the partition
    it is the current one, above it the update revision.
    """
    strategy = state.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return state.update
    place = ordinal - ordinals_of(state.owner).start
    rolling = strategy.get("rollingUpdate")
    still_current = (state.owner.get("status") or {}).get("currentReplicas", 0)
    return (
        state.current
        if place < (rolling.get("partition", 0) if rolling else still_current)
        else state.update
    )
