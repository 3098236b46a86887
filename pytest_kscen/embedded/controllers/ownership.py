"""Who controls what: controller references, and the way from a changed dependent to the owners
that must look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import Conflict, Invalid, NotFound
from pytest_kscen.objects.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Index
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj, Resource


def controller_of(obj: Obj | None) -> Obj | None:
    """The owner reference of whoever controls it."""
    for reference in (obj or {}).get("metadata", {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def has_same_owners(new: Obj, old: Obj) -> bool:
    """Told at a glance: what no write has touched is the same object."""
    return new["metadata"].get("ownerReferences") is old["metadata"].get("ownerReferences")


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def reference_to(owner: Obj, resource: Resource) -> Obj:
    """The reference that makes this owner the controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def by_controller(obj: Obj) -> Iterator[Hashable]:
    """Keys of an index: the controller's uid; of those who have none their namespace, alone and
    with each of their labels.
    """
    reference, metadata = controller_of(obj), obj["metadata"]
    if reference:
        yield reference["uid"]
        return
    namespace = metadata.get("namespace", "")
    yield "orphans", namespace
    for label in (metadata.get("labels") or {}).items():
        yield "orphans", namespace, label


def find_orphans(index: Index, namespace: str, selector: Obj) -> list[Obj]:
    """Those without a controller that a selector selects; one equality, if it has any, narrows
    the search.
    """
    label = next(iter((selector.get("matchLabels") or {}).items()), None)
    candidates = index.of(("orphans", namespace, label) if label else ("orphans", namespace))
    return [obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))]


def by_namespace(obj: Obj) -> Iterator[Hashable]:
    yield obj["metadata"].get("namespace", "")


def controller_index(informer: Informer) -> Index:
    return informer.index("controller", by_controller, lasting=True)


def namespace_index(informer: Informer) -> Index:
    return informer.index("namespace", by_namespace, lasting=True)


class OwnerEnqueuer:
    """Wakes the owners of what has changed: the controller, a former one, or all that might
    adopt an orphan.
    """

    def __init__(
        self,
        enqueue: Callable[[Ref], None],
        owners: Informer,
        dependents: Informer,
        *,
        matters: Callable[[Obj], object] | None = None,
    ) -> None:
        """`matters` is all that an owner looks at in a dependent of its own; without it, every
        change counts.
        """
        self._enqueue = enqueue
        self._owners = owners
        self._matters = matters
        self._by_namespace = namespace_index(owners)
        dependents.on_change(self.see)

    def see(self, new: Obj | None, old: Obj | None) -> None:
        before = controller_of(old)
        now = before if new and old and has_same_owners(new, old) else controller_of(new)
        if now and now is before:
            if now["kind"] == self._owners.resource.kind and not self._says_nothing(new, old):
                self._wake(new, now)
            return
        if before and (not now or before["uid"] != now["uid"]):
            self._wake(old, before)
        if now:
            self._wake(new, now)
        elif new and (
            old is None or before or old["metadata"].get("labels") != new["metadata"].get("labels")
        ):
            metadata = new["metadata"]
            for owner in self._by_namespace.of(metadata.get("namespace", "")):
                if matches_selector(owner["spec"].get("selector"), metadata.get("labels")):
                    self._enqueue(Ref.of(owner))

    def _says_nothing(self, new: Obj | None, old: Obj | None) -> bool:
        return bool(new and old and self._matters and self._matters(new) == self._matters(old))

    def _wake(self, dependent: Obj | None, reference: Obj) -> None:
        if reference["kind"] != self._owners.resource.kind or dependent is None:
            return
        ref = Ref(dependent["metadata"].get("namespace", ""), reference["name"])
        owner = self._owners.objects.get(ref)
        if owner and owner["metadata"]["uid"] == reference["uid"]:
            self._enqueue(ref)


