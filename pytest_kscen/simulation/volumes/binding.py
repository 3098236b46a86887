"""Tying a volume and a claim together: four writes, each left out when it is done already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pytest_kscen.simulation.volumes.matching import BIND_COMPLETED, BOUND_BY_CONTROLLER, annotations_of, is_meant_for

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


async def bind(bench: Bench, volume: Obj, claim: Obj) -> None:
    """The volume takes the claim, then the claim the volume; whoever is interrupted goes on where it stopped."""
    volume = await _bind_volume(bench, volume, claim)
    await set_volume_phase(bench, volume, "Bound")
    claim = await _bind_claim(bench, volume, claim)
    await set_claim_phase(bench, claim, "Bound", volume)


def reference_to(claim: Obj) -> Obj:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


def bound_to(volume: Obj, claim: Obj) -> Obj:
    """The volume with a reference to the claim."""
    spec = volume["spec"]
    if is_meant_for(volume, claim):
        if spec["claimRef"].get("uid"):
            return volume
        return {
            **volume,
            "spec": {**spec, "claimRef": {**reference_to(claim), **spec["claimRef"], "uid": claim["metadata"]["uid"]}},
        }
    return _annotated({**volume, "spec": {**spec, "claimRef": reference_to(claim)}}, BOUND_BY_CONTROLLER)


async def _bind_volume(bench: Bench, volume: Obj, claim: Obj) -> Obj:
    bound = bound_to(volume, claim)
    return volume if bound is volume else await bench.api.update(PERSISTENT_VOLUMES, bound)


async def _bind_claim(bench: Bench, volume: Obj, claim: Obj) -> Obj:
    name = volume["metadata"]["name"]
    bound = claim
    if claim["spec"].get("volumeName") != name:
        bound = _annotated({**claim, "spec": {**claim["spec"], "volumeName": name}}, BOUND_BY_CONTROLLER)
    if BIND_COMPLETED not in annotations_of(bound):
        bound = _annotated(bound, BIND_COMPLETED)
    return claim if bound is claim else await bench.api.update(PERSISTENT_VOLUME_CLAIMS, bound)


async def set_volume_phase(bench: Bench, volume: Obj, phase: str, message: str = "") -> Obj:
    status = volume.get("status") or {}
    if status.get("phase") == phase:
        return volume
    new = {"phase": phase, "lastPhaseTransitionTime": bench.timestamp(), **({"message": message} if message else {})}
    return await bench.api.update(PERSISTENT_VOLUMES, {**volume, "status": new}, subresource="status")


async def set_claim_phase(bench: Bench, claim: Obj, phase: str, volume: Obj | None = None) -> Obj:
    """A bound claim has the volume's modes and size; another has none."""
    old = claim.get("status") or {}
    status = {name: value for name, value in old.items() if name not in {"accessModes", "capacity"}} | {"phase": phase}
    if volume is not None:
        spec = volume["spec"]
        capacity = old.get("capacity") if old.get("phase") == phase else None  # a resizer may know better
        status |= {"accessModes": spec["accessModes"], "capacity": capacity or spec["capacity"]}
    if status == old:
        return claim
    return await bench.api.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "status": status}, subresource="status")


def _annotated(obj: Obj, name: str) -> Obj:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: "yes"}}}
