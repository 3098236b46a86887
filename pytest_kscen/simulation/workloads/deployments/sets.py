"""The ReplicaSets of one Deployment: which is the new one, what they are called, and what is written on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import DEPLOYMENTS, REPLICA_SETS
from pytest_kscen.simulation.workloads.deployments.rolling import DESIRED, MAXIMUM, margins, size_of_new, wanted
from pytest_kscen.simulation.workloads.owners import reference_to
from pytest_kscen.simulation.workloads.templates import short_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
)


def by_age(members: Iterable[Obj]) -> list[Obj]:
    return sorted(members, key=lambda member: (member["metadata"]["creationTimestamp"], member["metadata"]["name"]))


def newest(deployment: Obj, members: Iterable[Obj]) -> Obj | None:
    """The ReplicaSet that has the Deployment's template; of several the oldest."""
    template = deployment["spec"]["template"]
    return next((member for member in by_age(members) if same_template(member["spec"]["template"], template)), None)


def same_template(one: Obj, other: Obj) -> bool:
    """Whether two templates are equal, whatever hash is written on them."""
    return _unhashed(one) == _unhashed(other)


def _unhashed(template: Obj) -> Obj:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revision_of(obj: Obj) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def build(deployment: Obj, revision: int, total: int) -> Obj:
    """A new ReplicaSet for the Deployment's template."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    digest = short_hash(template, (deployment.get("status") or {}).get("collisionCount"))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: digest}
    selector = spec["selector"]
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**_own_annotations(deployment), **sizes(deployment), REVISION: str(revision)},
            "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
        },
        "spec": {
            "replicas": size_of_new(deployment, 0, total),
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def sizes(deployment: Obj) -> dict[str, str]:
    """What a ReplicaSet remembers of its Deployment's size, for sharing a later change in proportion."""
    return {DESIRED: str(wanted(deployment)), MAXIMUM: str(wanted(deployment) + margins(deployment)[0])}


def annotated(deployment: Obj, new: Obj, revision: int) -> dict[str, str]:
    """The annotations that the new ReplicaSet should have: the Deployment's, and the newest revision."""
    annotations = dict(new["metadata"].get("annotations") or {})
    annotations.update(_own_annotations(deployment))
    before = revision_of(new)
    if before < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[HISTORY] = ",".join(filter(None, [annotations.get(HISTORY), str(before)]))
    return annotations


def _own_annotations(deployment: Obj) -> dict[str, str]:
    annotations = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in NOT_COPIED}


def outdated(deployment: Obj, old: Iterable[Obj]) -> list[Obj]:
    """Old ReplicaSets beyond the history that is kept, the oldest revision first."""
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    alive = [member for member in by_age(old) if not member["metadata"].get("deletionTimestamp")]
    excess = len(alive) - limit
    return [member for member in sorted(alive, key=revision_of)[: max(0, excess)] if _is_empty(member)]


def _is_empty(member: Obj) -> bool:
    status = member.get("status") or {}
    seen = status.get("observedGeneration", 0) >= member["metadata"].get("generation", 0)
    return not status.get("replicas") and not wanted(member) and seen
