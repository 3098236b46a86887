"""What a StatefulSet does next. Pure: what there is goes in; out come the steps up to the first
thing to be waited for.

In order (OrderedReady) every pod waits for those before it; Parallel sets wait for nobody but while
rolling."""

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
    """The number of a pod of this set, None for a pod that has only wandered here."""
    parent, _, number = name.rpartition("-")
    return int(number) if parent == owner["metadata"]["name"] and number.isdecimal() else None


def name_of(owner: Obj, ordinal: int) -> str:
    return f"{owner['metadata']['name']}-{ordinal}"


def revision_of(pod: Obj) -> str:
    return (pod["metadata"].get("labels") or {}).get(REVISION) or ""


def ordinals_of(owner: Obj) -> range:
    """The numbers of the pods that should be there."""
    start = (owner["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + owner["spec"].get("replicas", 1))


def labels_of(owner: Obj, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name_of(owner, ordinal), POD_INDEX: str(ordinal)}


def build_pod(owner: Obj, ordinal: int, revision: Obj) -> Obj:
    pod = pod_of(template_of(revision), owner, STATEFUL_SETS)
    metadata, spec, name = pod["metadata"], pod["spec"], name_of(owner, ordinal)
    identity = {**labels_of(owner, ordinal), REVISION: revision["metadata"]["name"]}
    claimed = {volume["name"]: volume for volume in _volumes(owner, ordinal)}
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


def _volumes(owner: Obj, ordinal: int) -> list[Obj]:
    return [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)},
        }
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    ]


def claim_name(owner: Obj, template: Obj, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{name_of(owner, ordinal)}"


def build_claims(owner: Obj, ordinal: int) -> list[Obj]:
    """The claims of one pod, as they are when the set makes them."""
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
    """The kinds of steps."""

    CREATE = "create"
    KEEP = "keep"
    """See that its identity and its claims are right."""
    DELETE = "delete"
    CONDEMN = "condemn"
    """Delete because the set has shrunk."""


@dataclass(frozen=True, slots=True)
class StatefulSetStep:
    """One thing to do about one pod."""

    verb: StepKind
    ordinal: int
    pod: Obj | None = None


@dataclass(slots=True)
class StatefulSetState:
    """A StatefulSet and its pods by number, at one instant."""

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


def plan_steps(view: StatefulSetState) -> Iterator[StatefulSetStep]:
    """The steps of one look."""
    for ordinal in ordinals_of(view.owner):
        pod = view.pods.get(ordinal)
        # What to do about one pod that should be there.
        if pod is None:
            yield StatefulSetStep(StepKind.CREATE, ordinal)
        elif not is_finished(pod):
            yield StatefulSetStep(StepKind.KEEP, ordinal, pod)
        elif not is_terminating(pod):
            yield StatefulSetStep(StepKind.DELETE, ordinal, pod)
        if view.in_order and (pod is None or is_terminating(pod) or not view.is_available(pod)):
            return
    if any(
        is_finished(view.pods[ordinal])
        for ordinal in ordinals_of(view.owner)
        if ordinal in view.pods
    ):
        return
    condemned = [
        ordinal
        for ordinal in sorted(view.pods, reverse=True)
        if ordinal not in ordinals_of(view.owner)
    ]
    yield from _plan_scale_down(view, condemned)
    if not condemned or not view.in_order:
        yield from _plan_rollout(view)


def _plan_scale_down(view: StatefulSetState, condemned: list[int]) -> Iterator[StatefulSetStep]:
    """The last pod first; in order, an unhealthy pod holds up all but itself."""
    unhealthy = [ordinal for ordinal in condemned if not view.is_healthy(view.pods[ordinal])]
    for ordinal in condemned:
        pod = view.pods[ordinal]
        if not is_terminating(pod) and (
            not view.in_order or view.is_available(pod) or ordinal == unhealthy[-1]
        ):
            yield StatefulSetStep(StepKind.CONDEMN, ordinal, pod)
        if view.in_order:
            return


def _plan_rollout(view: StatefulSetState) -> Iterator[StatefulSetStep]:
    """Replace one pod of an older revision, the last first, when all after it are well."""
    strategy = view.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") == "OnDelete":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(ordinals_of(view.owner)[partition:]):
        pod = view.pods.get(ordinal)
        if pod is None:
            return
        if revision_of(pod) != view.update["metadata"]["name"] and not is_terminating(pod):
            yield StatefulSetStep(StepKind.DELETE, ordinal, pod)
            return
        if not view.is_healthy(pod):
            return


def revision_for(view: StatefulSetState, ordinal: int) -> Obj:
    """The revision that a new pod of this number is made from."""
    strategy = view.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return view.update
    place = ordinal - ordinals_of(view.owner).start
    rolling = strategy.get("rollingUpdate")
    still_current = (view.owner.get("status") or {}).get("currentReplicas", 0)
    return (
        view.current
        if place < (rolling.get("partition", 0) if rolling else still_current)
        else view.update
    )
