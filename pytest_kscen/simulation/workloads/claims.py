"""Adoption and release: an owner takes the orphans that its selector matches, and lets go of those that it no longer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import STRATEGIC_PATCH
from pytest_kscen.objects.errors import Conflict, Invalid, NotFound
from pytest_kscen.objects.selectors import matches_selector
from pytest_kscen.simulation.workloads.owners import controlled, orphans, reference_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench


class Claims:
    """What one kind of owner holds of one kind of dependents."""

    def __init__(self, bench: Bench, owners: Resource, dependents: Resource, *, finalizers: tuple[str, ...] = ()) -> None:
        self._bench = bench
        self._owners = owners
        self._dependents = dependents
        self._finalizers = finalizers
        self._index = controlled(bench.informers.of(dependents))

    async def of(self, owner: Obj, *, adoptable: Callable[[Obj], bool] = lambda _: True) -> list[Obj]:
        """Everything that the owner controls after it has adopted and released; one that is being deleted does neither."""
        metadata, selector = owner["metadata"], owner["spec"].get("selector")
        leaving, kept = bool(metadata.get("deletionTimestamp")), []
        for dependent in self._index.of(metadata["uid"]):
            if selector is not None and _selects(selector, dependent["metadata"].get("labels") or {}):
                kept.append(dependent)
            elif not leaving:
                await self._release(owner, dependent)
        if leaving or not selector:
            return kept
        found = orphans(self._index, metadata["namespace"], selector)
        wanted = [orphan for orphan in found if not orphan["metadata"].get("deletionTimestamp") and adoptable(orphan)]
        if wanted and await self._is_alive(owner):
            kept += [adopted for orphan in wanted if (adopted := await self._adopt(owner, orphan))]
        return kept

    async def _is_alive(self, owner: Obj) -> bool:
        """Asked of the API itself: an owner that is being deleted must adopt nothing."""
        metadata = owner["metadata"]
        try:
            live = await self._bench.api.get(self._owners, metadata["name"], metadata["namespace"])
        except NotFound:
            return False
        return live["metadata"]["uid"] == metadata["uid"] and not live["metadata"].get("deletionTimestamp")

    async def _adopt(self, owner: Obj, orphan: Obj) -> Obj | None:
        ours = {"ownerReferences": [reference_to(owner, self._owners)]}
        return await self._patch(orphan, {**ours, **({"finalizers": list(self._finalizers)} if self._finalizers else {})})

    async def _release(self, owner: Obj, dependent: Obj) -> None:
        gone = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
        finalizers = {"$deleteFromPrimitiveList/finalizers": list(self._finalizers)} if self._finalizers else {}
        await self._patch(dependent, {"ownerReferences": [gone], **finalizers})

    async def _patch(self, dependent: Obj, change: Obj) -> Obj | None:
        metadata = dependent["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], **change}}
        place = (metadata["name"], patch, metadata["namespace"])
        try:
            return await self._bench.api.patch(self._dependents, *place, patch_type=STRATEGIC_PATCH)
        except (NotFound, Conflict, Invalid):  # it has gone, another has taken its name, or another owner was faster
            return None


def _selects(selector: Obj, labels: dict[str, str]) -> bool:
    """Asked of each dependent at each look: as most selectors ask only for equal labels, those are compared at once."""
    if selector.get("matchExpressions"):
        return matches_selector(selector, labels)
    return (selector.get("matchLabels") or {}).items() <= labels.items()
