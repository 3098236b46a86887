"""Plugin VolumeBinding: run pods where their volumes are, and bind their claims before binding
them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.indexes import claim_of, claims_of, volumes_by_class
from pytest_kscen.embedded.node_matching import matches_node_selector, node_matches_volume
from pytest_kscen.embedded.scheduler.framework.events import (
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    NODE,
    Action,
    Interest,
)
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import SKIP, Status, failure, unresolvable
from pytest_kscen.embedded.volume_matching import (
    SELECTED_NODE,
    best_match,
    class_of,
    delays_binding,
    has_provisioner,
    is_bound,
    requested_storage,
    with_claim_ref,
)
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.quantities import nanos
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj


class StorageCapacities:
    """CSIStorageCapacity objects, for drivers that publish them; checked before a volume is
    provisioned on a node.
    """

    def __init__(self, informers: Informers) -> None:
        self._drivers = informers.of(CSI_DRIVERS)
        self._capacities = informers.of(CSI_STORAGE_CAPACITIES)

    def has_enough(self, claim: Obj, storage_class: Obj, node: Obj) -> bool:
        driver = self._drivers.get(storage_class.get("provisioner", ""))
        if driver is None or not (driver.get("spec") or {}).get("storageCapacity"):
            return True
        wanted = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
        name, labels = storage_class["metadata"]["name"], node["metadata"].get("labels")
        return wanted is None or any(
            one.get("storageClassName") == name
            and (limit := one.get("maximumVolumeSize") or one.get("capacity"))
            and nanos(limit) >= nanos(wanted)
            and matches_selector(one.get("nodeTopology"), labels)
            for one in self._capacities
        )


NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """Bound volumes of a pod, and its claims that wait for a node to be chosen, each with its
    class.
    """

    volumes: list[Obj] = field(default_factory=list)
    waiting: list[tuple[Obj, Obj | None]] = field(default_factory=list)
    problem: str = ""
    """Reason why no node is feasible."""
    lacks_volume: bool = False


class VolumeBinder:
    """Claims and volumes of the cluster: finds a pod's claims, checks nodes, and binds the
    claims.
    """

    def __init__(self, context: ControllerContext, timeout: float) -> None:
        self._context = context
        self._timeout = timeout
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = context.informers.of(PERSISTENT_VOLUMES)
        self._classes = context.informers.of(STORAGE_CLASSES)
        self._capacities = StorageCapacities(context.informers)
        self._by_class = volumes_by_class(context.informers)
        self._waiting: dict[Ref, list[asyncio.Future[None]]] = {}
        self._claims.on_change(lambda new, _: self._wake(Ref.of(new)) if new else None)

    def of(self, pod: Obj) -> PodVolumeClaims:
        volumes: list[Obj] = []
        waiting: list[tuple[Obj, Obj | None]] = []
        lacks_volume = unbound = False
        for volume in pod["spec"].get("volumes") or ():
            ref = claim_of(pod, volume)
            if ref is None:
                continue
            claim = self._claims.objects.get(ref)
            if claim is None:
                return PodVolumeClaims(
                    problem="waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{ref.name}"'
                    if "ephemeral" in volume
                    else f'persistentvolumeclaim "{ref.name}" not found'
                )
            if problem := _claim_problem(claim):
                return PodVolumeClaims(problem=problem)
            storage_class = self._classes.get(class_of(claim))
            if is_bound(claim):
                found = self._volumes.get(claim["spec"]["volumeName"])
                volumes += [found] if found else []
                lacks_volume = lacks_volume or found is None
            elif delays_binding(storage_class) and not claim["spec"].get("volumeName"):
                waiting.append((claim, storage_class))
            else:
                unbound = True
        return PodVolumeClaims(volumes, waiting, UNBOUND_IMMEDIATE if unbound else "", lacks_volume)

    def conflicts(self, claims: PodVolumeClaims, node: Obj) -> list[str]:
        reasons = []
        if not all(node_matches_volume(volume, node) for volume in claims.volumes):
            reasons.append(NODE_CONFLICT)
        if claims.lacks_volume:
            reasons.append(VOLUME_MISSING)
        plan = self._plan(claims, node) if claims.waiting else []
        if isinstance(plan, str):
            reasons.append(plan)
        return reasons

    def _plan(self, claims: PodVolumeClaims, node: Obj) -> list[tuple[Obj, Obj | None]] | str:
        """Return for each waiting claim the volume to bind, or None to provision one; or a reason
        why there is no plan.

        Small claims choose first. A claim with a selected node gets its volume provisioned there.
        """
        plan: list[tuple[Obj, Obj | None]] = []
        for claim, storage_class in sorted(
            claims.waiting, key=lambda one: nanos(requested_storage(one[0]))
        ):
            chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
            if chosen and chosen != node["metadata"]["name"]:
                return NO_VOLUME_TO_BIND
            taken = [volume["metadata"]["name"] for _, volume in plan if volume]
            free = [
                one
                for one in self._by_class.of(class_of(claim))
                if one["metadata"]["name"] not in taken
            ]
            volume = None if chosen else best_match(claim, free, node=node)
            if volume is None:
                if storage_class is None or not (
                    has_provisioner(storage_class) and _topology_allows(storage_class, node)
                ):
                    return NO_VOLUME_TO_BIND
                if not self._capacities.has_enough(claim, storage_class, node):
                    return NO_SPACE
            plan.append((claim, volume))
        return plan

    async def bind_claims(self, claims: PodVolumeClaims, node: Obj) -> bool:
        """Bind the waiting claims as planned for this node, and wait for it. Return False if there
        is no plan or the time limit has passed.
        """
        plan = self._plan(claims, node)
        if isinstance(plan, str):
            return False
        for claim, volume in plan:
            if volume is not None:
                await self._context.api.update(PERSISTENT_VOLUMES, with_claim_ref(volume, claim))
            else:
                patch = {"metadata": {"annotations": {SELECTED_NODE: node["metadata"]["name"]}}}
                metadata = claim["metadata"]
                await self._context.api.patch(
                    PERSISTENT_VOLUME_CLAIMS, metadata["name"], patch, metadata["namespace"]
                )
        until = self._context.now() + self._timeout
        return all([await self._wait_until_bound(Ref.of(claim), until) for claim, _ in plan])

    async def _wait_until_bound(self, ref: Ref, until: float) -> bool:
        """Wait until the claim is bound or this time has come; return whether it is bound."""
        loop = asyncio.get_running_loop()
        while (claim := self._claims.objects.get(ref)) is None or not is_bound(claim):
            left = until - self._context.now()
            if left <= 0:
                return False
            future = loop.create_future()
            self._waiting.setdefault(ref, []).append(future)
            timeout = loop.call_later(left, self._wake, ref)
            await future
            timeout.cancel()
        return True

    def _wake(self, ref: Ref) -> None:
        for future in self._waiting.pop(ref, ()):
            if not future.done():
                future.set_result(None)


def _claim_problem(claim: Obj) -> str:
    name = claim["metadata"]["name"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        return (
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
            f'"{claim["spec"].get("volumeName", "")}"'
        )
    return (
        f'persistentvolumeclaim "{name}" is being deleted'
        if claim["metadata"].get("deletionTimestamp")
        else ""
    )


def _topology_allows(storage_class: Obj | None, node: Obj) -> bool:
    """Return True if the class has no allowedTopologies, or the node matches one of its terms."""
    terms = (storage_class or {}).get("allowedTopologies")
    if not terms:
        return True
    words = [
        {
            "matchExpressions": [
                {**one, "operator": "In"} for one in term.get("matchLabelExpressions") or ()
            ]
        }
        for term in terms
    ]
    return matches_node_selector({"nodeSelectorTerms": words}, node)


BIND_TIMEOUT = 600.0  # seconds that a pod waits for its claims once a node is chosen


class VolumeBinding(Plugin):
    """Filter by volume topology and capacity; before binding, it binds the claims that waited for a
    node.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = VolumeBinder(handle.context, args.get("bindTimeoutSeconds", BIND_TIMEOUT))

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        if not pod.spec.get("volumes"):
            return SKIP
        claims = self._claims.of(pod.obj)
        if claims.problem:
            return unresolvable(claims.problem)
        if not claims.volumes and not claims.waiting and not claims.lacks_volume:
            return SKIP
        state[self.name] = claims
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        reasons = self._claims.conflicts(state[self.name], node.node)
        return unresolvable(*reasons) if reasons else None

    def pre_bind_waits(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        claims = state.get(self.name)
        return bool(claims and claims.waiting)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        claims, info = state.get(self.name), self.handle.snapshot.get(node)
        if claims is None or not claims.waiting:
            return None
        if info is not None and await self._claims.bind_claims(claims, info.node):
            return None
        return failure("binding volumes: the claims of the pod have not been bound in time")

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                "StorageClass",
                Action.ADD | Action.UPDATE,
                lambda _, old, new: (
                    old is None
                    or new is None
                    or old.get("allowedTopologies") != new.get("allowedTopologies")
                ),
            ),
            Interest("PersistentVolumeClaim", Action.ADD | Action.UPDATE, is_claim_of_pod),
            Interest("PersistentVolume", Action.ADD | Action.UPDATE),
            Interest("CSIStorageCapacity", Action.ADD | Action.UPDATE),
            Interest("CSIDriver", Action.UPDATE),
            Interest(NODE, Action.ADD | Action.NODE_LABEL),
        )


def is_claim_of_pod(pod: PodInfo, _: Obj | None, new: Obj | None) -> bool:
    """Return True if the changed claim is used by the refused pod, also as an ephemeral volume."""
    return new is not None and Ref.of(new) in claims_of(pod.obj)
