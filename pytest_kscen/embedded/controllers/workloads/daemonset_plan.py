"""Decide which pods of a DaemonSet to delete and which nodes get one. Pure functions.

Called by `daemonsets`. First every eligible node gets exactly one pod. Then, if the template has
changed, pods are replaced as far as the limits allow: old ones are deleted, or with a surge new
ones are started in addition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.pod_control import MAX_GENERATE_NAME, pod_of
from pytest_kscen.embedded.controllers.pod_state import (
    is_finished,
    is_ready,
    phase,
    scaled_int_or_percent,
    seconds_until_available,
)
from pytest_kscen.embedded.controllers.workloads.revisions import hash_of, template_of
from pytest_kscen.embedded.node_matching import first_untolerated_taint, node_matches_pod, taints_of
from pytest_kscen.objects.resources import DAEMON_SETS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
GENERATION_OF_SET = "deprecated.daemonset.template.generation"

DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
HOST_NETWORK_TOLERATION = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def daemon_eligibility(owner: Obj, node: Obj) -> tuple[bool, bool]:
    """Return two flags for a node.

    The first: a daemon should be started there. The second: a daemon that is there may continue to
    run.

    They differ for taints without NoExecute, which keep new daemons away only.
    """
    spec = owner["spec"]["template"]["spec"]
    if spec.get("nodeName") not in {None, "", node["metadata"]["name"]} or not node_matches_pod(
        {"spec": spec}, node
    ):
        return False, False
    taints = taints_of(node)
    if not taints:
        return True, True
    tolerations = _tolerations(spec)
    stays = first_untolerated_taint(taints, tolerations, ("NoExecute",)) is None
    return stays and first_untolerated_taint(taints, tolerations) is None, stays


def build_pod(owner: Obj, node: str, revision: Obj) -> Obj:
    pod = pod_of(template_of(revision), owner, DAEMON_SETS)
    metadata, spec = pod["metadata"], pod["spec"]
    generation = (owner["metadata"].get("annotations") or {}).get(GENERATION_OF_SET)
    identity = {HASH: hash_of(revision), **({GENERATION: generation} if generation else {})}
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    bound = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {
        **pod,
        "metadata": {
            **metadata,
            "generateName": f"{owner['metadata']['name']}-"[:MAX_GENERATE_NAME],
            "labels": {**(metadata.get("labels") or {}), **identity},
        },
        "spec": {
            **spec,
            "affinity": {**affinity, "nodeAffinity": bound},
            "tolerations": _tolerations(spec),
        },
    }


def _tolerations(spec: Obj) -> list[Obj]:
    """Return the template's tolerations followed by the default ones of daemon pods, without
    duplicates.
    """
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in (
        *DAEMON_TOLERATIONS,
        *([HOST_NETWORK_TOLERATION] if spec.get("hostNetwork") else []),
    ):
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return tolerations


def node_of(pod: Obj) -> str:
    """Return the node that a daemon pod is bound to or, before scheduling, the node that its
    affinity names. Empty if there is neither.
    """
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or ()
    fields = (field for term in terms for field in term.get("matchFields") or ())
    return next((field["values"][0] for field in fields if field["key"] == "metadata.name"), "")


def is_updated(pod: Obj, digest: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get(HASH) == digest


@dataclass(slots=True)
class DaemonSetPlan:
    """Pods to delete and nodes to start a pod on. An empty plan is false, so a rollout
    continues only when placement is complete.
    """

    delete: list[Obj] = field(default_factory=list)
    failed: list[tuple[Obj, str]] = field(default_factory=list)
    """Finished pods with their nodes; deleted with a back-off for failures."""
    create: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.failed or self.create)


@dataclass(slots=True)
class DaemonSetState:
    """DaemonSet with its eligible nodes and its pods by node, at one instant (`now`, epoch
    seconds).

    The controller updates `pods` as it creates and deletes, so that the status counts the results.
    """

    owner: Obj
    should_run: dict[str, tuple[bool, bool]]
    """Two flags by node: a daemon should be started there; a daemon that is there may stay."""
    pods: dict[str, list[Obj]]
    digest: str
    now: float
    desired: int = field(init=False)
    """Number of nodes on which a daemon should run."""

    def __post_init__(self) -> None:
        self.desired = sum(runs for runs, _ in self.should_run.values())

    def is_available(self, pod: Obj) -> bool:
        return (
            seconds_until_available(pod, self.owner["spec"].get("minReadySeconds", 0), self.now)
            == 0
        )

    def margins(self) -> tuple[int, int]:
        """Return the surge and the number of pods that may be unavailable.

        The surge is the number of additional pods. One of the two is at least 1 unless no node is
        eligible.
        """
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        surge = scaled_int_or_percent(rolling.get("maxSurge", 0), self.desired, up=True)
        unavailable = scaled_int_or_percent(rolling.get("maxUnavailable", 1), self.desired, up=True)
        return (
            (surge, unavailable)
            if self.desired and surge + unavailable
            else (0, min(1, self.desired))
        )


def plan_placement(state: DaemonSetState) -> DaemonSetPlan:
    """Return the plan that gives every eligible node one pod and deletes pods from all others.

    Pods for nodes that no longer exist are deleted only while unscheduled; the pod garbage
    collector handles the others.
    """
    plan = DaemonSetPlan()
    for node, (runs, stays) in state.should_run.items():
        pods = state.pods.get(node, [])
        if runs and not pods:
            plan.create.append(node)
        elif stays:
            living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            plan.failed += [(pod, node) for pod in living if is_finished(pod)]
            plan.delete += _surplus(state, [pod for pod in living if not is_finished(pod)])
        else:
            plan.delete += [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    for node, pods in state.pods.items():
        if node not in state.should_run:
            plan.delete += [
                pod
                for pod in pods
                if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
            ]
    return plan


def by_age(pods: list[Obj]) -> list[Obj]:
    """Return the pods of one node in the order of precedence: scheduled ones first, then older
    ones.
    """
    return sorted(pods, key=_age)


def _age(pod: Obj) -> tuple[bool, str, str]:
    return (
        not pod["spec"].get("nodeName"),
        pod["metadata"]["creationTimestamp"],
        pod["metadata"]["name"],
    )


def _surplus(state: DaemonSetState, pods: list[Obj]) -> list[Obj]:
    """Return the pods that one node has too many.

    All but the oldest are surplus or, in a surge, all but the oldest of each revision.
    """
    if len(pods) < 2:  # noqa: PLR2004  # the usual case, kept cheap
        return []
    oldest = by_age(pods)
    if not state.margins()[0]:
        return oldest[1:]
    new = [pod for pod in oldest if is_updated(pod, state.digest)]
    old = [pod for pod in oldest if not is_updated(pod, state.digest)]
    replaced = bool(old and new) and (not is_ready(old[0]) or state.is_available(new[0]))
    return [*new[1:], *old[1:], *(old[:1] if replaced else [])]


def plan_rollout(state: DaemonSetState) -> DaemonSetPlan:
    """Return the next part of a rolling update, or an empty plan if all pods have the current
    template.
    """
    if all(is_updated(pod, state.digest) for pods in state.pods.values() for pod in pods):
        return DaemonSetPlan()
    surge, unavailable = state.margins()
    per_node = {
        node: [
            pod for pod in state.pods.get(node, []) if not pod["metadata"].get("deletionTimestamp")
        ]
        for node in state.pods
    }
    return _surge(state, per_node, surge) if surge else _replace(state, per_node, unavailable)


def _split_by_revision(state: DaemonSetState, pods: list[Obj]) -> tuple[list[Obj], list[Obj]]:
    new = [pod for pod in pods if is_updated(pod, state.digest)]
    return new, [pod for pod in pods if not is_updated(pod, state.digest)]


def _replace(state: DaemonSetState, per_node: dict[str, list[Obj]], most: int) -> DaemonSetPlan:
    """Plan an update without surge. Unavailable old pods are deleted at once, available ones as
    far as `most` pods may be missing.
    """
    missing, useless, candidates = 0, [], []
    for pods in per_node.values():
        new, old = _split_by_revision(state, pods)
        if len(new) + len(old) != 1:
            missing += 1
        elif new:
            missing += not state.is_available(new[0])
        elif not state.is_available(old[0]):
            useless.append(old[0])
            missing += 1
        elif missing < most:
            candidates.append(old[0])
    return DaemonSetPlan(delete=[*useless, *candidates[: max(0, most - missing)]])


def _surge(state: DaemonSetState, per_node: dict[str, list[Obj]], most: int) -> DaemonSetPlan:
    """Plan an update with surge: start at most `most` new pods before old ones are deleted.

    An old pod is deleted when the new one on its node is available; an unavailable old one is
    replaced at once.
    """
    plan, surging, candidates = DaemonSetPlan(), 0, []
    for node, pods in per_node.items():
        new, old = _split_by_revision(state, pods)
        if len(new) > 1 or len(old) > 1:
            surging += 1
        elif old and not new:
            if not state.is_available(old[0]):
                plan.create.append(node)
                surging += 1
            elif surging < most:
                candidates.append(node)
        elif old and state.is_available(new[0]):
            plan.delete.append(old[0])
        elif old:
            surging += 1
    plan.create += candidates[: max(0, most - surging)]
    return plan


def status_of(state: DaemonSetState, collisions: int | None) -> Obj:
    owner = state.owner
    chosen = {
        node: min(pods, key=_age)
        for node, pods in state.pods.items()
        if pods and node in state.should_run
    }
    running = [
        chosen[node] for node, (runs, _) in state.should_run.items() if runs and node in chosen
    ]
    available = sum(map(state.is_available, running))
    counts = {
        "updatedNumberScheduled": sum(is_updated(pod, state.digest) for pod in running),
        "numberAvailable": available,
        "numberUnavailable": state.desired - available,
    }
    old = (owner.get("status") or {}).get("observedGeneration", 0)
    return {
        "currentNumberScheduled": len(running),
        "numberMisscheduled": sum(not state.should_run[node][0] for node in chosen),
        "desiredNumberScheduled": state.desired,
        "numberReady": sum(map(is_ready, running)),
        "observedGeneration": max(owner["metadata"].get("generation", 0), old),
        **{name: count for name, count in counts.items() if count},
        **({"collisionCount": collisions} if collisions else {}),
    }


def has_failed(pod: Obj) -> bool:
    return phase(pod) == "Failed"
