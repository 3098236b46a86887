"""Arithmetic of a Deployment's rollout: sizes of its ReplicaSets, their names, labels and
annotations.

Pure functions in the terms of Kubernetes' deployment utilities, called by `deployments` and
`deployment_status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.embedded.controllers.ownership import reference_to
from pytest_kscen.embedded.controllers.pod_control import short_hash
from pytest_kscen.embedded.controllers.pod_state import scaled_int_or_percent
from pytest_kscen.objects.resources import DEPLOYMENTS, REPLICA_SETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj


Scaling: TypeAlias = "list[tuple[Obj, int]]"

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


def desired_replicas(obj: Obj) -> int:
    return obj["spec"].get("replicas", 1)  # type: ignore[no-any-return]


def available_replicas(replica_set: Obj) -> int:
    status: Obj = replica_set.get("status") or {}
    return status.get("availableReplicas", 0)  # type: ignore[no-any-return]


def is_rolling(deployment: Obj) -> bool:
    return bool(
        (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    )


def rollout_limits(deployment: Obj) -> tuple[int, int]:
    """Return how many pods may exist beyond the wanted number (surge) and how many may be
    unavailable. At least one of the two is positive.
    """
    if not is_rolling(deployment):
        return 0, 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = scaled_int_or_percent(
        rolling.get("maxSurge", "25%"), desired_replicas(deployment), up=True
    )
    unavailable = scaled_int_or_percent(
        rolling.get("maxUnavailable", "25%"), desired_replicas(deployment), up=False
    )
    return surge, unavailable or (0 if surge else 1)


def max_unavailable(deployment: Obj) -> int:
    if not desired_replicas(deployment):
        return 0
    return min(rollout_limits(deployment)[1], desired_replicas(deployment))


def new_set_size(deployment: Obj, new: int, total: int) -> int:
    """Return how many pods the new ReplicaSet may have next. It has `new` of the `total` pods
    of all sets.
    """
    if not is_rolling(deployment):
        return desired_replicas(deployment)
    surge_left = desired_replicas(deployment) + rollout_limits(deployment)[0] - total
    return (
        new
        if surge_left <= 0
        else new + max(0, min(surge_left, desired_replicas(deployment) - new))
    )


def scale_down_old(deployment: Obj, new: Obj | None, old: list[Obj]) -> Scaling:
    """Return the sizes of old ReplicaSets that shrink, as far as enough pods stay available.

    Unavailable pods go first, as they cost no availability; then the oldest sets shrink. Sets that
    keep their size are left out.
    """
    all_sets = [*old, *([new] if new else [])]
    least = desired_replicas(deployment) - max_unavailable(deployment)
    new_unavailable = desired_replicas(new) - available_replicas(new) if new else 0
    removable = sum(map(desired_replicas, all_sets)) - least - new_unavailable
    if removable <= 0:
        return []
    sizes = {replica_set["metadata"]["name"]: desired_replicas(replica_set) for replica_set in old}
    most: int = removable
    for replica_set in old:
        count = min(most, desired_replicas(replica_set) - available_replicas(replica_set))
        if count > 0:
            sizes[replica_set["metadata"]["name"]] -= count
            most -= count
    most = sum(map(available_replicas, all_sets)) - least
    for replica_set in old:
        name = replica_set["metadata"]["name"]
        count = min(most, sizes[name])
        if count > 0:
            sizes[name] -= count
            most -= count
    return [
        (replica_set, sizes[replica_set["metadata"]["name"]])
        for replica_set in old
        if sizes[replica_set["metadata"]["name"]] != desired_replicas(replica_set)
    ]


def scale_proportionally(deployment: Obj, replica_sets: list[Obj]) -> Scaling:
    """Distribute a change of the Deployment's size over ReplicaSets in the middle of a rollout.

    Each gets a share in proportion to its size; the largest set takes what rounding leaves. Grow
    the newest first, shrink the oldest first.
    """
    total = sum(map(desired_replicas, replica_sets))
    surge = rollout_limits(deployment)[0] if desired_replicas(deployment) else 0
    to_add = (desired_replicas(deployment) + surge if desired_replicas(deployment) else 0) - total
    ranked = sorted(
        replica_sets,
        key=lambda replica_set: (
            replica_set["metadata"]["creationTimestamp"],
            replica_set["metadata"]["name"],
        ),
    )
    ranked = sorted(reversed(ranked) if to_add > 0 else ranked, key=desired_replicas, reverse=True)
    sizes, added = [], 0
    for replica_set in ranked:
        part = _proportion(deployment, replica_set, to_add, added) if to_add else 0
        sizes.append(desired_replicas(replica_set) + part)
        added += part
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(ranked, sizes, strict=True))


def _proportion(deployment: Obj, replica_set: Obj, to_add: int, added: int) -> int:
    if not desired_replicas(replica_set):
        return 0
    if not desired_replicas(deployment):
        fraction: int = -desired_replicas(replica_set)
    else:
        annotations = replica_set["metadata"].get("annotations") or {}
        whole = (
            int(annotations.get(MAX_REPLICAS, 0))
            or (deployment.get("status") or {}).get("replicas", 0)
            or desired_replicas(replica_set)
        )
        target = (
            desired_replicas(replica_set)
            * (desired_replicas(deployment) + rollout_limits(deployment)[0])
            / whole
        )
        fraction = int(target + 0.5) - desired_replicas(replica_set)
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def is_saturated(deployment: Obj, new: Obj) -> bool:
    """Return True if the new ReplicaSet has all wanted pods available and was scaled for the
    Deployment's present size.
    """
    size = desired_replicas(deployment)
    recorded = (new["metadata"].get("annotations") or {}).get(DESIRED_REPLICAS)
    return (
        desired_replicas(new) == size and recorded == str(size) and available_replicas(new) == size
    )


HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
UNCOPIED_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
)


def by_age(replica_sets: Iterable[Obj]) -> list[Obj]:
    return sorted(
        replica_sets,
        key=lambda replica_set: (
            replica_set["metadata"]["creationTimestamp"],
            replica_set["metadata"]["name"],
        ),
    )


def find_new_set(deployment: Obj, replica_sets: Iterable[Obj]) -> Obj | None:
    """Return the ReplicaSet with the Deployment's template, the oldest if there are several, or
    None. The hash label is ignored.
    """
    template = deployment["spec"]["template"]
    return next(
        (
            replica_set
            for replica_set in by_age(replica_sets)
            if same_template(replica_set["spec"]["template"], template)
        ),
        None,
    )


def same_template(one: Obj, other: Obj) -> bool:
    """Return True if two pod templates are equal apart from the hash label that ReplicaSets add
    to theirs.
    """
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Obj) -> Obj:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revision_of(obj: Obj) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def build_replica_set(deployment: Obj, revision: int, total: int) -> Obj:
    """Return a ReplicaSet for the Deployment's template. `total` is the number of pods that the
    other sets want, which limits its size.
    """
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
            "annotations": {
                **_own_annotations(deployment),
                **size_annotations(deployment),
                REVISION: str(revision),
            },
            "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
        },
        "spec": {
            "replicas": new_set_size(deployment, 0, total),
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest},
            },
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }


def size_annotations(deployment: Obj) -> dict[str, str]:
    """Return the annotations that record the Deployment's size and surge on a ReplicaSet;
    `scale_proportionally` reads them later.
    """
    return {
        DESIRED_REPLICAS: str(desired_replicas(deployment)),
        MAX_REPLICAS: str(desired_replicas(deployment) + rollout_limits(deployment)[0]),
    }


def new_set_annotations(deployment: Obj, new: Obj, revision: int) -> dict[str, str]:
    """Return the annotations that the new ReplicaSet should have: the Deployment's and the
    revision, with former revisions in the history.
    """
    annotations = dict(new["metadata"].get("annotations") or {})
    annotations.update(_own_annotations(deployment))
    before = revision_of(new)
    if before < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[REVISION_HISTORY] = ",".join(
                filter(None, [annotations.get(REVISION_HISTORY), str(before)])
            )
    return annotations


def _own_annotations(deployment: Obj) -> dict[str, str]:
    annotations = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in UNCOPIED_ANNOTATIONS}


def beyond_history_limit(deployment: Obj, old: Iterable[Obj]) -> list[Obj]:
    """Return old, empty ReplicaSets beyond `revisionHistoryLimit`, the lowest revision first,
    which are to be deleted.
    """
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    alive = [
        replica_set
        for replica_set in by_age(old)
        if not replica_set["metadata"].get("deletionTimestamp")
    ]
    excess = len(alive) - limit
    return [
        replica_set
        for replica_set in sorted(alive, key=revision_of)[: max(0, excess)]
        if not (replica_set.get("status") or {}).get("replicas")
        and not desired_replicas(replica_set)
        and (replica_set.get("status") or {}).get("observedGeneration", 0)
        >= replica_set["metadata"].get("generation", 0)
    ]


@dataclass(slots=True)
class Rollout:
    """Deployment with its ReplicaSets during one reconciliation. Every write replaces the
    object here, so later steps see the newest version.
    """

    deployment: Obj
    old: list[Obj]
    new: Obj | None

    @property
    def all_sets(self) -> list[Obj]:
        return [*self.old, *([self.new] if self.new else [])]

    @property
    def revision(self) -> int:
        """Return the revision number for the current template: one more than the highest among
        the old sets.
        """
        return max(map(revision_of, self.old), default=0) + 1
