"""What a DaemonSet does next: which pods go, and which nodes get one. Pure.

First every node gets what it lacks and loses what it has too many of; then, if the template has
changed, pods are replaced as far as enough of them stay available: by deleting old ones, or with a
surge by starting new ones beside them."""

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
    """Whether a daemon should be started on this node, and whether one that is there may stay."""
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
    """The template's own, and those that every daemon has."""
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
    """The node that a daemon is on, or is meant for."""
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
    """Pods to delete and nodes to start one on."""

    delete: list[Obj] = field(default_factory=list)
    failed: list[tuple[Obj, str]] = field(default_factory=list)
    """Finished pods, with their nodes: to be deleted too, but not again and again."""
    create: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.failed or self.create)


@dataclass(slots=True)
class DaemonSetState:
    """A DaemonSet, where it should run, and its pods by node, at one instant."""

    owner: Obj
    should_run: dict[str, tuple[bool, bool]]
    """By node: whether a daemon should be started there, and whether one that is there may stay."""
    pods: dict[str, list[Obj]]
    digest: str
    now: float
    desired: int = field(init=False)
    """On so many nodes it should run."""

    def __post_init__(self) -> None:
        self.desired = sum(runs for runs, _ in self.should_run.values())

    def is_available(self, pod: Obj) -> bool:
        return (
            seconds_until_available(pod, self.owner["spec"].get("minReadySeconds", 0), self.now)
            == 0
        )

    def margins(self) -> tuple[int, int]:
        """How many pods may be there beside the old ones (surge), and how many may be missing."""
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        surge = scaled_int_or_percent(rolling.get("maxSurge", 0), self.desired, up=True)
        unavailable = scaled_int_or_percent(rolling.get("maxUnavailable", 1), self.desired, up=True)
        return (
            (surge, unavailable)
            if self.desired and surge + unavailable
            else (0, min(1, self.desired))
        )


def plan_placement(view: DaemonSetState) -> DaemonSetPlan:
    """Every node has what belongs there, and nothing else."""
    plan = DaemonSetPlan()
    for node, (runs, stays) in view.should_run.items():
        pods = view.pods.get(node, [])
        if runs and not pods:
            plan.create.append(node)
        elif stays:
            living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            plan.failed += [(pod, node) for pod in living if is_finished(pod)]
            plan.delete += _surplus(view, [pod for pod in living if not is_finished(pod)])
        else:
            plan.delete += [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    for node, pods in view.pods.items():
        if node not in view.should_run:
            plan.delete += [
                pod
                for pod in pods
                if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
            ]
    return plan


def by_age(pods: list[Obj]) -> list[Obj]:
    """Those that are placed first, then the older ones."""
    return sorted(pods, key=_age)


def _age(pod: Obj) -> tuple[bool, str, str]:
    return (
        not pod["spec"].get("nodeName"),
        pod["metadata"]["creationTimestamp"],
        pod["metadata"]["name"],
    )


def _surplus(view: DaemonSetState, pods: list[Obj]) -> list[Obj]:
    """What one node has too many of: all but the oldest; in a surge, all but the oldest old and
    the oldest new one.
    """
    if len(pods) < 2:  # noqa: PLR2004  # as nearly always
        return []
    oldest = by_age(pods)
    if not view.margins()[0]:
        return oldest[1:]
    new = [pod for pod in oldest if is_updated(pod, view.digest)]
    old = [pod for pod in oldest if not is_updated(pod, view.digest)]
    replaced = bool(old and new) and (not is_ready(old[0]) or view.is_available(new[0]))
    return [*new[1:], *old[1:], *(old[:1] if replaced else [])]


def plan_rollout(view: DaemonSetState) -> DaemonSetPlan:
    """The next part of an update, if there is anything old."""
    if all(is_updated(pod, view.digest) for pods in view.pods.values() for pod in pods):
        return DaemonSetPlan()
    surge, unavailable = view.margins()
    per_node = {
        node: [
            pod for pod in view.pods.get(node, []) if not pod["metadata"].get("deletionTimestamp")
        ]
        for node in view.pods
    }
    return _surge(view, per_node, surge) if surge else _replace(view, per_node, unavailable)


def _split_by_revision(view: DaemonSetState, pods: list[Obj]) -> tuple[list[Obj], list[Obj]]:
    new = [pod for pod in pods if is_updated(pod, view.digest)]
    return new, [pod for pod in pods if not is_updated(pod, view.digest)]


def _replace(view: DaemonSetState, per_node: dict[str, list[Obj]], most: int) -> DaemonSetPlan:
    """Old pods that are not available go at once; of the others as many as may be missing."""
    missing, useless, candidates = 0, [], []
    for pods in per_node.values():
        new, old = _split_by_revision(view, pods)
        if len(new) + len(old) != 1:
            missing += 1
        elif new:
            missing += not view.is_available(new[0])
        elif not view.is_available(old[0]):
            useless.append(old[0])
            missing += 1
        elif missing < most:
            candidates.append(old[0])
    return DaemonSetPlan(delete=[*useless, *candidates[: max(0, most - missing)]])


def _surge(view: DaemonSetState, per_node: dict[str, list[Obj]], most: int) -> DaemonSetPlan:
    """New pods beside old ones; an old one goes when the new one beside it is available."""
    plan, surging, candidates = DaemonSetPlan(), 0, []
    for node, pods in per_node.items():
        new, old = _split_by_revision(view, pods)
        if len(new) > 1 or len(old) > 1:
            surging += 1
        elif old and not new:
            if not view.is_available(old[0]):
                plan.create.append(node)
                surging += 1
            elif surging < most:
                candidates.append(node)
        elif old and view.is_available(new[0]):
            plan.delete.append(old[0])
        elif old:
            surging += 1
    plan.create += candidates[: max(0, most - surging)]
    return plan


def status_of(view: DaemonSetState, collisions: int | None) -> Obj:
    owner = view.owner
    chosen = {
        node: min(pods, key=_age)
        for node, pods in view.pods.items()
        if pods and node in view.should_run
    }
    running = [
        chosen[node] for node, (runs, _) in view.should_run.items() if runs and node in chosen
    ]
    available = sum(map(view.is_available, running))
    counts = {
        "updatedNumberScheduled": sum(is_updated(pod, view.digest) for pod in running),
        "numberAvailable": available,
        "numberUnavailable": view.desired - available,
    }
    old = (owner.get("status") or {}).get("observedGeneration", 0)
    return {
        "currentNumberScheduled": len(running),
        "numberMisscheduled": sum(not view.should_run[node][0] for node in chosen),
        "desiredNumberScheduled": view.desired,
        "numberReady": sum(map(is_ready, running)),
        "observedGeneration": max(owner["metadata"].get("generation", 0), old),
        **{name: count for name, count in counts.items() if count},
        **({"collisionCount": collisions} if collisions else {}),
    }


def has_failed(pod: Obj) -> bool:
    return phase(pod) == "Failed"
