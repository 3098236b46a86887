"""Which nodes a daemon belongs on, and the pod that is meant for one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import DAEMON_SETS
from pytest_kscen.simulation.placement.affinity import pod_may_be_on
from pytest_kscen.simulation.placement.taints import taints_of, untolerated
from pytest_kscen.simulation.workloads.revisions import hash_of, template_of
from pytest_kscen.simulation.workloads.templates import LONGEST_PREFIX, pod_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
GENERATION_OF_SET = "deprecated.daemonset.template.generation"

TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
TOLERATED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def may_run(owner: Obj, node: Obj) -> tuple[bool, bool]:
    """Whether a daemon should be started on this node, and whether one that is there may stay."""
    spec = owner["spec"]["template"]["spec"]
    if spec.get("nodeName") not in {None, "", node["metadata"]["name"]} or not pod_may_be_on({"spec": spec}, node):
        return False, False
    taints = taints_of(node)
    if not taints:
        return True, True
    tolerations = _tolerations(spec)
    stays = untolerated(taints, tolerations, ("NoExecute",)) is None
    return stays and untolerated(taints, tolerations) is None, stays


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
            "generateName": f"{owner['metadata']['name']}-"[:LONGEST_PREFIX],
            "labels": {**(metadata.get("labels") or {}), **identity},
        },
        "spec": {**spec, "affinity": {**affinity, "nodeAffinity": bound}, "tolerations": _tolerations(spec)},
    }


def _tolerations(spec: Obj) -> list[Obj]:
    """The template's own, and those that every daemon has."""
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in (*TOLERATED, *([TOLERATED_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])):
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return tolerations


def node_of(pod: Obj) -> str:
    """The node that a daemon is on, or is meant for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    fields = (field for term in terms for field in term.get("matchFields") or ())
    return next((field["values"][0] for field in fields if field["key"] == "metadata.name"), "")


def is_updated(pod: Obj, digest: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get(HASH) == digest
