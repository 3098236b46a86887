"""One look at a Deployment: what it wants and what there is."""

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
    return (replica_set.get("status") or {}).get("availableReplicas", 0)  # type: ignore[no-any-return]


def is_rolling(deployment: Obj) -> bool:
    return bool(
        (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    )


def rollout_limits(deployment: Obj) -> tuple[int, int]:
    """How many pods there may be too many (surge) and too few (unavailable); never both none."""
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
    """How many pods the new ReplicaSet, which has `new` of `total`, may have."""
    if not is_rolling(deployment):
        return desired_replicas(deployment)
    room = desired_replicas(deployment) + rollout_limits(deployment)[0] - total
    return new if room <= 0 else new + max(0, min(room, desired_replicas(deployment) - new))


def scale_down_old(deployment: Obj, new: Obj | None, old: list[Obj]) -> Scaling:
    """Scale old ReplicaSets down, the unhealthy pods first, as far as enough pods stay
    available.
    """
    everyone = [*old, *([new] if new else [])]
    least = desired_replicas(deployment) - max_unavailable(deployment)
    new_unavailable = desired_replicas(new) - available_replicas(new) if new else 0
    spare = sum(map(desired_replicas, everyone)) - least - new_unavailable
    if spare <= 0:
        return []
    sizes = {member["metadata"]["name"]: desired_replicas(member) for member in old}
    most: int = spare
    for member in old:
        count = min(most, desired_replicas(member) - available_replicas(member))
        if count > 0:
            sizes[member["metadata"]["name"]] -= count
            most -= count
    _scale_down_healthy(old, sizes, sum(map(available_replicas, everyone)) - least)
    return [
        (member, sizes[member["metadata"]["name"]])
        for member in old
        if sizes[member["metadata"]["name"]] != desired_replicas(member)
    ]


def _scale_down_healthy(old: list[Obj], sizes: dict[str, int], most: int) -> None:
    for member in old:
        name = member["metadata"]["name"]
        count = min(most, sizes[name])
        if count > 0:
            sizes[name] -= count
            most -= count


def scale_proportionally(deployment: Obj, members: list[Obj]) -> Scaling:
    """Share a change of size among ReplicaSets that are in the middle of a rollout, in
    proportion to their sizes.
    """
    total = sum(map(desired_replicas, members))
    surge = rollout_limits(deployment)[0] if desired_replicas(deployment) else 0
    to_add = (desired_replicas(deployment) + surge if desired_replicas(deployment) else 0) - total
    ranked = sorted(
        members,
        key=lambda member: (member["metadata"]["creationTimestamp"], member["metadata"]["name"]),
    )
    ranked = sorted(reversed(ranked) if to_add > 0 else ranked, key=desired_replicas, reverse=True)
    sizes, added = [], 0
    for member in ranked:
        part = _proportion(deployment, member, to_add, added) if to_add else 0
        sizes.append(desired_replicas(member) + part)
        added += part
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(ranked, sizes, strict=True))


def _proportion(deployment: Obj, member: Obj, to_add: int, added: int) -> int:
    if not desired_replicas(member):
        return 0
    if not desired_replicas(deployment):
        fraction: int = -desired_replicas(member)
    else:
        annotations = member["metadata"].get("annotations") or {}
        whole = (
            int(annotations.get(MAX_REPLICAS, 0))
            or (deployment.get("status") or {}).get("replicas", 0)
            or desired_replicas(member)
        )
        target = (
            desired_replicas(member)
            * (desired_replicas(deployment) + rollout_limits(deployment)[0])
            / whole
        )
        fraction = int(target + 0.5) - desired_replicas(member)
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def is_saturated(deployment: Obj, new: Obj) -> bool:
    """Whether the new ReplicaSet has all pods that the Deployment wants, and was told so."""
    size = desired_replicas(deployment)
    told = (new["metadata"].get("annotations") or {}).get(DESIRED_REPLICAS)
    return desired_replicas(new) == size and told == str(size) and available_replicas(new) == size


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


def by_age(members: Iterable[Obj]) -> list[Obj]:
    return sorted(
        members,
        key=lambda member: (member["metadata"]["creationTimestamp"], member["metadata"]["name"]),
    )


def find_new_set(deployment: Obj, members: Iterable[Obj]) -> Obj | None:
    """The ReplicaSet that has the Deployment's template; of several the oldest."""
    template = deployment["spec"]["template"]
    return next(
        (
            member
            for member in by_age(members)
            if same_template(member["spec"]["template"], template)
        ),
        None,
    )


def same_template(one: Obj, other: Obj) -> bool:
    """Whether two templates are equal, whatever hash is written on them."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Obj) -> Obj:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revision_of(obj: Obj) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def build_replica_set(deployment: Obj, revision: int, total: int) -> Obj:
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
    """What a ReplicaSet remembers of its Deployment's size, for sharing a later change in
    proportion.
    """
    return {
        DESIRED_REPLICAS: str(desired_replicas(deployment)),
        MAX_REPLICAS: str(desired_replicas(deployment) + rollout_limits(deployment)[0]),
    }


def new_set_annotations(deployment: Obj, new: Obj, revision: int) -> dict[str, str]:
    """The annotations that the new ReplicaSet should have: the Deployment's, and the newest
    revision.
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
    """Old ReplicaSets beyond the history that is kept, the oldest revision first."""
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    alive = [member for member in by_age(old) if not member["metadata"].get("deletionTimestamp")]
    excess = len(alive) - limit
    return [
        member for member in sorted(alive, key=revision_of)[: max(0, excess)] if _is_empty(member)
    ]


def _is_empty(member: Obj) -> bool:
    status = member.get("status") or {}
    seen = status.get("observedGeneration", 0) >= member["metadata"].get("generation", 0)
    return not status.get("replicas") and not desired_replicas(member) and seen


@dataclass(slots=True)
class Rollout:
    """The Deployment and its ReplicaSets, brought up to date by every step."""

    deployment: Obj
    old: list[Obj]
    new: Obj | None

    @property
    def everyone(self) -> list[Obj]:
        return [*self.old, *([self.new] if self.new else [])]

    @property
    def revision(self) -> int:
        """The number that the newest template should have."""
        return max(map(revision_of, self.old), default=0) + 1
