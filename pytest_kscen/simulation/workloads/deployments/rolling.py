"""The arithmetic of a rollout: how many pods each ReplicaSet should have next. Pure; a step is a list of (set, replicas)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.simulation.workloads.shares import share

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

Scaling: TypeAlias = "list[tuple[Obj, int]]"

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def wanted(obj: Obj) -> int:
    return obj["spec"].get("replicas", 1)  # type: ignore[no-any-return]


def available(replica_set: Obj) -> int:
    return (replica_set.get("status") or {}).get("availableReplicas", 0)  # type: ignore[no-any-return]


def is_rolling(deployment: Obj) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def margins(deployment: Obj) -> tuple[int, int]:
    """How many pods there may be too many (surge) and too few (unavailable); never both none."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), wanted(deployment), up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), wanted(deployment), up=False)
    return surge, unavailable or (0 if surge else 1)


def most_unavailable(deployment: Obj) -> int:
    if not wanted(deployment):
        return 0
    return min(margins(deployment)[1], wanted(deployment))


def size_of_new(deployment: Obj, new: int, total: int) -> int:
    """How many pods the new ReplicaSet, which has `new` of `total`, may have."""
    if not is_rolling(deployment):
        return wanted(deployment)
    room = wanted(deployment) + margins(deployment)[0] - total
    return new if room <= 0 else new + max(0, min(room, wanted(deployment) - new))


def shrink_old(deployment: Obj, new: Obj | None, old: list[Obj]) -> Scaling:
    """Scale old ReplicaSets down, the unhealthy pods first, as far as enough pods stay available."""
    everyone = [*old, *([new] if new else [])]
    least = wanted(deployment) - most_unavailable(deployment)
    new_unavailable = wanted(new) - available(new) if new else 0
    spare = sum(map(wanted, everyone)) - least - new_unavailable
    if spare <= 0:
        return []
    sizes = {member["metadata"]["name"]: wanted(member) for member in old}
    _drop_unhealthy(old, sizes, spare)
    _drop_healthy(old, sizes, sum(map(available, everyone)) - least)
    return [(member, sizes[member["metadata"]["name"]]) for member in old if sizes[member["metadata"]["name"]] != wanted(member)]


def _drop_unhealthy(old: list[Obj], sizes: dict[str, int], most: int) -> None:
    for member in old:
        count = min(most, wanted(member) - available(member))
        if count > 0:
            sizes[member["metadata"]["name"]] -= count
            most -= count


def _drop_healthy(old: list[Obj], sizes: dict[str, int], most: int) -> None:
    for member in old:
        name = member["metadata"]["name"]
        count = min(most, sizes[name])
        if count > 0:
            sizes[name] -= count
            most -= count


def spread(deployment: Obj, members: list[Obj]) -> Scaling:
    """Share a change of size among ReplicaSets that are in the middle of a rollout, in proportion to their sizes."""
    total = sum(map(wanted, members))
    surge = margins(deployment)[0] if wanted(deployment) else 0
    to_add = (wanted(deployment) + surge if wanted(deployment) else 0) - total
    ranked = sorted(members, key=lambda member: (member["metadata"]["creationTimestamp"], member["metadata"]["name"]))
    ranked = sorted(reversed(ranked) if to_add > 0 else ranked, key=wanted, reverse=True)
    sizes, added = [], 0
    for member in ranked:
        part = _proportion(deployment, member, to_add, added) if to_add else 0
        sizes.append(wanted(member) + part)
        added += part
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(ranked, sizes, strict=True))


def _proportion(deployment: Obj, member: Obj, to_add: int, added: int) -> int:
    if not wanted(member):
        return 0
    fraction = _fraction(deployment, member)
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def _fraction(deployment: Obj, member: Obj) -> int:
    if not wanted(deployment):
        return -wanted(member)
    annotations = member["metadata"].get("annotations") or {}
    whole = int(annotations.get(MAXIMUM, 0)) or (deployment.get("status") or {}).get("replicas", 0) or wanted(member)
    target = wanted(member) * (wanted(deployment) + margins(deployment)[0]) / whole
    return int(target + 0.5) - wanted(member)


def is_saturated(deployment: Obj, new: Obj) -> bool:
    """Whether the new ReplicaSet has all pods that the Deployment wants, and was told so."""
    size = wanted(deployment)
    told = (new["metadata"].get("annotations") or {}).get(DESIRED)
    return wanted(new) == size and told == str(size) and available(new) == size