class ControllerRefManager:
    """What one kind of owner holds of one kind of dependents."""

    def __init__(
        self,
        context: ControllerContext,
        owners: Resource,
        dependents: Resource,
        *,
        finalizers: tuple[str, ...] = (),
    ) -> None:
        self._context = context
        self._owners = owners
        self._dependents = dependents
        self._finalizers = finalizers
        self._index = controller_index(context.informers.of(dependents))

    async def of(
        self, owner: Obj, *, adoptable: Callable[[Obj], bool] = lambda _: True
    ) -> list[Obj]:
        """Everything that the owner controls after it has adopted and released; one that is
        being deleted does neither.
        """
        metadata, selector = owner["metadata"], owner["spec"].get("selector")
        leaving, kept = bool(metadata.get("deletionTimestamp")), []
        for dependent in self._index.of(metadata["uid"]):
            if selector is not None and _selector_matches(
                selector, dependent["metadata"].get("labels") or {}
            ):
                kept.append(dependent)
            elif not leaving:
                gone = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
                finalizers = (
                    {"$deleteFromPrimitiveList/finalizers": list(self._finalizers)}
                    if self._finalizers
                    else {}
                )
                await self._patch(dependent, {"ownerReferences": [gone], **finalizers})
        if leaving or not selector:
            return kept
        found = find_orphans(self._index, metadata["namespace"], selector)
        wanted = [
            orphan
            for orphan in found
            if not orphan["metadata"].get("deletionTimestamp") and adoptable(orphan)
        ]
        if wanted and await self._is_alive(owner):
            kept += [adopted for orphan in wanted if (adopted := await self._adopt(owner, orphan))]
        return kept

    async def _is_alive(self, owner: Obj) -> bool:
        """Asked of the API itself: an owner that is being deleted must adopt nothing."""
        metadata = owner["metadata"]
        try:
            live = await self._context.api.get(
                self._owners, metadata["name"], metadata["namespace"]
            )
        except NotFound:
            return False
        return live["metadata"]["uid"] == metadata["uid"] and not live["metadata"].get(
            "deletionTimestamp"
        )

    async def _adopt(self, owner: Obj, orphan: Obj) -> Obj | None:
        ours = {"ownerReferences": [reference_to(owner, self._owners)]}
        return await self._patch(
            orphan, {**ours, **({"finalizers": list(self._finalizers)} if self._finalizers else {})}
        )

    async def _patch(self, dependent: Obj, change: Obj) -> Obj | None:
        metadata = dependent["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], **change}}
        place = (metadata["name"], patch, metadata["namespace"])
        try:
            return await self._context.api.patch(
                self._dependents, *place, patch_type=STRATEGIC_PATCH
            )
        except (
            NotFound,
            Conflict,
            Invalid,
        ):  # it has gone, another has taken its name, or another owner was faster
            return None


def _selector_matches(selector: Obj, labels: dict[str, str]) -> bool:
    """Asked of each dependent at each look: as most selectors ask only for equal labels, those
    are compared at once.
    """
    if selector.get("matchExpressions"):
        return matches_selector(selector, labels)
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def _by_label(obj: Obj) -> Iterator[Hashable]:
    metadata = obj["metadata"]
    for key, value in (metadata.get("labels") or {}).items():
        yield metadata.get("namespace", ""), key, value


class LabelSelectorIndex:
    """Answers for one resource."""

    def __init__(self, informer: Informer) -> None:
        self._by_namespace = namespace_index(informer)
        self._by_label = informer.index("label", _by_label, lasting=True)

    def of(self, selector: Obj, namespace: str) -> list[Obj]:
        """The objects of a namespace that a LabelSelector selects; one equality, if it has any,
        narrows the search.
        """
        equal = selector.get("matchLabels") or {}
        if equal:
            key, value = next(iter(equal.items()))
            candidates = self._by_label.of((namespace, key, value))
        else:
            candidates = self._by_namespace.of(namespace)
        return [
            obj for obj in candidates if matches_selector(selector, obj["metadata"].get("labels"))
        ]
