"""Match volumes to claims, and write the binding of the two.

Pure functions on claims, volumes and classes, and the four writes of a binding. Used by the
persistent volume controller, the provisioner and the scheduler's volume binding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.node_matching import node_matches_volume
from pytest_kscen.objects.quantities import nanos
from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
PROVISIONER_BETA = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def annotations_of(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}


def class_of(obj: Obj) -> str:
    """Return the storage class name of a claim or a volume. The beta annotation precedes the
    spec; the result is empty without both.
    """
    return str(annotations_of(obj).get(BETA_CLASS) or obj["spec"].get("storageClassName") or "")


def delays_binding(storage_class: Obj | None) -> bool:
    """Return True if claims of this class are bound only after their pod is scheduled."""
    return bool(storage_class and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")


def has_provisioner(storage_class: Obj | None) -> bool:
    return bool(storage_class and storage_class["provisioner"] != NO_PROVISIONER)


def is_bound(claim: Obj) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_claim_ref_of(volume: Obj, claim: Obj) -> bool:
    """Return True if the volume's claimRef names this claim, by uid or, before binding, by name
    alone.
    """
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or (reference["name"], reference["namespace"]) != (
        metadata["name"],
        metadata["namespace"],
    ):
        return False
    return reference.get("uid") in {None, "", metadata["uid"]}


def requested_storage(claim: Obj) -> str:
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def capacity_of(volume: Obj) -> int:
    return nanos((volume["spec"].get("capacity") or {}).get("storage", "0"))


def mismatch_reason(volume: Obj, claim: Obj) -> str:
    """Return the reason why a volume does not satisfy a claim, in Kubernetes' words; empty if
    it does.
    """
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity_of(volume) < nanos(requested_storage(claim)):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if volume["spec"].get("volumeMode", "Filesystem") != claim["spec"].get(
        "volumeMode", "Filesystem"
    ):
        return "incompatible volumeMode"
    if not all(
        mode in (volume["spec"].get("accessModes") or ())
        for mode in claim["spec"].get("accessModes") or ()
    ):
        return "incompatible accessMode"
    return ""


def best_match(
    claim: Obj, volumes: Iterable[Obj], *, node: Obj | None = None, delayed: bool = False
) -> Obj | None:
    """Return the volume reserved for the claim, or else the smallest available one that satisfies
    it, or None.

    With a node, only volumes that this node can reach are considered. A delayed claim gets no
    unreserved volume without a node.
    """
    best: Obj | None = None
    for volume in volumes:
        if volume["spec"].get("claimRef"):
            if is_claim_ref_of(volume, claim) and not _is_unsatisfactory(volume, claim):
                return volume if node is None or node_matches_volume(volume, node) else None
            continue
        if (delayed and node is None) or not _is_free_for(volume, claim):
            continue
        if node is not None and not node_matches_volume(volume, node):
            continue
        if best is None or _rank(volume) < _rank(best):
            best = volume
    return best


def _is_unsatisfactory(volume: Obj, claim: Obj) -> bool:
    modes = [one["spec"].get("volumeMode", "Filesystem") for one in (volume, claim)]
    return capacity_of(volume) < nanos(requested_storage(claim)) or modes[0] != modes[1]


def _is_free_for(volume: Obj, claim: Obj) -> bool:
    selector = claim["spec"].get("selector")
    return (
        (volume.get("status") or {}).get("phase") == "Available"
        and (selector is None or matches_selector(selector, volume["metadata"].get("labels")))
        and not mismatch_reason(volume, claim)
    )


def _rank(volume: Obj) -> tuple[int, int, str]:
    """Return the sort key of free volumes: fewest access modes, smallest capacity, name."""
    return (
        len(volume["spec"].get("accessModes") or ()),
        capacity_of(volume),
        volume["metadata"]["name"],
    )


async def bind(context: ControllerContext, volume: Obj, claim: Obj) -> None:
    """Bind a volume and a claim with up to four writes. The volume is written first, then the
    claim, each with its phase.

    A write that was done before is skipped, so an interrupted binding can be repeated.
    """
    bound = with_claim_ref(volume, claim)
    if bound is not volume:
        volume = await context.api.update(PERSISTENT_VOLUMES, bound)
    await set_volume_phase(context, volume, "Bound")
    bound, name = claim, volume["metadata"]["name"]
    if claim["spec"].get("volumeName") != name:
        bound = _with_annotation(
            {**claim, "spec": {**claim["spec"], "volumeName": name}}, BOUND_BY_CONTROLLER
        )
    if BIND_COMPLETED not in annotations_of(bound):
        bound = _with_annotation(bound, BIND_COMPLETED)
    if bound is not claim:
        claim = await context.api.update(PERSISTENT_VOLUME_CLAIMS, bound)
    await set_claim_phase(context, claim, "Bound", volume)


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


def with_claim_ref(volume: Obj, claim: Obj) -> Obj:
    """Return the volume with a complete reference to the claim; the same object if it has one."""
    spec = volume["spec"]
    if is_claim_ref_of(volume, claim):
        if spec["claimRef"].get("uid"):
            return volume
        return {
            **volume,
            "spec": {
                **spec,
                "claimRef": {
                    **reference_to(claim),
                    **spec["claimRef"],
                    "uid": claim["metadata"]["uid"],
                },
            },
        }
    return _with_annotation(
        {**volume, "spec": {**spec, "claimRef": reference_to(claim)}}, BOUND_BY_CONTROLLER
    )


async def set_volume_phase(
    context: ControllerContext, volume: Obj, phase: str, message: str = ""
) -> Obj:
    status = volume.get("status") or {}
    if status.get("phase") == phase:
        return volume
    new = {
        "phase": phase,
        "lastPhaseTransitionTime": context.timestamp(),
        **({"message": message} if message else {}),
    }
    return await context.api.update(
        PERSISTENT_VOLUMES, {**volume, "status": new}, subresource="status"
    )


async def set_claim_phase(
    context: ControllerContext, claim: Obj, phase: str, volume: Obj | None = None
) -> Obj:
    """Write the claim's phase. A bound claim (`volume` given) gets the volume's access modes
    and capacity; another one loses them.
    """
    old = claim.get("status") or {}
    status = {
        name: value for name, value in old.items() if name not in {"accessModes", "capacity"}
    } | {"phase": phase}
    if volume is not None:
        spec = volume["spec"]
        capacity = (
            old.get("capacity") if old.get("phase") == phase else None
        )  # a resizer may have changed it
        status |= {"accessModes": spec["accessModes"], "capacity": capacity or spec["capacity"]}
    if status == old:
        return claim
    return await context.api.update(
        PERSISTENT_VOLUME_CLAIMS, {**claim, "status": status}, subresource="status"
    )


def _with_annotation(obj: Obj, name: str) -> Obj:
    metadata = obj["metadata"]
    return {
        **obj,
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), name: "yes"},
        },
    }
